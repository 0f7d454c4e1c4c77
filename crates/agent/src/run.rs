//! The types that describe a run to middleware and callers: the run, its calls, answers and tool outcomes.

use lookback_content::Redacted;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::Compaction;
use lookback_engine::view::View;
use lookback_wire::dialect;
use lookback_wire::dialect::{ConversionError, Dialect, Response};
use lookback_wire::message::{Message, ToolCall};
use serde_json::value::RawValue;

use super::EndReason;
use lookback_facts::LeftMessage;
use lookback_store::LogName;
use lookback_summarize::Job;
use lookback_summarize::Spawner;

/// A snapshot of a run for a middleware, after the reactions of earlier middleware. Changing it has no effect on the
/// run.
#[derive(derive_more::Debug, Clone)]
#[non_exhaustive]
pub struct Run {
    /// The session.
    pub session: LogName,
    /// The text of the message with which the run began. `None` if it began without one.
    #[debug("{:?}", Redacted(task))]
    pub task: Option<Arc<str>>,
    /// The iteration, from 1; 0 before the first.
    pub iteration: u64,
    /// The most iterations of the run, if there is a limit.
    pub iterations: Option<u64>,
    /// Whether another agent gave the task, rather than a person.
    pub sub_agent: bool,
    /// The messages that the model would see now.
    pub view: Arc<View>,
    /// The tokens of the view, with system prompt and tools, corrected by the provider's usage reports.
    pub tokens: u64,
    /// Input and output tokens of this run's calls so far, as reported. Lookback counts the tokens of calls without a
    /// report.
    pub spent: u64,
    /// The new tokens among those spent: all outputs, plus the growth of each input since the previous call.
    pub new_tokens: u64,
    /// The provider's format.
    pub dialect: Dialect,
    /// The policy, as tightened by the middleware so far.
    #[debug(skip)]
    pub policy: Arc<Policy>,
    /// The newest compaction of this iteration. To test a middleware, use [`Compaction::default`].
    #[debug(skip)]
    pub compaction: Option<Arc<Compaction>>,
    /// Messages that have left the window since this middleware was last called. Each message appears once.
    #[debug("{:?}", left.len())]
    pub left: Arc<[LeftMessage]>,
    /// The notes of this iteration so far.
    pub notes: Arc<[Note]>,
    /// Whether this call may use tools.
    pub tools: ToolUse,
    /// Passes background jobs to the caller's task, which starts them.
    #[debug(skip)]
    pub(super) jobs: Option<Sender<(Spawner, Job)>>,
}

impl Run {
    /// Creates a run that has just begun and has no task, for testing a middleware without a pipeline.
    ///
    /// ```
    /// use lookback_agent::{Budget, Event, Middleware, Run};
    /// use lookback_wire::dialect::Dialect;
    /// use lookback_engine::{policy::Policy, view::View};
    ///
    /// let mut run = Run::new("agent-1".parse()?, View::default(), Dialect::Anthropic, Policy::unlimited());
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
            tools: ToolUse::Allowed,
            jobs: None,
        }
    }

    /// Starts a background job on the task of the pipeline's caller, or on this thread if there is no pipeline.
    pub(super) fn spawn(&self, spawner: &Spawner, job: Job) {
        let work = (spawner.clone(), job);
        let here = match &self.jobs {
            // If the pipeline is gone, the error returns the job.
            Some(jobs) => jobs.try_send(work).err().map(|error| error.into_inner()),
            None => Some(work),
        };
        if let Some((spawner, job)) = here {
            spawner.spawn(job);
        }
    }
}

/// A note from a middleware to the model.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The name of the middleware.
    pub middleware: Arc<str>,
    /// The text that the model reads.
    #[debug("{:?}", Redacted(text))]
    pub text: Arc<str>,
}

impl Note {
    /// Creates a note from the middleware with this name.
    pub fn new(middleware: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Note { middleware: middleware.into(), text: text.into() }
    }
}

/// Whether a model call may use tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolUse {
    /// It may.
    #[default]
    Allowed,
    /// It may not, for this reason: the model should give its last answer. Send the tools as before, with the tool
    /// choice `none` if the provider has one. A request without the tools would lose its cache, and some providers
    /// would refuse it because its messages contain tool calls.
    Forbidden(EndReason),
}

/// A model call to make.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The view to send.
    pub view: Arc<View>,
    /// The provider's format.
    pub dialect: Dialect,
    /// The tokens of the view, corrected by the provider's usage reports.
    pub tokens: u64,
    /// Whether the model may use tools.
    pub tools: ToolUse,
    /// The iteration, from 1.
    pub iteration: u64,
}

impl Call {
    /// Returns the messages in the session's dialect.
    ///
    /// # Errors
    /// None in practice, because a message that the dialect cannot express is refused when it is pushed.
    pub fn messages(&self) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        self.view.encode(self.dialect)
    }

    /// Returns the messages as a JSON array, the `messages` of a request body.
    ///
    /// # Errors
    /// The errors of [`Call::messages`].
    pub fn to_json(&self) -> Result<String, ConversionError> {
        Ok(dialect::json_list(&self.messages()?))
    }
}

/// The usage that a provider reported for a call.
///
/// ```
/// use lookback_agent::CallUsage;
///
/// let usage = CallUsage::default().input(12_000).output(300).model("gpt-4o");
/// assert_eq!(usage.input + usage.output, 12_300);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallUsage {
    /// The provider, for example `openai` or `anthropic`.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

impl CallUsage {
    /// Reads the usage of a response. `None` if it does not report its input tokens.
    pub fn from_response(response: &Response) -> Option<Self> {
        let output = response.output.unwrap_or_default();
        Some(CallUsage { provider: None, model: response.model.clone(), input: response.input?, output })
    }

    /// Sets the provider, for example `openai` or `anthropic`.
    #[must_use]
    pub fn provider(self, provider: impl Into<String>) -> Self {
        CallUsage { provider: Some(provider.into()), ..self }
    }

    /// Sets the model that answered.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        CallUsage { model: Some(model.into()), ..self }
    }

    /// Sets the input tokens, including cached ones.
    #[must_use]
    pub fn input(self, tokens: u64) -> Self {
        CallUsage { input: tokens, ..self }
    }

    /// Sets the output tokens.
    #[must_use]
    pub fn output(self, tokens: u64) -> Self {
        CallUsage { output: tokens, ..self }
    }
}

/// An answer from the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelAnswer {
    /// The answer.
    pub message: Arc<Message>,
    /// The usage that the provider reported, if any.
    pub usage: Option<CallUsage>,
    /// The view that the model was sent.
    pub sent: Arc<View>,
    /// The time from the return of the call to its answer.
    pub duration: Duration,
}

impl ModelAnswer {
    /// Creates an answer to this view that took no time and has no usage, for testing a middleware without a pipeline.
    ///
    /// ```
    /// use lookback_agent::{CallUsage, Event, Middleware, ModelAnswer, Observe, Run};
    /// use lookback_wire::{dialect::Dialect, message::Message};
    /// use lookback_engine::{policy::Policy, view::View};
    ///
    /// let run = Run::new("agent-1".parse()?, View::default(), Dialect::Anthropic, Policy::unlimited());
    /// let mut answer = ModelAnswer::new(Message::assistant("It is blank."), run.view.clone());
    /// answer.usage = Some(CallUsage::default().input(900).output(4));
    /// assert!(Observe::new().on(&Event::AfterModel(answer), &run)?.notes.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn new(message: impl Into<Arc<Message>>, sent: impl Into<Arc<View>>) -> Self {
        ModelAnswer { message: message.into(), usage: None, sent: sent.into(), duration: Duration::ZERO }
    }
}

/// The outcome of a tool call.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// The call.
    pub call: ToolCall,
    /// The text that the model reads.
    #[debug("{:?}", Redacted(text))]
    pub text: Arc<str>,
    /// The status of the call.
    pub status: ToolStatus,
    /// How long the call took.
    pub duration: Duration,
}

impl ToolOutcome {
    /// Creates an outcome that took no time, for testing a middleware without a pipeline.
    pub fn new(call: ToolCall, text: impl Into<Arc<str>>, status: ToolStatus) -> Self {
        ToolOutcome { call, text: text.into(), status, duration: Duration::ZERO }
    }
}

/// The status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolStatus {
    /// The tool was run, and returned a result.
    Returned,
    /// The tool was run, and failed.
    Failed,
    /// The tool was not run: a middleware gave its result.
    Answered,
    /// The tool was not run: a middleware refused the call, or the run ended before.
    Refused,
}

impl ToolStatus {
    /// Returns whether the tool was run.
    pub(crate) fn is_run(self) -> bool {
        matches!(self, ToolStatus::Returned | ToolStatus::Failed)
    }

    /// Returns whether the model reads the result as an error.
    pub fn is_error(self) -> bool {
        matches!(self, ToolStatus::Failed | ToolStatus::Refused)
    }
}
