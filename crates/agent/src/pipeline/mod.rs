//! The pipeline: a session with its middleware, and the run that an agent's loop drives.

mod answers;
mod building;
mod chain;
mod log;
mod state;
mod steps;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use lookback_engine::transcript::{Origin, Position};
use lookback_wire::dialect::TooLong;
use lookback_wire::message::Message;

use self::state::{Exchange, Notes, Options, RunState, Shown};
use self::state::{Preparing, Step};
use super::slot::Slot;
use super::{Call, EndReason, Event, MiddlewareError, Stopped};
use lookback_session::adapter;
use lookback_session::{Error, Session};

/// A session with middleware around its model calls, for one run of an agent after another.
///
/// The future of any method may be dropped. The session stays valid, and calling the same method again continues where
/// the dropped future was. A tool that was running then is run again.
pub struct Pipeline {
    session: Session,
    slots: Vec<Slot>,
    options: Options,
    /// Whether the session was resumed for the first run.
    resumed: bool,
    run: RunState,
    asking: Option<Asking>,
    notes: Notes,
    shown: Shown,
    exchange: Exchange,
    /// The end of the log before a write that has begun.
    writing: Option<Position>,
    failures: VecDeque<Arc<MiddlewareError>>,
}

/// An event, and the middleware that has not been called with it yet.
struct Asking {
    event: Arc<Event>,
    slots: VecDeque<usize>,
}

impl Pipeline {
    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the session without the middleware and the limits that they added. It does not end an open run.
    pub fn into_session(mut self) -> Session {
        adapter::bind(&mut self.session, None);
        self.session
    }

    /// Returns how the run ended; `None` while it is open.
    pub fn stopped(&self) -> Option<&Stopped> {
        self.run.stopped.as_ref()
    }

    /// Returns the newest failures of middleware, at most 64, the oldest first.
    pub fn failures(&self) -> impl Iterator<Item = &MiddlewareError> {
        self.failures.iter().map(|failure| &**failure)
    }

    /// Begins a run: pushes its task, and informs the middleware. If a run is open, the message is pushed and that run
    /// continues.
    ///
    /// # Errors
    /// The errors of [`Session::push`].
    pub async fn start(&mut self, task: Message) -> Result<(), Error> {
        if matches!(self.run.step, Step::Over) {
            self.begin_anew();
        }
        if matches!(self.run.step, Step::New) {
            self.run.task = Some(task.text().into());
            if self.resumed {
                self.push(task, Origin::Client).await?;
            } else {
                let turns = if self.options.sub_agent { 0 } else { Session::RESUMED_TURNS };
                self.session.resume(task, self.options.continuity.unwrap_or(turns)).await?;
                self.resumed = true;
            }
            self.run.step = Step::Start;
        } else if !matches!(self.run.step, Step::Start) {
            return self.push(task, Origin::Client).await;
        }
        self.begin().await
    }

    /// Returns the next model call, or `None` if the run is over ([`Pipeline::stopped`] has the reason). If the last
    /// call has no answer yet, it is returned again.
    ///
    /// # Errors
    /// The errors of [`Session::window`]. Calling this again retries.
    pub async fn next(&mut self) -> Result<Option<Call>, Error> {
        loop {
            match &self.run.step {
                Step::New | Step::Start => {
                    self.run.step = Step::Start;
                    self.begin().await?;
                }
                Step::Iteration => {
                    self.ask(Event::BeforeIteration, self.all()).await?;
                    self.go_on(Step::Prepare(Preparing::Before));
                }
                Step::Prepare(step) => {
                    let step = *step;
                    self.prepare(step).await?;
                }
                Step::Call => {
                    self.flush().await?;
                    return self.call().await.map(Some);
                }
                Step::Overflow(..) => self.reduce().await?,
                Step::Answered(_) | Step::Tools | Step::IterationDone => self.end_iteration().await?,
                Step::Stopping => self.finish().await?,
                Step::Over => return Ok(None),
            }
        }
    }

    /// Makes the window smaller because the provider refused the last call as too long. [`Pipeline::next`] then returns
    /// the same call with the smaller window. Middleware gets [`Event::Overflow`], but no second
    /// [`Event::BeforeModel`]. Does nothing if no call is open.
    ///
    /// # Errors
    /// The errors of [`Session::overflow`].
    pub async fn overflow(&mut self, cause: TooLong) -> Result<(), Error> {
        if matches!(self.run.step, Step::Overflow(..)) {
            return self.reduce().await;
        }
        if !matches!(self.run.step, Step::Call) {
            return Ok(());
        }
        self.ask(Event::Overflow(cause), self.all()).await?;
        self.go_on(Step::Overflow(cause, self.session.stats().entries));
        self.reduce().await
    }

    /// Ends the run, for a reason in the caller's words. Open tool calls get a result that says that they were not run.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn stop(&mut self, reason: impl Into<String>) -> Result<(), Error> {
        self.stop_with(Stopped::Cut(EndReason::Said(reason.into())));
        self.finish().await
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middleware: Vec<_> = self.slots.iter().map(|slot| &*slot.name).collect();
        f.debug_struct("Pipeline")
            .field("session", &self.session)
            .field("middleware", &middleware)
            .field("iteration", &self.run.iteration)
            .field("stopped", &self.run.stopped)
            .finish_non_exhaustive()
    }
}
