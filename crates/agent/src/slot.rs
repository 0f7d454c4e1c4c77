//! One middleware in a pipeline, which runs on a thread of a pool, so its errors, panics and hangs are contained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::Receiver;
use async_io::Timer;
use blocking::{Task, unblock};
use futures_lite::future::{or, pending, poll_once};
use tracing::{Span, dispatcher};

use super::{Cause, Event, Failure, Middleware, MiddlewareSettings, OnFailure, Reaction, Run};
use lookback_facts::LeftMessage;
use lookback_summarize::Job;
use lookback_summarize::Spawner;

/// A middleware with its order and its limits.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) order: u32,
    pub(super) on_failure: OnFailure,
    /// The messages that have left the window since the middleware was last called.
    pub(super) left: Vec<LeftMessage>,
    time_limit: Option<Duration>,
    state: State,
}

enum State {
    Idle(Box<dyn Middleware>),
    /// It is running on an event, until a deadline.
    Asked {
        event: Arc<Event>,
        at_work: Running,
        deadline: Option<Instant>,
    },
    /// It has exceeded its time limit, and has not returned yet.
    Late(Running),
    /// It panicked.
    Out,
}

/// A middleware that has returned, with its reaction; `None` if it panicked.
type Back = Option<(Box<dyn Middleware>, Result<Reaction, Failure>)>;

/// A middleware on its thread, and the background jobs that it passes on.
struct Running {
    task: Task<Back>,
    jobs: Receiver<(Spawner, Job)>,
}

impl Running {
    /// Waits until the middleware returns, and starts its jobs. They start on the caller's task, where a spawner finds
    /// the caller's runtime, and not on the middleware's thread.
    async fn back(&mut self) -> Back {
        let Running { task, jobs } = self;
        loop {
            let back = async { Some((&mut *task).await) };
            let job = async {
                match jobs.recv().await {
                    Ok((spawner, job)) => spawner.spawn(job),
                    // The middleware has returned, and the task is about to end.
                    Err(_) => pending().await,
                }
                None
            };
            if let Some(back) = or(back, job).await {
                while let Ok((spawner, job)) = jobs.try_recv() {
                    spawner.spawn(job);
                }
                return back;
            }
        }
    }
}

impl Slot {
    pub(super) fn new(middleware: Box<dyn Middleware>, settings: MiddlewareSettings) -> Self {
        Slot {
            name: middleware.name().into(),
            order: settings.order.unwrap_or_else(|| middleware.order()),
            on_failure: settings.on_failure.unwrap_or_else(|| middleware.on_failure()),
            left: Vec::new(),
            time_limit: settings.time_limit.or_else(|| middleware.time_limit()).filter(|limit| !limit.is_zero()),
            state: State::Idle(middleware),
        }
    }

    /// Returns whether the middleware has panicked, so that it is never called again.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.state, State::Out)
    }

    /// Calls the middleware with an event, together with the messages that have left the window.
    ///
    /// If the future of an earlier call for the same event was dropped, that call continues within its remaining time.
    /// If the earlier call was for another event, its reaction is awaited and discarded.
    pub(super) async fn ask(&mut self, event: &Arc<Event>, mut run: Run) -> Result<Reaction, Cause> {
        let other = matches!(&self.state, State::Asked { event: asked, .. } if !Arc::ptr_eq(asked, event));
        if other && self.wait().await.is_none() {
            return Err(Cause::Busy);
        }
        if let State::Late(at_work) = &mut self.state {
            let Some(back) = poll_once(at_work.back()).await else { return Err(Cause::Busy) };
            _ = self.take_back(back);
        }
        self.state = match std::mem::replace(&mut self.state, State::Out) {
            State::Idle(middleware) => {
                run.left = std::mem::take(&mut self.left).into();
                let deadline = self.time_limit.and_then(|limit| Instant::now().checked_add(limit));
                State::Asked { event: event.clone(), at_work: begin(middleware, event.clone(), run), deadline }
            }
            state => state,
        };
        let limit = self.time_limit.unwrap_or_default();
        self.wait().await.unwrap_or(Err(Cause::TimedOut { limit }))
    }

    /// Waits for the middleware's reaction. Returns `None` if it exceeds its time limit.
    async fn wait(&mut self) -> Option<Result<Reaction, Cause>> {
        let State::Asked { at_work, deadline, .. } = &mut self.state else { return Some(Err(Cause::Panicked)) };
        let deadline = *deadline;
        let too_late = async {
            match deadline {
                Some(deadline) => _ = Timer::at(deadline).await,
                None => pending().await,
            }
            None
        };
        let back = or(async { Some(at_work.back().await) }, too_late).await;
        match back {
            Some(back) => Some(self.take_back(back)),
            None => {
                self.state = match std::mem::replace(&mut self.state, State::Out) {
                    State::Asked { at_work, .. } => State::Late(at_work),
                    state => state,
                };
                None
            }
        }
    }

    fn take_back(&mut self, back: Back) -> Result<Reaction, Cause> {
        let Some((middleware, reaction)) = back else {
            self.state = State::Out;
            return Err(Cause::Panicked);
        };
        self.state = State::Idle(middleware);
        reaction.map_err(Cause::Failed)
    }
}

/// Calls a middleware on a thread of the pool, with the caller's `tracing` subscriber and span.
fn begin(mut middleware: Box<dyn Middleware>, event: Arc<Event>, mut run: Run) -> Running {
    let (dispatch, span) = (dispatcher::get_default(Clone::clone), Span::current());
    let (sender, jobs) = async_channel::unbounded();
    run.jobs = Some(sender);
    #[cfg(feature = "tokio")]
    let runtime = tokio::runtime::Handle::try_current().ok();
    let task = unblock(move || {
        #[cfg(feature = "tokio")]
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        dispatcher::with_default(&dispatch, || {
            span.in_scope(|| {
                let asked = AssertUnwindSafe(|| match middleware.is_enabled() {
                    true => middleware.on(&event, &run),
                    false => Ok(Reaction::none()),
                });
                match catch_unwind(asked) {
                    Ok(reaction) => Some((middleware, reaction)),
                    Err(panic) => {
                        // Dropping the middleware or the panic may panic again.
                        _ = catch_unwind(AssertUnwindSafe(move || drop((panic, middleware))));
                        None
                    }
                }
            })
        })
    });
    Running { task, jobs }
}
