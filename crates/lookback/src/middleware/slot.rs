//! One stage in its place, asked on a thread of a pool: an error, a panic or a hang of it stays there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_io::Timer;
use blocking::{Task, unblock};
use futures_lite::future::{or, poll_once};
use lookback_core::Message;
use lookback_core::transcript::Position;
use tracing::{Span, dispatcher};

use super::{Cause, Event, Failure, Middleware, OnFailure, Reaction, Run, Settings};

/// A stage, where it stands, and how far it may be trusted.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) order: u32,
    pub(super) on_failure: OnFailure,
    /// What has left the window since it was asked.
    pub(super) left: Vec<(Position, Arc<Message>)>,
    time_limit: Option<Duration>,
    state: State,
}

enum State {
    Idle(Box<dyn Middleware>),
    /// It is asked now, or was, and its time was up.
    Asked {
        task: Task<Back>,
        late: bool,
    },
    /// It panicked.
    Out,
}

/// A stage that is back: itself, unless it panicked, and what it says.
type Back = Option<(Box<dyn Middleware>, Result<Reaction, Failure>)>;

impl Slot {
    pub(super) fn new(stage: Box<dyn Middleware>, settings: Settings) -> Self {
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

    /// Asks the stage. Where the future of an earlier asking was dropped, that goes on: what is given is then the answer to it.
    pub(super) async fn ask(&mut self, event: &Arc<Event>, run: Run) -> Result<Reaction, Cause> {
        if let State::Asked { task, late: true } = &mut self.state {
            // What it says now is to a question of long ago.
            let Some(back) = poll_once(task).await else { return Err(Cause::Busy) };
            _ = self.take_back(back);
        }
        self.state = match std::mem::replace(&mut self.state, State::Out) {
            State::Idle(stage) => State::Asked { task: begin(stage, event.clone(), run), late: false },
            state => state,
        };
        let State::Asked { task, late } = &mut self.state else { return Err(Cause::Panicked) };
        let limit = self.time_limit;
        let too_late = async {
            match limit {
                Some(limit) => _ = Timer::after(limit).await,
                None => std::future::pending().await,
            }
            None
        };
        match or(async { Some(task.await) }, too_late).await {
            Some(back) => self.take_back(back),
            None => {
                *late = true;
                Err(Cause::TimedOut { limit: limit.unwrap_or_default() })
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
fn begin(mut stage: Box<dyn Middleware>, event: Arc<Event>, run: Run) -> Task<Back> {
    let (dispatch, span) = (dispatcher::get_default(Clone::clone), Span::current());
    unblock(move || {
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
    })
}
