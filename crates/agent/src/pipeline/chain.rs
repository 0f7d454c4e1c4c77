//! The chain: calls one middleware after another, and carries out each reaction before the next call.

use std::ops::Range;
use std::sync::Arc;

use super::super::{Cause, Event, Flow, MiddlewareError, Note, OnFailure, Reaction, Run, Stopped, ToolStatus, ToolUse};
use super::{Asking, Pipeline};
use lookback_session::Error;
use lookback_session::adapter;

/// The most failures that are remembered.
const FAILURES: usize = 64;

/// A middleware's answer to a tool call.
pub(super) struct ToolAnswer {
    pub(super) text: String,
    pub(super) status: ToolStatus,
}

impl Pipeline {
    /// Calls middleware with an event, and carries out their reactions. Returns the answer for a tool, if one gives it.
    pub(super) async fn ask(&mut self, event: Event, range: Range<usize>) -> Result<Option<ToolAnswer>, Error> {
        if self.asking.as_ref().is_none_or(|asking| !asking.event.is_same(&event)) {
            let slots = if event.is_after() { range.rev().collect() } else { range.collect() };
            self.asking = Some(Asking { event: Arc::new(event), slots });
        }
        while let Some((event, index)) =
            self.asking.as_ref().and_then(|asking| Some((asking.event.clone(), *asking.slots.front()?)))
        {
            let reaction = self.ask_one(&event, index).await;
            if let Some(asking) = &mut self.asking {
                asking.slots.pop_front();
            }
            let flow = match reaction {
                Ok(reaction) => self.react(&event, index, reaction),
                Err(cause) => {
                    self.note_failure(&event, index, cause);
                    Flow::Continue
                }
            };
            match flow {
                Flow::Answer(text) if matches!(*event, Event::BeforeTool(_)) => {
                    self.asking = None;
                    return Ok(Some(ToolAnswer { text, status: ToolStatus::Answered }));
                }
                Flow::Refuse(text) if matches!(*event, Event::BeforeTool(_)) => {
                    self.asking = None;
                    return Ok(Some(ToolAnswer { text, status: ToolStatus::Refused }));
                }
                Flow::Stop(reason) if self.run.stopped.is_none() => self.stop_with(Stopped::Cut(reason)),
                Flow::LastAnswer(reason) if self.run.tools == ToolUse::Allowed => {
                    self.run.tools = ToolUse::Forbidden(reason);
                }
                Flow::Continue | Flow::Answer(_) | Flow::Refuse(_) | Flow::LastAnswer(_) | Flow::Stop(_) => {}
            }
            if matches!(*event, Event::BeforeModel | Event::Compacted) && self.run.stopped.is_none() {
                self.flush().await?;
            }
        }
        self.asking = None;
        Ok(None)
    }

    async fn ask_one(&mut self, event: &Arc<Event>, index: usize) -> Result<Reaction, Cause> {
        let view = self.refresh_view();
        let Some(slot) = self.slots.get_mut(index) else { return Ok(Reaction::none()) };
        if slot.is_out() && slot.on_failure == OnFailure::Open {
            return Ok(Reaction::none());
        }
        let settings = self.session.settings();
        let run = Run {
            session: self.session.name().clone(),
            task: self.run.task.clone(),
            iteration: self.run.iteration,
            iterations: self.options.iterations,
            sub_agent: self.options.sub_agent,
            tokens: adapter::engine(&self.session).tokens(&view),
            view,
            spent: self.run.costs.spent,
            new_tokens: self.run.costs.new,
            dialect: settings.dialect,
            policy: Arc::new(settings.policy.clone()),
            compaction: self.shown.compaction.clone(),
            left: Arc::new([]),
            notes: self.notes.written.iter().chain(&self.notes.pending).cloned().collect(),
            tools: self.run.tools.clone(),
            jobs: None,
        };
        slot.ask(event, run).await
    }

    /// Carries out a reaction, except for its flow, which it returns.
    fn react(&mut self, event: &Event, index: usize, reaction: Reaction) -> Flow {
        let Some(slot) = self.slots.get(index) else { return Flow::Continue };
        let name = slot.name.clone();
        let Reaction { notes, policy, flow } = reaction;
        let note = |text: String| Note { middleware: name.clone(), text: text.into() };
        self.notes.pending.extend(notes.into_iter().filter(|text| !text.trim().is_empty()).map(note));
        if let Some(policy) = policy {
            let window = self.session.settings().model_window;
            let bound = self.run.bound.take().map_or(*policy.clone(), |bound| bound.tightened(&policy, window));
            adapter::bind(&mut self.session, Some(bound.clone()));
            self.run.bound = Some(bound);
        }
        if flow != Flow::Continue {
            tracing::debug!(middleware = &*name, event = event.name(), "a middleware changes the flow of the run");
        }
        flow
    }

    /// Remembers a failure, and ends the run if the middleware fails closed.
    fn note_failure(&mut self, event: &Event, index: usize, cause: Cause) {
        let Some(slot) = self.slots.get(index) else { return };
        let (name, on_failure) = (slot.name.clone(), slot.on_failure);
        let kind = match cause {
            Cause::Failed(_) => "failed",
            Cause::Panicked => "panicked",
            Cause::TimedOut { .. } => "timed_out",
            Cause::Busy => "busy",
        };
        // The error's own text may quote the conversation, so it must not be logged.
        tracing::warn!(middleware = &*name, event = event.name(), kind, "a middleware failed");
        let failure = Arc::new(MiddlewareError { middleware: name.to_string(), event: event.name(), cause });
        if self.failures.len() == FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back(failure.clone());
        if on_failure == OnFailure::Closed {
            self.stop_with(Stopped::Middleware(failure));
        }
    }
}
