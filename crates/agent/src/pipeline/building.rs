//! Building a pipeline: its middleware in order, and the limits of its runs.

use std::collections::VecDeque;

use super::super::{Budget, ContextFilter, FactSheet, Middleware, MiddlewareSettings, Observe};
use super::{Exchange, Notes, Options, Pipeline, RunState, Shown, Slot};
use lookback_facts::Memory;
use lookback_session::Session;

impl Pipeline {
    /// Creates a pipeline without middleware.
    pub fn new(session: Session) -> Self {
        Pipeline {
            session,
            slots: Vec::new(),
            options: Options::default(),
            resumed: false,
            run: RunState::default(),
            asking: None,
            notes: Notes::default(),
            shown: Shown::default(),
            exchange: Exchange::default(),
            writing: None,
            failures: VecDeque::new(),
        }
    }

    /// Creates a pipeline with all five middleware of this crate: [`Observe`], this budget, this context filter, a
    /// [`FactSheet`] of this memory, and [`Progress`](super::super::Progress). Offer the model the tools of the memory
    /// (see [`tools`](lookback_facts::tools)); the pipeline answers them.
    #[must_use]
    pub fn standard(session: Session, budget: Budget, window: ContextFilter, memory: Memory) -> Self {
        let (sheet, progress) = (FactSheet::new(memory), super::super::Progress::new());
        let pipeline = Pipeline::new(session).with(Observe::new()).with(budget);
        pipeline.with(window.with_entry_numbers()).with(sheet).with(progress)
    }

    /// Adds a middleware, after those of the same order.
    #[must_use]
    pub fn with(self, middleware: impl Middleware + 'static) -> Self {
        self.with_settings(middleware, MiddlewareSettings::default())
    }

    /// Adds a middleware with settings that replace its own.
    #[must_use]
    pub fn with_settings(mut self, middleware: impl Middleware + 'static, settings: MiddlewareSettings) -> Self {
        let slot = Slot::new(Box::new(middleware), settings);
        let at = self.slots.partition_point(|other| other.order <= slot.order);
        self.slots.insert(at, slot);
        self
    }

    /// Sets the most iterations of a run. By default there is no limit.
    #[must_use]
    pub fn with_iterations(mut self, most: u64) -> Self {
        self.options.iterations = Some(most);
        self
    }

    /// Sets the number of turns of the session that stay in the window before the task of the first run (see
    /// [`Session::resume`]). The default is 16, or 0 for a sub-agent.
    #[must_use]
    pub fn with_continuity(mut self, turns: u64) -> Self {
        self.options.continuity = Some(turns);
        self
    }

    /// Declares that another agent, not a person, gives the tasks. Then earlier turns of the session do not stay in the
    /// window, unless [`Pipeline::with_continuity`] is set.
    #[must_use]
    pub fn sub_agent(mut self) -> Self {
        self.options.sub_agent = true;
        self
    }
}
