//! Decisions about a window: their reasons, and the entries of a log that record them.

pub use lookback_engine::HardLimitExceeded;
pub use lookback_engine::group::{GroupKind, Pin};
pub use lookback_engine::plan::{Action, Decision, Plan, Reason, Verdict};
pub use lookback_engine::totals::{Excess, Totals};
pub use lookback_engine::transcript::{Entry, Label, Millis, Origin, Position};
pub use lookback_engine::view::View;
pub use lookback_engine::{ExplainedGroup, Explanation};
pub use lookback_session::{
    CompactEnd, CompactStart, CompactionOutcome, HistoryEntry, HistoryQuery, Hooks, MessageSource, SessionInfo,
    SessionStats, SourceKind, Synced,
};
