//! Erases the contents of records without changing the log otherwise.

use super::{checkpoint, name, record};
use crate::search::Query;
use crate::{Append, Head, Store, Tombstone, checksum};

/// Replaces the intended records with tombstones, and no others.
pub(super) async fn erases_records(store: &dyn Store) {
    let (log, other) = (name("team/one"), name("team/two"));
    let records = || vec![record("apple pie"), record("banana"), checkpoint(), record("apple juice"), record("cherry")];
    for log in [&log, &other] {
        store.append(log, Append::new(0, records()).time(Some(5))).await.unwrap();
    }
    let more: Vec<_> = (0..30).map(|number| record(&format!("elder {number}"))).collect();
    store.append(&other, Append::new(5, more).time(Some(5))).await.unwrap();
    // Texts that were found before must not be found after.
    assert_eq!(store.search(None, &Query::new("apple"), 9).await.unwrap().len(), 4);
    let before = store.info(&log).await.unwrap().unwrap();
    let at =
        |position: u64, body: &str| Tombstone::new(position, checksum(&log, position, body), format!("[{position}]"));
    let all: Vec<String> = records().into_iter().map(|record| record.body).collect();

    let tombstones = vec![at(0, &all[0]), at(1, "another record"), at(3, &all[3]), at(9, "{}")];
    store.erase(&log, tombstones.clone()).await.unwrap();
    let left = ["[0]", &all[1], &all[2], "[3]", &all[4]];
    assert_eq!(store.read(&log, 0..9).await.unwrap(), left, "those that were meant, and no others");
    assert_eq!(store.read(&other, 0..5).await.unwrap(), all);
    assert_eq!(store.head(&log, None).await.unwrap(), Some(Head::new(5, Some(2))));
    let (head, tail) = store.tail(&log).await.unwrap().unwrap();
    assert_eq!((head.end, tail.as_slice()), (5, &left.map(str::to_owned)[2..]));
    let info = store.info(&log).await.unwrap().unwrap();
    let bytes = left.iter().map(|body| body.len() as u64).sum::<u64>();
    assert_eq!((info.records, info.bytes, info.created, info.used), (5, bytes, before.created, before.used));

    let found = async |query: &str| -> Vec<(String, u64)> {
        let hits = store.search(None, &Query::new(query), 9).await.unwrap();
        hits.into_iter().map(|hit| (hit.log.to_string(), hit.position)).collect()
    };
    assert_eq!(found("apple").await, [("team/two".to_owned(), 3), ("team/two".to_owned(), 0)]);
    assert_eq!(found("banana").await.len(), 2);
    assert_eq!(store.search(Some(&log), &Query::new("juice pie"), 9).await.unwrap(), []);

    // The same call again, or in a log that does not exist, changes nothing.
    store.erase(&log, tombstones).await.unwrap();
    store.erase(&log, Vec::new()).await.unwrap();
    store.erase(&name("nobody"), vec![at(0, &all[0])]).await.unwrap();
    assert_eq!(store.read(&log, 0..9).await.unwrap(), left);
    assert_eq!(store.info(&name("nobody")).await.unwrap(), None);

    // The log continues, and its new texts are found.
    store.append(&log, Append::new(5, [record("apple cake"), record("damson")]).time(Some(6))).await.unwrap();
    assert_eq!(found("cake").await, [("team/one".to_owned(), 5)]);
    assert_eq!(found("damson cherry").await.len(), 3);
    assert_eq!(store.read(&log, 4..7).await.unwrap()[1..], [record("apple cake").body, record("damson").body]);
    let rest = (0..7).map(|position| (position, store.read(&log, position..position + 1)));
    let mut tombstones = Vec::new();
    for (position, body) in rest {
        tombstones.push(at(position, &body.await.unwrap()[0]));
    }
    store.erase(&log, tombstones).await.unwrap();
    assert_eq!(store.read(&log, 0..9).await.unwrap(), (0..7).map(|at| format!("[{at}]")).collect::<Vec<_>>());
    assert_eq!(store.head(&log, None).await.unwrap(), Some(Head::new(7, Some(2))));
    assert_eq!(store.search(Some(&log), &Query::new("apple banana cherry damson"), 9).await.unwrap(), []);
    assert_eq!(store.delete(&[log, other]).await.unwrap(), 2);
}
