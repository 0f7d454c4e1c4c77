//! Decisions about a window and their reasons, reports of compactions, and the history from which windows are made.

pub use lookback_engine::plan::{Action, Decision, Plan, Reason};
pub use lookback_engine::{Explanation, HardLimitExceeded};
pub use lookback_session::{
    Batch, CompactEnd, CompactStart, CompactionOutcome, HistoryEntry, HistoryQuery, Hooks, MessageSource, OldContents,
    Resumed, SessionInfo, SessionStats, Synced,
};
