//! Replaying a recorded conversation: what each model call would have seen, and what it would have cost.

mod blocks;
mod call;
mod identifiers;
mod play;
mod report;
mod said;
mod spans;

pub use blocks::{blocks, unrecorded};
pub use call::{Groups, ReplayedCall};
pub use play::{Replay, replay};
pub use report::{Report, Reported};
