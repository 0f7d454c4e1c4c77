//! Replays of recorded conversations under a policy, with prices, receipts and timelines.

#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod explain;
#[doc(hidden)]
pub mod lost;
pub mod prices;
pub mod receipt;
pub mod replay;
pub mod timeline;
#[doc(hidden)]
pub mod week;
