//! Recorded conversations: replayed under a policy, priced by a simulated cache, and read from a session's log as a receipt
//! or as a timeline.

#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod explain;
pub mod prices;
pub mod receipt;
pub mod recording;
pub mod replay;
pub mod timeline;
