//! Several writers of one log at once.

use std::sync::Arc;

use futures_lite::future::block_on;

use super::{name, record};
use crate::{Store, StoreError};

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
                        match block_on(store.append(log, at, vec![said.clone(), said], Some(1))) {
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
