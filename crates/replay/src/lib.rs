//! Recorded conversations: replayed under a policy, priced by a simulated cache, and read from a session's log as a receipt
//! or as a timeline.

pub mod cache;
pub mod explain;
pub mod prices;
pub mod receipt;
pub mod recording;
pub mod replay;
pub mod timeline;
