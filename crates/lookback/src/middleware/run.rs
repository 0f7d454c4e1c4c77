//! What a stage sees of a run, and what a caller is given of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use lookback_core::message::{Message, ToolCall};
use lookback_core::transcript::{Compaction, Position};
use lookback_core::view::View;
use lookback_core::{ConversionError, Dialect, Policy, Response};
use serde_json::value::RawValue;

use super::EndReason;
use crate::session::{Job, list};
use crate::store::LogName;
use crate::summarize::Spawner;

/// A run as a stage sees it: as the stages before it left it. It changes nothing.
#[derive(Clone)]
#[non_exhaustive]
pub struct Run {
    /// The session.
    pub session: LogName,
    /// What is to be done: the text of the message that the run began with, where it began with one.
    pub task: Option<Arc<str>>,
    /// The iteration: 1 is the first, 0 before that.
    pub iteration: u64,
    /// The most iterations, where there is a most.
    pub iterations: Option<u64>,
    /// Whether another agent gave the task, and no person.
    pub sub_agent: bool,
    /// What the model would see now.
    pub view: Arc<View>,
    /// Tokens of it, system prompt and tools included, corrected by what the provider has reported.
    pub tokens: u64,
    /// Tokens in and out of this run's calls so far, as they were reported; where nothing was, by our count of what was sent and answered.
    pub spent: u64,
    /// Those of them that were new: outputs, and what each input had more than the one before.
    pub new_tokens: u64,
    /// The provider's format.
    pub dialect: Dialect,
    /// The policy, tightened by the stages so far.
    pub policy: Arc<Policy>,
    /// The newest compaction that was made in this iteration.
    pub compaction: Option<Arc<Compaction>>,
    /// Messages that have left the window since this stage was asked before: each is told once.
    pub left: Arc<[(Position, Arc<Message>)]>,
    /// What the stages have said at this iteration so far.
    pub notes: Arc<[Note]>,
    /// Whether this call may use tools.
    pub tools: ToolUse,
    /// Takes background jobs to the caller's task, which begins them.
    pub(super) jobs: Option<Sender<(Spawner, Job)>>,
}

impl Run {
    /// Creates a run that has just begun, without a task: to try a middleware out without a pipeline.
    ///
    /// ```
    /// use lookback::middleware::{Budget, Event, Middleware, Run};
    /// use lookback::{Dialect, Policy, View};
    ///
    /// let mut run = Run::new("agent-1".parse()?, View::default(), Dialect::Anthropic, Policy::default());
    /// (run.iteration, run.spent) = (1, 900);
    /// let mut budget = Budget::reported(1_000);
    /// budget.on(&Event::BeforeIteration, &run)?;
    /// assert_eq!(budget.on(&Event::BeforeModel, &run)?.notes.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn new(session: LogName, view: View, dialect: Dialect, policy: Policy) -> Self {
        Run {
            session,
            task: None,
            iteration: 0,
            iterations: None,
            sub_agent: false,
            tokens: view.totals().size.tokens,
            view: Arc::new(view),
            spent: 0,
            new_tokens: 0,
            dialect,
            policy: Arc::new(policy),
            compaction: None,
            left: Arc::new([]),
            notes: Arc::new([]),
            tools: ToolUse::Free,
            jobs: None,
        }
    }

    /// Begins a background job: on the caller's task if a pipeline waits there, else here.
    pub(super) fn spawn(&self, spawner: &Spawner, job: Job) {
        let work = (spawner.clone(), job);
        let here = match &self.jobs {
            // Nobody waits if the pipeline is gone.
            Some(jobs) => jobs.try_send(work).err().map(|error| error.into_inner()),
            None => Some(work),
        };
        if let Some((spawner, job)) = here {
            spawner.spawn(job);
        }
    }
}

/// What a stage said to the model.
#[derive(Clone, PartialEq, Eq)]
pub struct Note {
    /// The stage.
    pub middleware: Arc<str>,
    /// What it said.
    pub text: Arc<str>,
}

/// Whether a model call may use tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolUse {
    /// As it likes.
    #[default]
    Free,
    /// Not at all: it is to give its last answer. Send the tools as before, with a choice of none where the provider has that: a request
    /// without them loses its cache, and some providers refuse it for the calls that it shows.
    None(EndReason),
}

/// A model call that is to be made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// What the model is to see.
    pub view: Arc<View>,
    /// The provider's format.
    pub dialect: Dialect,
    /// Tokens of it, corrected by what the provider has reported.
    pub tokens: u64,
    /// Whether it may use tools.
    pub tools: ToolUse,
    /// The iteration; 1 is the first.
    pub iteration: u64,
}

impl Call {
    /// The messages, in the session's dialect.
    ///
    /// # Errors
    /// None in practice: what the dialect cannot say was refused when it was pushed.
    pub fn messages(&self) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        self.view.encode(self.dialect)
    }

    /// The messages, as the JSON list that a request body takes.
    ///
    /// # Errors
    /// As [`Call::messages`].
    pub fn to_json(&self) -> Result<String, ConversionError> {
        Ok(list(&self.messages()?))
    }
}

/// What a provider reported of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallUsage {
    /// The provider, such as `openai` or `anthropic`.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

impl CallUsage {
    /// What a response reports; `None` where it says nothing of its input.
    pub fn of(response: &Response) -> Option<Self> {
        let output = response.output.unwrap_or_default();
        Some(CallUsage { provider: None, model: response.model.clone(), input: response.input?, output })
    }
}

/// An answer of the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelAnswer {
    /// The answer.
    pub message: Arc<Message>,
    /// What the provider reported of the call, where it did.
    pub usage: Option<CallUsage>,
    /// What the model saw.
    pub sent: Arc<View>,
    /// From the call's being handed out to its answer.
    pub duration: Duration,
}

/// What came of a tool call.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The call.
    pub call: ToolCall,
    /// What the model is told.
    pub text: Arc<str>,
    /// Whether the tool failed.
    pub error: bool,
    /// Whether it was run at all: a stage may answer instead of it.
    pub ran: bool,
    /// How long it took.
    pub duration: Duration,
}
