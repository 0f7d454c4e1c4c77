//! Appends, reads, lists, finds and erases.

use super::{checkpoint, name, record};
use crate::search::Query;
use crate::{Append, Head, LogName, Record, Store, StoreError};

/// Appends only at the end of a log, and reads, lists, finds and erases its records.
pub(super) async fn keeps_logs(store: &dyn Store) {
    let (one, two) = (name("one"), name("team/two \u{e9}"));
    let bodies = |texts: &[&str]| texts.iter().map(|text| record(text).body).collect::<Vec<_>>();

    // An empty store.
    assert_eq!(store.head(&one, None).await.unwrap(), None);
    assert_eq!(store.read(&one, 0..10).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.list("").await.unwrap(), Vec::new());
    assert_eq!(store.delete(std::slice::from_ref(&one)).await.unwrap(), 0);
    assert!(store.search(None, &Query::new("apple"), 9).await.unwrap().is_empty());

    // Appending, and the end of the log.
    store.append(&one, Append::new(0, [record("apple pie"), record("banana")])).await.unwrap();
    store.append(&one, Append::new(2, [checkpoint(), record("apple and cherry"), checkpoint()])).await.unwrap();
    store.append(&two, Append::new(0, [record("cherry")])).await.unwrap();
    assert_eq!(store.head(&one, None).await.unwrap(), Some(Head::new(5, Some(4))));
    assert_eq!(store.head(&two, None).await.unwrap(), Some(Head::new(1, None)));

    // The newest checkpoint before a position.
    for (before, expected) in [(0, None), (2, None), (3, Some(2)), (4, Some(2)), (5, Some(4)), (u64::MAX, Some(4))] {
        let head = store.head(&one, Some(before)).await.unwrap().unwrap();
        assert_eq!(head, Head::new(5, expected), "before {before}");
    }

    // A writer that is wrong about the end writes nothing.
    for at in [0, 4, 6, u64::MAX] {
        let refused = store.append(&one, Append::new(at, [record("doubled")])).await;
        assert!(matches!(refused, Err(StoreError::Conflict { at: said, end: 5 }) if said == at), "{refused:?}");
    }
    let refused = store.append(&name("none"), Append::new(1, [record("doubled")])).await;
    assert!(matches!(refused, Err(StoreError::Conflict { at: 1, end: 0 })), "{refused:?}");
    assert_eq!(store.head(&name("none"), None).await.unwrap(), None);

    // Reading.
    assert_eq!(store.read(&one, 0..2).await.unwrap(), bodies(&["apple pie", "banana"]));
    assert_eq!(store.read(&one, 3..4).await.unwrap(), bodies(&["apple and cherry"]));
    assert_eq!(store.read(&one, 4..u64::MAX).await.unwrap(), ["{}"]);
    assert_eq!(store.read(&one, 3..3).await.unwrap(), Vec::<String>::new());
    #[allow(clippy::reversed_empty_ranges, reason = "a caller may be that wrong")]
    let backward = store.read(&one, 4..1).await.unwrap();
    assert_eq!(backward, Vec::<String>::new());

    // Reading several spans at once: one list for each, in their order.
    let spans = [3..4, 0..2, 1..1, 4..u64::MAX, 7..9, 0..1];
    let expected = [
        bodies(&["apple and cherry"]),
        bodies(&["apple pie", "banana"]),
        Vec::new(),
        vec!["{}".to_owned()],
        Vec::new(),
        bodies(&["apple pie"]),
    ];
    assert_eq!(store.read_many(&one, &spans).await.unwrap(), expected);
    assert_eq!(store.read_many(&one, &[]).await.unwrap(), Vec::<Vec<String>>::new());
    assert_eq!(store.read_many(&name("none"), &spans).await.unwrap(), vec![Vec::<String>::new(); spans.len()]);
    let shared = name("one").shared_of();
    store.append(&shared, Append::new(0, [record("apple"), record("banana"), record("cherry")])).await.unwrap();
    assert_eq!(
        store.read_many(&shared, &[2..3, 0..2]).await.unwrap(),
        [bodies(&["cherry"]), bodies(&["apple", "banana"])]
    );
    assert_eq!(store.delete(&[shared]).await.unwrap(), 1);

    // The end of a log, from its newest checkpoint on.
    let tail = Some((Head::new(5, Some(4)), vec!["{}".to_owned()]));
    assert_eq!(store.tail(&one).await.unwrap(), tail);
    assert_eq!(store.tail(&two).await.unwrap(), Some((Head::new(1, None), bodies(&["cherry"]))));
    assert_eq!(store.tail(&name("none")).await.unwrap(), None);

    // Listing, by name.
    let list = store.list("").await.unwrap();
    let names: Vec<_> = list.iter().map(|info| (info.name.as_str(), info.records)).collect();
    assert_eq!(names, [("one", 5), ("team/two \u{e9}", 1)]);
    assert_eq!(list[1].bytes, record("cherry").body.len() as u64);

    // Searching: any of the words, in any order and case; one log or all.
    let found = |log: Option<LogName>, query: &'static str, most: usize| async move {
        let hits = store.search(log.as_ref(), &Query::new(query), most).await.unwrap();
        let mut hits: Vec<_> = hits.into_iter().map(|hit| (hit.log.to_string(), hit.position)).collect();
        hits.sort();
        hits
    };
    let hit = |log: &LogName, position| (log.to_string(), position);
    assert_eq!(found(None, "APPLE", 9).await, [hit(&one, 0), hit(&one, 3)]);
    assert_eq!(found(None, "cherry apple", 9).await, [hit(&one, 0), hit(&one, 3), hit(&two, 0)]);
    assert_eq!(found(None, "cherry apple", 1).await, [hit(&one, 3)], "it has both");
    assert_eq!(found(Some(two.clone()), "cherry", 9).await, [hit(&two, 0)]);
    assert_eq!(found(None, "cherry", 9).await, [hit(&one, 3), hit(&two, 0)]);
    assert_eq!(found(None, "apple", 1).await.len(), 1);
    // Only whole words match, and a query has no operators.
    for query in ["", "  ", "\"", "app", "NOT", "(", "\0", "said", "said:", "text:app", "rowid"] {
        assert_eq!(found(None, query, 9).await, [], "{query:?}");
    }
    assert_eq!(found(None, "said:apple AND NOT apple", 9).await, [hit(&one, 0), hit(&one, 3)]);
    assert_eq!(found(None, "pie*", 9).await, [hit(&one, 0)]);

    // An erased log is gone, and its name can be used again.
    assert_eq!(store.delete(&[one.clone(), name("none")]).await.unwrap(), 1);
    assert_eq!(store.delete(std::slice::from_ref(&one)).await.unwrap(), 0);
    assert_eq!(store.head(&one, None).await.unwrap(), None);
    assert_eq!(found(None, "apple", 9).await, []);
    assert_eq!(found(None, "cherry", 9).await, [hit(&two, 0)]);
    store.append(&one, Append::new(0, [record("new apple")])).await.unwrap();
    assert_eq!(found(None, "apple", 9).await, [hit(&one, 0)]);

    // Bodies and texts of any content.
    let odd = Record::new("\"\u{1f600}\\u0000\"").text("nul\0inside \u{1f600} pear_tree");
    store.append(&one, Append::new(1, [odd.clone()])).await.unwrap();
    assert_eq!(store.read(&one, 1..2).await.unwrap(), [odd.body]);
    assert_eq!(found(None, "pear_tree", 9).await, [hit(&one, 1)]);
    let any = Record::new("no JSON: \0 \u{1} \n \r\n \u{2028} \u{feff} \u{ffff}");
    store.append(&one, Append::new(2, [any.clone(), Record::new("")])).await.unwrap();
    assert_eq!(store.read(&one, 2..4).await.unwrap(), [any.body, String::new()]);

    // Several logs are erased at once, and each is counted once.
    assert_eq!(store.delete(&[one.clone(), two.clone(), one.clone()]).await.unwrap(), 2);
    assert_eq!(store.delete(&[]).await.unwrap(), 0);
    assert_eq!(store.list("").await.unwrap(), Vec::new());
}
