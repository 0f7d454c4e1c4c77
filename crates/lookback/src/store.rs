//! More stores than those at the crate root, and functions for every store: open by URL, copy, and delete old sessions.
//!
//! To write your own store, use the crate `lookback-store`.

pub use lookback_location::{Location, open};
#[cfg(feature = "postgres")]
pub use lookback_postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use lookback_redis::RedisStore;
#[cfg(feature = "encryption")]
pub use lookback_store::{EncryptedStore, Key};
pub use lookback_store::{LogName, Retention, StoreError, Tenant, copy, prune, purge};
