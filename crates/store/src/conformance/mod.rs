//! The test suite that every store must pass, for authors of stores.
//!
//! [`conforms`] takes an empty store, asserts every promise of [`Store`](crate::Store), and leaves it empty. It panics
//! at the first promise that is not kept, like a test.
//!
//! ```
//! use lookback_store::MemoryStore;
//! use lookback_store::conformance;
//!
//! futures_lite::future::block_on(conformance::conforms(MemoryStore::new()));
//! ```
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "it is a test")]

mod derived;
mod erasing;
mod lists;
mod logs;
mod names;
mod search;
mod tenants;
mod times;
mod writers;

use std::sync::Arc;

use super::{IntoStore, LogName, Record};

use derived::keeps_derived_logs_apart;
use erasing::erases_records;
use lists::lists_by_prefix;
use logs::keeps_logs;
pub use names::keeps_names_apart;
use search::{finds_alike, ranks_alike};
use tenants::keeps_tenants_apart;
use times::keeps_times;
pub use writers::{keeps_every_append, recognizes_a_repeated_append};

/// Runs the suite. Two writers at once use the same store. For a store that several processes share, also run
/// [`keeps_every_append`] with several connections; for one over a network, [`recognizes_a_repeated_append`].
pub async fn conforms(store: impl IntoStore) {
    let shared = store.into_store();
    let writers = [Arc::clone(&shared), Arc::clone(&shared)];
    // On other threads, so that a store with its driver on this thread makes progress.
    blocking::unblock(move || keeps_every_append(&writers, 25)).await;
    let store = &*shared;
    keeps_logs(store).await;
    keeps_times(store).await;
    lists_by_prefix(store).await;
    keeps_derived_logs_apart(store).await;
    erases_records(store).await;
    finds_alike(store).await;
    ranks_alike(store).await;
    keeps_tenants_apart(store).await;
    keeps_names_apart(store, 500).await;
}

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn record(text: &str) -> Record {
    Record::new(format!("{{\"said\":{text:?}}}")).text(text)
}

fn checkpoint() -> Record {
    Record::new("{}").checkpoint(true)
}
