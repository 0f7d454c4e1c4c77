//! What every store must do, as a suite that anybody who writes one can run against it.
//!
//! Each function takes a store in which nothing is, asserts what a store promises, and leaves nothing in it. It panics
//! at the first promise that is not kept, as a test does. [`conforms`] runs them one after another.
//!
//! ```
//! use lookback_store::MemoryStore;
//! use lookback_store::conformance;
//!
//! futures_lite::future::block_on(conformance::conforms(&MemoryStore::new()));
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

use super::{LogName, Record, Store};

pub use derived::keeps_derived_logs_apart;
pub use erasing::erases_records;
pub use lists::lists_by_prefix;
pub use logs::keeps_logs;
pub use names::keeps_names_apart;
pub use search::{finds_alike, ranks_alike};
pub use tenants::keeps_tenants_apart;
pub use times::keeps_times;
pub use writers::keeps_every_append;

/// Runs the suite, but for what needs several writers (see [`keeps_every_append`]).
pub async fn conforms(store: &dyn Store) {
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
