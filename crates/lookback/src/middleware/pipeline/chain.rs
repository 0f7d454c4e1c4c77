//! The chain: stages asked one after another, and what each wants done before the next is asked.

use std::ops::Range;
use std::sync::Arc;

use super::super::{Cause, Event, Flow, Note, OnFailure, Reaction, Run, MiddlewareError, Stopped, ToolUse};
use super::{Asking, Pipeline};
use crate::session::Error;

/// How many failures are remembered.
const FAILURES: usize = 64;

impl Pipeline {
    /// Asks stages, one after another, and does what each wants. Gives the answer that one has for a tool.
    pub(super) async fn ask(&mut self, event: Event, range: Range<usize>) -> Result<Option<(String, bool)>, Error> {
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
            match self.take(&event, index, reaction) {
                Flow::Answer { text, error } if matches!(*event, Event::BeforeTool(_)) => {
                    self.asking = None;
                    return Ok(Some((text, error)));
                }
                Flow::Stop(reason) if self.stopped.is_none() => self.stop_with(Stopped::Cut(reason)),
                Flow::LastAnswer(reason) if self.tools == ToolUse::Free => self.tools = ToolUse::None(reason),
                Flow::Continue | Flow::Answer { .. } | Flow::LastAnswer(_) | Flow::Stop(_) => {}
            }
            if matches!(*event, Event::BeforeModel | Event::Compacted) && self.stopped.is_none() {
                self.flush().await?;
            }
        }
        self.asking = None;
        Ok(None)
    }

    async fn ask_one(&mut self, event: &Arc<Event>, index: usize) -> Result<Reaction, Cause> {
        let view = self.look();
        let Some(slot) = self.slots.get_mut(index) else { return Ok(Reaction::none()) };
        if slot.is_out() && slot.on_failure == OnFailure::Open {
            return Ok(Reaction::none());
        }
        let settings = self.session.settings();
        let run = Run {
            session: self.session.name().clone(),
            task: self.task.clone(),
            iteration: self.iteration,
            iterations: self.iterations,
            sub_agent: self.sub_agent,
            tokens: self.session.tokens_of(&view),
            view,
            spent: self.costs.spent,
            new_tokens: self.costs.new,
            dialect: settings.dialect,
            policy: Arc::new(settings.policy.clone()),
            compaction: self.compaction.clone(),
            left: Arc::new([]),
            notes: self.notes.iter().chain(&self.pending).cloned().collect(),
            tools: self.tools.clone(),
            jobs: None,
        };
        slot.ask(event, run).await
    }

    /// Does what a stage wants, but for the flow; or tells of its failure.
    fn take(&mut self, event: &Event, index: usize, reaction: Result<Reaction, Cause>) -> Flow {
        let Some(slot) = self.slots.get(index) else { return Flow::Continue };
        let (name, on_failure) = (slot.name.clone(), slot.on_failure);
        match reaction {
            Ok(Reaction { notes, policy, flow }) => {
                let said = |text: String| Note { middleware: name.clone(), text: text.into() };
                self.pending.extend(notes.into_iter().filter(|text| !text.trim().is_empty()).map(said));
                if let Some(policy) = policy {
                    let window = self.session.settings().model_window;
                    let bound = self.bound.take().map_or(*policy.clone(), |bound| bound.tightened(&policy, window));
                    self.session.bind(Some(bound.clone()));
                    self.bound = Some(bound);
                }
                if flow != Flow::Continue {
                    tracing::debug!(middleware = &*name, event = event.name(), "a middleware changes how the run goes on");
                }
                flow
            }
            Err(cause) => {
                let kind = match cause {
                    Cause::Failed(_) => "failed",
                    Cause::Panicked => "panicked",
                    Cause::TimedOut { .. } => "timed_out",
                    Cause::Busy => "busy",
                };
                // Not what it says: that may have the conversation in it.
                tracing::warn!(middleware = &*name, event = event.name(), kind, "a middleware failed");
                let failure = Arc::new(MiddlewareError { middleware: name.to_string(), event: event.name(), cause });
                if self.failures.len() == FAILURES {
                    self.failures.pop_front();
                }
                self.failures.push_back(failure.clone());
                if on_failure == OnFailure::Closed {
                    self.stop_with(Stopped::Middleware(failure));
                }
                Flow::Continue
            }
        }
    }
}
