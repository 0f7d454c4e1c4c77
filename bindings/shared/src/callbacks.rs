//! The functions that a session calls: one that makes summaries, and one that listens to compactions.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use async_channel::{Sender, bounded};
use lookback_session::{CompactEnd, CompactStart, CompactionOutcome, Hooks, SummaryRefused};
use lookback_summarize::{Ask as LibraryAsk, Function, Summarizer};
use serde_json::json;

use crate::failure::chained;

/// A function that begins to make a summary, and returns at once. The answer may be given later, from any thread.
pub type Summarize = Arc<dyn Fn(Ask, Answer) + Send + Sync>;

/// A function that listens to events. It gets the name of the event, and its contents as JSON.
pub type EventListener = Arc<dyn Fn(&str, String) + Send + Sync>;

/// The functions that a session calls. They must return quickly, and do slow work elsewhere.
#[derive(Clone, Default)]
pub struct Callbacks {
    /// Makes the summaries. Without it, a summary consists of sentences of the conversation.
    pub summarizer: Option<Summarize>,
    /// Listens to compactions.
    pub on_event: Option<EventListener>,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (summarizer, on_event) = (self.summarizer.is_some(), self.on_event.is_some());
        f.debug_struct("Callbacks").field("summarizer", &summarizer).field("on_event", &on_event).finish()
    }
}

/// A request for a summary.
#[derive(Clone)]
pub struct Ask {
    /// The system prompt.
    pub system: String,
    /// The user's message: the conversation.
    pub prompt: String,
    /// The most tokens of the answer.
    pub budget: u64,
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, prompt) = (self.system.len(), self.prompt.len());
        f.debug_struct("Ask").field("system", &system).field("prompt", &prompt).field("budget", &self.budget).finish()
    }
}

/// Receives the answer of a summarizer. Dropping it without an answer fails the summary.
#[derive(Debug)]
pub struct Answer(Sender<Result<String, String>>);

impl Answer {
    /// Gives the summary, or an error that must not contain contents of the conversation.
    pub fn give(self, answer: Result<String, String>) {
        // If the receiver is gone, the answer came too late.
        let _ = self.0.try_send(answer);
    }
}

impl Callbacks {
    /// Returns the function as a summarizer.
    pub(crate) fn summarizer(&self) -> Option<impl Summarizer + 'static> {
        let begin = self.summarizer.clone()?;
        Some(Function::new("callback", move |ask: LibraryAsk| {
            let (sender, receiver) = bounded(1);
            begin(Ask { system: ask.system, prompt: ask.prompt, budget: ask.budget }, Answer(sender));
            async move {
                match receiver.recv().await {
                    Ok(answer) => answer.map_err(Into::into),
                    Err(_) => Err("the summarizer gave no answer".into()),
                }
            }
        }))
    }

    /// Returns hooks that call the listener, and the queue that holds back their events.
    pub(crate) fn hooks(&self) -> (Hooks, Arc<Events>) {
        let events = Arc::new(Events { listener: self.on_event.clone(), held: Mutex::default() });
        if self.on_event.is_none() {
            return (Hooks::default(), events);
        }
        let (start, end, refused) = (events.clone(), events.clone(), events.clone());
        let hooks = Hooks::default()
            .on_compact_start(move |event: &CompactStart| {
                let CompactStart { session, evicted_count, total_tokens, .. } = event;
                let told = json!({
                    "session": session.to_string(), "evicted_count": evicted_count, "total_tokens": total_tokens,
                });
                start.emit("compact_start", told.to_string());
            })
            .on_compact_end(move |event: &CompactEnd| {
                let (outcome, reason) = match &event.outcome {
                    CompactionOutcome::Summarized => ("summarized", None),
                    CompactionOutcome::Refused { .. } => ("refused", None),
                    CompactionOutcome::Failed { reason } => ("failed", Some(chained(&**reason))),
                    _ => ("cut", None),
                };
                let told = json!({
                    "session": event.session.to_string(),
                    "outcome": outcome,
                    "reason": reason,
                    "tokens_before": event.tokens_before,
                    "tokens_after": event.tokens_after,
                    "summary_tokens": event.summary_tokens,
                    "seconds": event.duration.as_secs_f64(),
                });
                end.emit("compact_end", told.to_string());
            })
            .on_summary_refused(move |event: &SummaryRefused| {
                let SummaryRefused { session, model, faults, again, .. } = event;
                let told = json!({
                    "session": session.to_string(),
                    "model": model,
                    "again": again,
                    "invented": faults.invented,
                    "missing": faults.missing,
                });
                refused.emit("summary_refused", told.to_string());
            });
        (hooks, events)
    }
}

/// Reports the events of a session to its listener. Holds back events that occur while a thread uses the session,
/// because the listener may call the session.
pub(crate) struct Events {
    listener: Option<EventListener>,
    held: Mutex<Held>,
}

/// The events that are held back, and the thread that uses the session.
#[derive(Default)]
struct Held {
    by: Option<ThreadId>,
    events: Vec<(&'static str, String)>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("tells", &self.listener.is_some()).finish_non_exhaustive()
    }
}

impl Events {
    /// Holds back the events of this thread.
    pub(crate) fn hold(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).by = Some(thread::current().id());
    }

    /// Returns the events that were held back, and stops holding back.
    pub(crate) fn release(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner)).events
    }

    pub(crate) fn emit(&self, event: &'static str, told: String) {
        let Some(listener) = &self.listener else { return };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.by == Some(thread::current().id()) {
            held.events.push((event, told));
        } else {
            drop(held);
            listener(event, told);
        }
    }
}
