//! The steps of a run, from its beginning to its end.

use std::ops::Range;

use super::super::{EndReason, Event, Stopped, ToolOutcome};
use super::Pipeline;
use super::state::{Preparing, RunState, Step};
use lookback_facts::sheet;
use lookback_session::Error;
use lookback_session::adapter;

/// Middleware up to this order is called before the window of a call is made.
const BEFORE_WINDOW: u32 = 15;

impl Pipeline {
    /// Takes one step toward the model call.
    pub(super) async fn prepare(&mut self, step: Preparing) -> Result<(), Error> {
        match step {
            Preparing::Before => {
                self.flush().await?;
                self.ask(Event::BeforeModel, 0..self.early()).await?;
                self.go_on(Step::Prepare(Preparing::Window));
            }
            Preparing::Window => {
                self.window().await?;
                self.shown.before_notes = self.shown.compaction.clone();
                self.run.step = Step::Prepare(Preparing::After);
            }
            Preparing::After => {
                self.ask(Event::BeforeModel, self.early()..self.slots.len()).await?;
                self.go_on(Step::Prepare(Preparing::Room));
            }
            Preparing::Room => {
                self.window().await?;
                let again = self.shown.is_compacted_for_notes();
                self.run.step = if again { Step::Prepare(Preparing::Compacted) } else { Step::Call };
            }
            Preparing::Compacted => {
                self.ask(Event::Compacted, self.all()).await?;
                self.go_on(Step::Call);
            }
        }
        Ok(())
    }

    /// Begins a run whose task is in the session.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        // Notes of earlier runs are only about those runs. Fact sheets stay.
        adapter::dismiss(&mut self.session, |note| !sheet::is_any_sheet(&note.message().text())).await?;
        self.ask(Event::Start, self.all()).await?;
        self.go_on(Step::Iteration);
        self.begin_iteration();
        Ok(())
    }

    /// Forgets a run that is over.
    pub(super) fn begin_anew(&mut self) {
        self.run = RunState::default();
        self.notes.pending.clear();
        adapter::bind(&mut self.session, None);
    }

    /// Begins an iteration, or ends the run if it has had all of them.
    pub(super) fn begin_iteration(&mut self) {
        if !matches!(self.run.step, Step::Iteration) {
            return;
        }
        if let Some(most) = self.options.iterations.filter(|most| self.run.iteration >= *most) {
            return self.stop_with(Stopped::Cut(EndReason::Iterations { most }));
        }
        self.run.iteration += 1;
        self.notes.written.clear();
        self.shown.compaction = None;
        tracing::debug!(session = %self.session.name(), iteration = self.run.iteration, "an iteration begins");
    }

    /// Ends an iteration whose tools were run or abandoned, and begins the next.
    pub(super) async fn end_iteration(&mut self) -> Result<(), Error> {
        self.run.step = Step::IterationDone;
        self.ask(Event::AfterIteration, self.all()).await?;
        self.go_on(Step::Iteration);
        self.begin_iteration();
        Ok(())
    }

    /// Continues with a step, unless the run was stopped meanwhile.
    pub(super) fn go_on(&mut self, step: Step) {
        if self.run.stopped.is_none() {
            self.run.step = step;
        }
    }

    /// Ends the run, unless something else has ended it.
    pub(super) fn stop_with(&mut self, stopped: Stopped) {
        if self.run.stopped.is_none() {
            self.run.stopped = Some(stopped);
            self.run.step = Step::Stopping;
            self.asking = None;
        }
    }

    /// Answers the open calls, and informs middleware of the end.
    pub(super) async fn finish(&mut self) -> Result<(), Error> {
        if !matches!(self.run.step, Step::Stopping) {
            return Ok(());
        }
        let Some(stopped) = self.run.stopped.clone() else { return Ok(()) };
        self.tell_outcome().await?;
        while let Some(call) = self.exchange.open.first().cloned() {
            self.answer(&ToolOutcome::not_run(call)).await?;
        }
        self.ask(Event::Stop(stopped.clone()), self.all()).await?;
        let (session, iteration) = (self.session.name(), self.run.iteration);
        tracing::debug!(%session, iteration, how = stopped.name(), "the run is over");
        self.run.step = Step::Over;
        Ok(())
    }

    /// The number of middleware that are called before the window is made.
    fn early(&self) -> usize {
        self.slots.partition_point(|slot| slot.order <= BEFORE_WINDOW)
    }

    pub(super) fn all(&self) -> Range<usize> {
        0..self.slots.len()
    }
}
