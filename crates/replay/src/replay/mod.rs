//! Replaying a recorded conversation: the window and the cost of each model call under another policy.

mod blocks;
mod call;
mod causes;
mod comparable;
mod digest;
mod front;
mod identifiers;
mod play;
mod recalls;
mod report;
mod reported;
mod resample;
mod spans;

pub(crate) use causes::Departures;
pub(crate) use comparable::said;
pub(crate) use identifiers::Seen;

pub use blocks::{blocks, unrecorded};
pub use call::{Groups, ReplayedCall};
pub use causes::{Cause, Causes, Misses};
pub use digest::digest;
pub use front::front;
pub use play::{Replay, replay};
pub use report::{Missed, Report};
pub use reported::Reported;
pub use resample::{interval, resamples};
