//! Where logs are kept: the trait [`Store`] and the stores that come with Lookback.

pub use lookback_location::{Location, open};
#[cfg(feature = "postgres")]
pub use lookback_postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use lookback_redis::RedisStore;
#[cfg(feature = "conformance")]
pub use lookback_store::conformance;
pub use lookback_store::search::{Lookup, Query};
#[cfg(feature = "encryption")]
pub use lookback_store::{BadKey, EncryptedStore, Key};
pub use lookback_store::{
    BadName, BadTenant, Damage, Durability, Expired, Head, Hit, IntoStore, LogInfo, LogName, Record, Retention,
    StoreError, StoreFuture, Tenant, copy, prune,
};
