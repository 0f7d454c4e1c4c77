//! Functions on a session that adapters of frameworks and servers need, and applications do not.

pub use crate::append::set_target;
pub use crate::erase::erasable;
pub use crate::log::load;
pub use crate::overflow::{leave_out_reasoning, shorten};
pub use crate::policy::bind;
#[doc(hidden)]
pub use crate::read::oldest;
pub use crate::read::{LeftBranch, left_branches, newest};
pub use crate::source::sources;
pub use crate::summaries::{NewestSummary, newest_summary, pending};
pub use crate::sync::{Resent, has_room, sync_resent};
pub use crate::views::{each_view, view_at};
pub use crate::walk::{Step, walk};
pub use crate::window::{answered_aside, answered_joined, cache_is_cold, compact, dismiss, preview};
pub use crate::{engine, entries};
