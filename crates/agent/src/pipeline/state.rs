//! The state of a pipeline: the run's progress, its notes, the window, and the current model call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use lookback_engine::transcript::{Compaction, Position};
use lookback_engine::{policy::Policy, view::View};
use lookback_wire::dialect::TooLong;
use lookback_wire::message::ToolCall;

use super::super::{ModelAnswer, Note, Stopped, ToolOutcome, ToolUse};

/// The caller's options for every run.
#[derive(Default)]
pub(super) struct Options {
    /// Whether another agent gives the tasks.
    pub(super) sub_agent: bool,
    /// The turns before the first task that stay in the window.
    pub(super) continuity: Option<u64>,
    pub(super) iterations: Option<u64>,
}

/// One run, from its task to its end. The next run begins with the default.
#[derive(Default)]
pub(super) struct RunState {
    pub(super) task: Option<Arc<str>>,
    pub(super) iteration: u64,
    pub(super) step: Step,
    pub(super) stopped: Option<Stopped>,
    pub(super) costs: Costs,
    /// The policy of the middleware, which the window must meet in addition to the session's own.
    pub(super) bound: Option<Policy>,
    /// Whether the next model call may use tools.
    pub(super) tools: ToolUse,
}

/// The next step of a run.
#[derive(Default)]
pub(super) enum Step {
    /// Nothing has begun.
    #[default]
    New,
    /// The task is in the session, and middleware must be informed.
    Start,
    /// An iteration begins.
    Iteration,
    /// The window of a call is made.
    Prepare(Preparing),
    /// The call is ready to be returned, or has been returned.
    Call,
    /// The call was refused as too long, and middleware is informed. The window must be made smaller. The position is
    /// the end of the log before that.
    Overflow(TooLong, Position),
    /// An answer is in the session, and middleware must be informed.
    Answered(ModelAnswer),
    /// Tools are run.
    Tools,
    /// The iteration is over, and middleware must be informed.
    IterationDone,
    /// The run ends: open calls get results, and middleware must be informed.
    Stopping,
    /// The run is over.
    Over,
}

/// The steps from the beginning of an iteration to its model call.
#[derive(Clone, Copy)]
pub(super) enum Preparing {
    /// The middleware before the window is called.
    Before,
    /// The window is made.
    Window,
    /// The middleware after the window is called.
    After,
    /// Room is made for their notes.
    Room,
    /// All middleware is called again, because making room has compacted the window.
    Compacted,
}

/// The tokens of a run's model calls.
#[derive(Default)]
pub(super) struct Costs {
    /// All tokens, input and output.
    pub(super) spent: u64,
    /// The new tokens: all outputs, plus the growth of each input since the previous call.
    pub(super) new: u64,
    /// The input of the newest call.
    input: Option<u64>,
}

impl Costs {
    pub(super) fn add(&mut self, input: u64, output: u64) {
        let more = input.saturating_sub(self.input.replace(input).unwrap_or(input));
        self.spent = self.spent.saturating_add(input).saturating_add(output);
        self.new = self.new.saturating_add(more).saturating_add(output);
    }
}

/// The notes of middleware.
#[derive(Default)]
pub(super) struct Notes {
    /// The notes that are not in the session yet.
    pub(super) pending: VecDeque<Note>,
    /// The notes of this iteration that are in the session.
    pub(super) written: Vec<Note>,
}

/// The window as it was last seen.
#[derive(Default)]
pub(super) struct Shown {
    /// The view, and the end of the log at that time.
    pub(super) view: Option<(Position, Arc<View>)>,
    /// The newest compaction of this iteration.
    pub(super) compaction: Option<Arc<Compaction>>,
    /// The newest compaction at the time when the window was made, before the later middleware was called.
    pub(super) before_notes: Option<Arc<Compaction>>,
}

impl Shown {
    /// Whether the notes of the later middleware led to another compaction.
    pub(super) fn is_compacted_for_notes(&self) -> bool {
        match (&self.before_notes, &self.compaction) {
            (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
            (before, now) => before.is_some() || now.is_some(),
        }
    }
}

/// A model call, its answer, and the tools that the answer asks for.
#[derive(Default)]
pub(super) struct Exchange {
    pub(super) sent: Option<Sent>,
    /// Whether the open call may use tools.
    pub(super) allowed: ToolUse,
    /// Whether the usage that was reported with the answer is in the session.
    pub(super) reported: bool,
    /// The tool calls of the newest answer that have no result yet.
    pub(super) open: Vec<ToolCall>,
    /// The result of a tool that is not in the session yet.
    pub(super) outcome: Option<ToolOutcome>,
}

/// The window that the model was sent, and the time.
pub(super) struct Sent {
    pub(super) view: Arc<View>,
    pub(super) tokens: u64,
    pub(super) since: Instant,
}
