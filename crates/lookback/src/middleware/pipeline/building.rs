//! Building a pipeline: its stages, in their order, and how long its runs may be.

use std::collections::VecDeque;

use super::super::{Budget, ContextFilter, FactSheet, Middleware, MiddlewareSettings, Observe, Progress, ToolUse};
use super::{Costs, Pipeline, Slot, Step};
use crate::memory::Memory;
use crate::session::Session;

impl Pipeline {
    /// A session without stages.
    pub fn new(session: Session) -> Self {
        Pipeline {
            session,
            slots: Vec::new(),
            task: None,
            sub_agent: false,
            continuity: None,
            resumed: false,
            iterations: None,
            iteration: 0,
            step: Step::New,
            asking: None,
            pending: VecDeque::new(),
            notes: Vec::new(),
            writing: None,
            bound: None,
            tools: ToolUse::Free,
            compaction: None,
            windowed: None,
            seen: None,
            sent: None,
            reported: false,
            allowed: ToolUse::Free,
            costs: Costs::default(),
            open: Vec::new(),
            outcome: None,
            stopped: None,
            failures: VecDeque::new(),
        }
    }

    /// A session with all five stages: [`Observe`], this budget, this window, the facts of this memory, and [`Progress`]. The model is to have
    /// the tools of the memory (see [`tools`](crate::memory::tools)), which the pipeline answers.
    #[must_use]
    pub fn standard(session: Session, budget: Budget, window: ContextFilter, memory: Memory) -> Self {
        let (sheet, progress) = (FactSheet::new(memory), Progress::new());
        let pipeline = Pipeline::new(session).with(Observe::new()).with(budget);
        pipeline.with(window.naming_entries()).with(sheet).with(progress)
    }

    /// Puts a stage in its place: after those of the same order.
    #[must_use]
    pub fn with(self, stage: impl Middleware + 'static) -> Self {
        self.with_settings(stage, MiddlewareSettings::default())
    }

    /// Puts a stage in its place, with settings instead of its own.
    #[must_use]
    pub fn with_settings(mut self, stage: impl Middleware + 'static, settings: MiddlewareSettings) -> Self {
        let slot = Slot::new(Box::new(stage), settings);
        let at = self.slots.partition_point(|other| other.order <= slot.order);
        self.slots.insert(at, slot);
        self
    }

    /// A run has at most so many iterations.
    #[must_use]
    pub fn iterations(self, most: u64) -> Self {
        Pipeline { iterations: Some(most), ..self }
    }

    /// The first run has the last so many turns of the session before its task (see [`Session::resume`]), instead of 16, or of none for a
    /// sub-agent.
    #[must_use]
    pub fn with_continuity(self, turns: u64) -> Self {
        Pipeline { continuity: Some(turns), ..self }
    }

    /// Another agent gives the task, and no person: nothing that the session had before stands before it, unless
    /// [`Pipeline::with_continuity`] says so.
    #[must_use]
    pub fn sub_agent(self) -> Self {
        Pipeline { sub_agent: true, ..self }
    }
}
