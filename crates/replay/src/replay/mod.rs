//! Replaying a recorded conversation: the window and the cost of each model call under another policy.

mod blocks;
mod call;
mod causes;
mod comparable;
mod identifiers;
mod misses;
mod play;
mod recalls;
mod report;
mod reported;
mod rereads;
mod spans;
mod valid;

pub(crate) use causes::Departures;
pub(crate) use identifiers::Seen;

#[doc(hidden)]
pub use blocks::{blocks, unrecorded};
pub use call::{Groups, ReplayedCall};
pub use causes::Cause;
#[doc(hidden)]
pub use comparable::said;
#[doc(hidden)]
pub use misses::{Misses, Uses};
#[doc(hidden)]
pub use play::watch;
pub use play::{Replay, replay};
pub use report::{Missed, Report};
pub use reported::Reported;
