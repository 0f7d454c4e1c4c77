//! One stage in its place, asked on a thread of a pool: an error, a panic or a hang of it stays there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::Receiver;
use async_io::Timer;
use blocking::{Task, unblock};
use futures_lite::future::{or, pending, poll_once};
use lookback_core::Message;
use lookback_core::transcript::Position;
use tracing::{Span, dispatcher};

use super::{Cause, Event, Failure, Middleware, MiddlewareSettings, OnFailure, Reaction, Run};
use crate::session::Job;
use crate::summarize::Spawner;

/// A stage, where it stands, and how far it may be trusted.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) order: u32,
    pub(super) on_failure: OnFailure,
    /// What has left the window since it was last asked, and it was not told of.
    pub(super) left: Vec<(Position, Arc<Message>)>,
    time_limit: Option<Duration>,
    state: State,
}

enum State {
    Idle(Box<dyn Middleware>),
    /// It is asked this now, and may take as long as this.
    Asked {
        event: Arc<Event>,
        at_work: AtWork,
        deadline: Option<Instant>,
    },
    /// Its time was up, and it is not back yet.
    Late(AtWork),
    /// It panicked.
    Out,
}

/// A stage that is back: itself, unless it panicked, and what it says.
type Back = Option<(Box<dyn Middleware>, Result<Reaction, Failure>)>;

/// A middleware that was asked and is on its thread, and the background jobs that it hands over meanwhile.
struct AtWork {
    task: Task<Back>,
    jobs: Receiver<(Spawner, Job)>,
}

impl AtWork {
    /// Waits until the middleware is back, and begins its jobs. They begin on the caller's task and not on the middleware's thread, so that a
    /// spawner finds the caller's runtime.
    async fn back(&mut self) -> Back {
        let AtWork { task, jobs } = self;
        loop {
            let back = async { Some((&mut *task).await) };
            let job = async {
                match jobs.recv().await {
                    Ok((spawner, job)) => spawner.spawn(job),
                    // It is about to be back.
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
    pub(super) fn new(stage: Box<dyn Middleware>, settings: MiddlewareSettings) -> Self {
        Slot {
            name: stage.name().into(),
            order: settings.order.unwrap_or_else(|| stage.order()),
            on_failure: settings.on_failure.unwrap_or_else(|| stage.on_failure()),
            left: Vec::new(),
            time_limit: settings.time_limit.or_else(|| stage.time_limit()).filter(|limit| !limit.is_zero()),
            state: State::Idle(stage),
        }
    }

    /// Whether it will never be asked again.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.state, State::Out)
    }

    /// Asks the stage. Where the future of an earlier asking of this very event was dropped, that goes on, within what is left of its time;
    /// an answer to any other is waited for and not heard. The stage is told what has left the window when it is asked, and not before.
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
            State::Idle(stage) => {
                run.left = std::mem::take(&mut self.left).into();
                let deadline = self.time_limit.and_then(|limit| Instant::now().checked_add(limit));
                State::Asked { event: event.clone(), at_work: begin(stage, event.clone(), run), deadline }
            }
            state => state,
        };
        let limit = self.time_limit.unwrap_or_default();
        self.wait().await.unwrap_or(Err(Cause::TimedOut { limit }))
    }

    /// Waits until the stage is back, and gives what it says; `None` where its time is up first.
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
        let Some((stage, reaction)) = back else {
            self.state = State::Out;
            return Err(Cause::Panicked);
        };
        self.state = State::Idle(stage);
        reaction.map_err(Cause::Failed)
    }
}

/// Asks a stage on a thread of the pool, where what it logs goes where the caller's logs go.
fn begin(mut stage: Box<dyn Middleware>, event: Arc<Event>, mut run: Run) -> AtWork {
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
                let asked = AssertUnwindSafe(|| match stage.is_enabled() {
                    true => stage.on(&event, &run),
                    false => Ok(Reaction::none()),
                });
                match catch_unwind(asked) {
                    Ok(reaction) => Some((stage, reaction)),
                    Err(panic) => {
                        // What is left of it may panic again as it goes.
                        _ = catch_unwind(AssertUnwindSafe(move || drop((panic, stage))));
                        None
                    }
                }
            })
        })
    });
    AtWork { task, jobs }
}
