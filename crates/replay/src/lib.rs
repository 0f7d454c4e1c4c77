//! Replays of recorded conversations under a policy, priced with a simulated prompt cache, and receipts and timelines
//! of sessions.

#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod explain;
pub mod prices;
pub mod receipt;
pub mod recording;
pub mod replay;
pub mod timeline;
