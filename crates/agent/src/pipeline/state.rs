//! What a pipeline remembers of a run: its progress, its notes, the window, and the model call that is under way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use lookback_engine::transcript::{Compaction, Position};
use lookback_engine::{policy::Policy, view::View};
use lookback_wire::dialect::TooLong;
use lookback_wire::message::ToolCall;

use super::super::{ModelAnswer, Note, Stopped, ToolOutcome, ToolUse};

/// What the caller has set for every run.
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
    /// The policy that middleware asked for, which the window must fit besides the session's own.
    pub(super) bound: Option<Policy>,
    /// Whether the next model call may use tools.
    pub(super) tools: ToolUse,
}

/// What comes next in a run.
#[derive(Default)]
pub(super) enum Step {
    /// Nothing has begun.
    #[default]
    New,
    /// The task is in the session, and middleware is to learn of it.
    Start,
    /// An iteration begins.
    Iteration,
    /// The window of a call is made.
    Prepare(Preparing),
    /// The call is to be handed out, or is.
    Call,
    /// The call was refused as too long, and middleware knows: the window is made smaller. The log ended at this
    /// position before.
    Overflow(TooLong, Position),
    /// An answer is in the session, and middleware is to learn of it.
    Answered(ModelAnswer),
    /// Tools are run.
    Tools,
    /// The iteration is over, and middleware is to learn of it.
    IterationDone,
    /// The run ends: open calls get results, and middleware is to learn of it.
    Stopping,
    /// The run is over.
    Over,
}

/// The steps from the beginning of an iteration to its model call.
#[derive(Clone, Copy)]
pub(super) enum Preparing {
    /// The middleware before the window is asked.
    Before,
    /// The window is made.
    Window,
    /// The middleware behind the window is asked.
    After,
    /// Room is made for its notes.
    Room,
    /// All middleware is asked again, since making room took something.
    Compacted,
}

/// The tokens of a run's model calls.
#[derive(Default)]
pub(super) struct Costs {
    /// All of them, input and output.
    pub(super) spent: u64,
    /// Outputs, and what each input had more than the input before it.
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
    /// Those that are not in the session yet.
    pub(super) pending: VecDeque<Note>,
    /// Those of this iteration that are.
    pub(super) written: Vec<Note>,
}

/// The window as it was last seen.
#[derive(Default)]
pub(super) struct Shown {
    /// The view, and the end of the log at that time.
    pub(super) view: Option<(Position, Arc<View>)>,
    /// The newest compaction of this iteration.
    pub(super) compaction: Option<Arc<Compaction>>,
    /// The compaction that was the newest when the window was made, before the later middleware was asked.
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
    /// Whether the call that was handed out may use tools.
    pub(super) allowed: ToolUse,
    /// Whether the usage that was reported with the answer is in the session.
    pub(super) reported: bool,
    /// Tool calls of the newest answer that have no result.
    pub(super) open: Vec<ToolCall>,
    /// The result of a tool that is not in the session yet.
    pub(super) outcome: Option<ToolOutcome>,
}

/// What the model was sent, and when.
pub(super) struct Sent {
    pub(super) view: Arc<View>,
    pub(super) tokens: u64,
    pub(super) since: Instant,
}
