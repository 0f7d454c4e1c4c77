//! More stores than those at the root, and what can be done with any: open it by its URL, copy it, delete what is old.
//!
//! What a store of your own needs is in the crate `lookback-store`.

pub use lookback_location::{Location, open};
#[cfg(feature = "postgres")]
pub use lookback_postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use lookback_redis::RedisStore;
#[cfg(feature = "encryption")]
pub use lookback_store::{EncryptedStore, Key};
pub use lookback_store::{LogName, Retention, StoreError, Tenant, copy, prune, purge};
