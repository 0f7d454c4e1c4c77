//! Middleware: stages around every model call of an agent's run, each of which may add a note, tighten the policy, answer for a tool, or
//! bring the run to its end.
//!
//! A [`Pipeline`] owns a session and the stages. It asks them one after another, and what one wants is done before the next is asked, so
//! that none undoes what another did. A stage that fails, panics or hangs is left behind, and told of; one that is set to fail closed ends
//! the run instead. What a stage says to the model is a message of Lookback's own in the log, like any other.
//!
//! ```
//! # futures_lite::future::block_on(async {
//! use lookback::middleware::{Budget, Pipeline, Progress, Stopped, CallUsage, ContextFilter};
//! use lookback::{MemoryStore, Message, Session, MiddlewareSettings, ToolCall};
//!
//! let session = Session::open(MemoryStore::new(), "agent-1", MiddlewareSettings::default()).await?;
//! let mut run = Pipeline::new(session)
//!     .with(Budget::reported(100_000))
//!     .with(ContextFilter::rounds(5)?)
//!     .with(Progress::new())
//!     .iterations(20);
//! run.start(Message::user("What is in notes.txt?")).await?;
//! while let Some(call) = run.next().await? {
//!     // Here the model is asked: `call.to_json()?` is what it is sent.
//!     let answer = match call.iteration {
//!         1 => Message::assistant_with_calls("", [ToolCall::new("c1", "read", r#"{"path":"notes.txt"}"#)]),
//!         _ => Message::assistant("Buy milk."),
//!     };
//!     let usage = CallUsage { input: call.tokens, output: 20, ..CallUsage::default() };
//!     for tool in run.answered(answer, Some(usage)).await? {
//!         run.tool(&tool, |_call| async { Ok::<_, String>("buy milk") }).await?;
//!     }
//! }
//! assert_eq!(run.stopped(), Some(&Stopped::Answered));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod budget;
mod context_filter;
mod end;
mod fact_sheet;
mod kinds;
#[cfg(feature = "otel")]
mod metrics;
mod observe;
mod pipeline;
mod progress;
mod run;
pub mod semconv;
mod slot;

use std::error::Error;
use std::time::Duration;

use lookback_core::Policy;
use lookback_core::dialect::TooLong;
use lookback_core::message::ToolCall;

pub use budget::{AtHard, Budget, BudgetError};
pub use context_filter::ContextFilter;
pub use end::{Cause, EndReason, MiddlewareError, Stopped};
pub use fact_sheet::FactSheet;
pub use kinds::{ContentKind, tokens_by_kind};
pub use observe::Observe;
pub use pipeline::Pipeline;
pub use progress::{Progress, pattern};
pub use run::{Call, CallUsage, ModelAnswer, Note, Run, ToolOutcome, ToolUse};

/// One stage around the model calls of a run.
///
/// It is asked on a thread of a pool, so it may wait: for a file, or for a future by `block_on`. It owns its state, and [`Event::Start`]
/// begins a run.
///
/// ```
/// use lookback::middleware::{Event, Failure, Middleware, Reaction, Run};
///
/// /// Says the time of day at the first call.
/// struct Clock;
///
/// impl Middleware for Clock {
///     fn name(&self) -> &str {
///         "clock"
///     }
///     fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
///         let first = matches!(event, Event::BeforeModel) && run.iteration == 1;
///         Ok(if first { Reaction::none().note("It is noon.") } else { Reaction::none() })
///     }
/// }
/// ```
pub trait Middleware: Send {
    /// A short name, for logs and errors.
    fn name(&self) -> &str;

    /// Something happens: what the stage wants done. The default places and limits fit a quick stage that is not vital.
    ///
    /// # Errors
    /// Whatever failed. The run goes on without the stage's reaction, or ends, as [`Middleware::on_failure`] says.
    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure>;

    /// Where it stands among the stages. [`Observe`] has 5, [`Budget`] 10, [`ContextFilter`] 15, [`FactSheet`] 20, [`Progress`] 50. Those up to
    /// 15 are asked before the window of a call is made, the others after.
    fn order(&self) -> u32 {
        100
    }

    /// The longest that it may take over one event; `None` or zero for as long as it likes.
    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    /// What becomes of the run when it fails.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Open
    }

    /// Whether it is asked at all, now.
    fn is_enabled(&self) -> bool {
        true
    }
}

/// Why a stage failed.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What becomes of a run when one of its stages fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It goes on.
    #[default]
    Open,
    /// It ends, in order, and its session can go on later.
    Closed,
}

/// Something that happens in a run. Stages are asked in their order before something, and in the reverse order after it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A run begins; its task is in the session.
    Start,
    /// An iteration begins: a model call, and the tools that it asks for.
    BeforeIteration,
    /// The model is about to be called.
    BeforeModel,
    /// Room was made for what the stages have just said: what stood in the window before may have left it. The call is about to be made
    /// all the same, and what is said now is still in it.
    Compacted,
    /// The model has answered, and the answer is in the session.
    AfterModel(ModelAnswer),
    /// A tool is about to be run.
    BeforeTool(ToolCall),
    /// A tool has given its result, and that is in the session.
    AfterTool(ToolOutcome),
    /// An iteration is done.
    AfterIteration,
    /// The provider refused the window as too long, and it is about to be made smaller.
    Overflow(TooLong),
    /// The run is over.
    Stop(Stopped),
}

impl Event {
    /// Its name, as logs have it.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Start => "start",
            Event::BeforeIteration => "before_iteration",
            Event::BeforeModel => "before_model",
            Event::Compacted => "compacted",
            Event::AfterModel(_) => "after_model",
            Event::BeforeTool(_) => "before_tool",
            Event::AfterTool(_) => "after_tool",
            Event::AfterIteration => "after_iteration",
            Event::Overflow(_) => "overflow",
            Event::Stop(_) => "stop",
        }
    }

    /// Whether something is done already, so that the stages are asked in the reverse of their order.
    fn is_after(&self) -> bool {
        match self {
            Event::AfterModel(_) | Event::AfterTool(_) | Event::AfterIteration | Event::Stop(_) => true,
            Event::Start
            | Event::BeforeIteration
            | Event::BeforeModel
            | Event::Compacted
            | Event::BeforeTool(_)
            | Event::Overflow(_) => false,
        }
    }

    /// Whether it is the same moment of the run.
    fn is_same(&self, other: &Event) -> bool {
        let of = |event: &Event| match event {
            Event::BeforeTool(call) => Some(call.id.clone()),
            Event::AfterTool(outcome) => Some(outcome.call.id.clone()),
            _ => None,
        };
        self.name() == other.name() && of(self) == of(other)
    }
}

/// What a stage wants done. It is done at once, before the next stage is asked.
#[derive(Clone, Default)]
pub struct Reaction {
    /// What the model is told, each as a message of its own: at this call, or at the next where none is about to be made.
    pub notes: Vec<String>,
    /// The window must fit this too, from now to the end of the run (see [`Policy::tightened`]).
    pub policy: Option<Box<Policy>>,
    /// How the run goes on.
    pub flow: Flow,
}

impl Reaction {
    /// Nothing.
    pub fn none() -> Self {
        Reaction::default()
    }

    /// The model is told this.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// The window must fit this policy too.
    #[must_use]
    pub fn tighten(self, policy: Policy) -> Self {
        Reaction { policy: Some(Box::new(policy)), ..self }
    }

    /// The tool is not run, and this is its result. At other events than [`Event::BeforeTool`] it means nothing.
    #[must_use]
    pub fn answer(self, text: impl Into<String>) -> Self {
        Reaction { flow: Flow::Answer { text: text.into(), error: false }, ..self }
    }

    /// The tool is not run, and fails with this.
    #[must_use]
    pub fn refuse(self, text: impl Into<String>) -> Self {
        Reaction { flow: Flow::Answer { text: text.into(), error: true }, ..self }
    }

    /// The next model call is made without tools, and is the last.
    #[must_use]
    pub fn last_answer(self, reason: EndReason) -> Self {
        Reaction { flow: Flow::LastAnswer(reason), ..self }
    }

    /// The run ends here.
    #[must_use]
    pub fn stop(self, reason: EndReason) -> Self {
        Reaction { flow: Flow::Stop(reason), ..self }
    }
}

/// How a run goes on.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Flow {
    /// As it would.
    #[default]
    Continue,
    /// Without running the tool: this is its result.
    Answer {
        /// What the model is told that the tool said.
        text: String,
        /// Whether it says that the tool failed.
        error: bool,
    },
    /// With one more model call, which may use no tools. The first reason counts.
    LastAnswer(EndReason),
    /// Not at all.
    Stop(EndReason),
}

/// Where a stage stands, and how it may fail: what stands here is used instead of what the stage says itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct MiddlewareSettings {
    /// Instead of [`Middleware::order`].
    pub order: Option<u32>,
    /// Instead of [`Middleware::time_limit`]; zero for none.
    pub time_limit: Option<Duration>,
    /// Instead of [`Middleware::on_failure`].
    pub on_failure: Option<OnFailure>,
}
