//! The logs that are derived from a session.

use super::{name, record};
use crate::search::Query;
use crate::{Append, LogName, Store, purge};

/// Keeps derived logs apart from sessions, and erases a session together with its derived logs.
pub(super) async fn keeps_derived_logs_apart(store: &dyn Store) {
    let long = name(&"x".repeat(LogName::LONGEST));
    let plain = name("team/one");
    for log in [&long, &plain] {
        store.append(log, Append::new(0, [record("apple")])).await.unwrap();
        store
            .append(&log.summary_of(), Append::new(0, [record("apple"), record("banana")]).time(Some(3)))
            .await
            .unwrap();
    }
    let derived = plain.summary_of();
    assert_eq!(store.read(&derived, 1..2).await.unwrap(), [record("banana").body]);
    assert_eq!(store.info(&derived).await.unwrap().unwrap().name, derived);
    let list = store.list("compact:").await.unwrap();
    let names: Vec<_> = list.into_iter().map(|info| info.name).collect();
    assert_eq!(names, [derived.clone(), long.summary_of()]);
    assert!(names.iter().all(LogName::is_derived));
    let hits = store.search(None, &Query::new("apple"), 9).await.unwrap();
    assert!(hits.len() == 2 && hits.iter().all(|hit| !hit.log.is_derived()), "{hits:?}");
    assert_eq!(store.search(None, &Query::new("banana"), 9).await.unwrap(), []);
    assert_eq!(store.search(Some(&derived), &Query::new("banana"), 9).await.unwrap(), []);
    // `delete` erases a log alone, `purge` a session with its derived logs.
    assert_eq!(store.delete(std::slice::from_ref(&long)).await.unwrap(), 1);
    assert_eq!(store.list("").await.unwrap().len(), 3);
    assert!(purge(store, &plain).await.unwrap());
    assert!(!purge(store, &plain).await.unwrap());
    assert_eq!(store.list("").await.unwrap().len(), 1);
    assert!(purge(store, &long).await.unwrap(), "its summaries are left");
    assert!(!purge(store, &long).await.unwrap());
    assert_eq!(store.list("").await.unwrap(), Vec::new());
}
