//! Several writers of one log at once.

use std::sync::Arc;

use futures_lite::future::block_on;

use super::{name, record};
use crate::{Append, Store, StoreError};

/// Asserts that no writer of a log overwrites the records of another. Each store is for one writer: they may be the
/// same store, or several connections to the same place. Blocks the thread.
pub fn keeps_every_append(stores: &[Arc<dyn Store>], count: u64) {
    let log = name("raced");
    std::thread::scope(|scope| {
        for (writer, store) in stores.iter().enumerate() {
            let log = &log;
            scope.spawn(move || {
                let mut at = 0;
                for n in 0..count {
                    loop {
                        let said = record(&format!("writer{writer} {n}"));
                        match block_on(store.append(log, Append::new(at, [said.clone(), said]).time(Some(1)))) {
                            Ok(()) => break at += 2,
                            Err(StoreError::Conflict { end, .. }) => at = end,
                            // With so many writers, one may wait longer than its patience.
                            Err(StoreError::Locked { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let Some(store) = stores.first() else { return };
    let bodies = block_on(store.read(&log, 0..u64::MAX)).unwrap();
    assert_eq!(bodies.len() as u64, 2 * count * stores.len() as u64);
    for writer in 0..stores.len() {
        let own: Vec<_> = bodies.iter().filter(|body| body.contains(&format!("writer{writer} "))).cloned().collect();
        let twice = |n| [record(&format!("writer{writer} {n}")).body, record(&format!("writer{writer} {n}")).body];
        assert_eq!(own, (0..count).flat_map(twice).collect::<Vec<_>>(), "writer {writer}");
    }
    assert!(bodies.chunks(2).all(|pair| pair[0] == pair[1]), "an append stays together");
    assert_eq!(block_on(store.delete(&[log])).unwrap(), 1);
}

/// Asserts that a store recognizes an append that is repeated with its key, and writes it once. Only for stores whose
/// answers can get lost, such as those over a network.
pub async fn recognizes_a_repeated_append(store: &dyn Store) {
    let log = name("repeated");
    store.append(&log, Append::new(0, [record("zero")])).await.unwrap();
    let append = Append::new(1, [record("one"), record("two")]);
    store.append(&log, append.clone()).await.unwrap();
    store.append(&log, append.clone()).await.unwrap();
    store.append(&log, Append::new(3, [record("three")])).await.unwrap();
    // Without records, a writer asks.
    store.append(&log, Append::new(1, []).key(append.key)).await.unwrap();
    assert_eq!(store.read(&log, 0..9).await.unwrap().len(), 4);
    for other in [Append::new(1, append.records), Append::new(1, []), Append::new(0, []).key(append.key)] {
        let refused = store.append(&log, other).await;
        assert!(matches!(refused, Err(StoreError::Conflict { end: 4, .. })), "{refused:?}");
    }
    assert_eq!(store.delete(&[log]).await.unwrap(), 1);
}
