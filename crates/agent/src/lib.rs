//! Middleware for the runs of an agent: notes, budgets, progress, fact sheets and traces around its model calls.
//!
//! A [`Pipeline`] owns a session and its middleware. It calls one middleware after another, and carries out the
//! reaction of each before it calls the next. So no middleware undoes the work of another. If a middleware fails,
//! panics or hangs, the run continues without it and the failure is reported. If the middleware is set to fail closed,
//! the run ends instead. A note to the model is one of Lookback's own messages, which goes into the log like any other.
//!
//! ```
//! # futures_lite::future::block_on(async {
//! use lookback_agent::{Budget, CallUsage, ContextFilter, Pipeline, Progress, Stopped};
//! use lookback_store::MemoryStore;
//! use lookback_wire::message::{Message, ToolCall};
//! use lookback_session::Session;
//! use lookback_engine::Settings;
//! use lookback_presets::named;
//!
//! let session = Session::open(MemoryStore::new(), "agent-1", Settings::default()).await?;
//! let mut run = Pipeline::new(session)
//!     .with(Budget::reported(100_000))
//!     .with(ContextFilter::new(named("two-tier:sliding_window_size=10,target_rounds=5")?))
//!     .with(Progress::new())
//!     .with_iterations(20);
//! run.start(Message::user("What is in notes.txt?")).await?;
//! while let Some(call) = run.next().await? {
//!     // Ask the model here, with the messages of `call.to_json()?`.
//!     let answer = match call.iteration {
//!         1 => Message::assistant_with_calls("", [ToolCall::new("c1", "read", r#"{"path":"notes.txt"}"#)]),
//!         _ => Message::assistant("Buy milk."),
//!     };
//!     let usage = CallUsage::default().input(call.tokens).output(20);
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
mod cost;
mod end;
mod fact_sheet;
mod kinds;
#[cfg(feature = "otel")]
mod metrics;
mod observe;
mod pipeline;
mod progress;
mod run;
#[doc(hidden)]
pub mod semconv;
mod slot;

use lookback_content::Redacted;
use std::error::Error;
use std::time::Duration;

use lookback_engine::policy::Policy;
use lookback_wire::dialect::TooLong;
use lookback_wire::message::ToolCall;

pub use budget::{AtHard, Budget, BudgetError};
pub use context_filter::ContextFilter;
pub use end::{Cause, EndReason, MiddlewareError, Stopped};
pub use fact_sheet::FactSheet;
#[doc(hidden)]
pub use kinds::{ContentKind, tokens_by_kind};
pub use observe::Observe;
pub use pipeline::Pipeline;
pub use progress::Progress;
#[doc(hidden)]
pub use progress::repeated_cycle;
pub use run::{Call, CallUsage, ModelAnswer, Note, Run, ToolOutcome, ToolStatus, ToolUse};

/// Code that is called around the model calls of a run.
///
/// A middleware runs on a thread of a pool, so it may block: on a file, or on a future with `block_on`. With the
/// feature `tokio`, that thread is in the caller's tokio runtime, if there is one, so `Handle::current().block_on(..)`
/// works. A middleware owns its state. [`Event::Start`] begins a run.
///
/// ```
/// use lookback_agent::{Event, Failure, Middleware, Reaction, Run};
///
/// /// Tells the model the time of day at the first call.
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
    /// Returns a short name, for logs and errors.
    fn name(&self) -> &str;

    /// Reacts to an event. The other methods have defaults that suit a quick middleware that the run can do without.
    ///
    /// # Errors
    /// Any error of the middleware. The run then continues without a reaction, or ends (see
    /// [`Middleware::on_failure`]).
    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure>;

    /// Returns its order among the middleware: 5 for [`Observe`], 10 for [`Budget`], 15 for [`ContextFilter`], 20 for
    /// [`FactSheet`], 50 for [`Progress`], and 100 by default. Middleware up to 15 is called before the window of a
    /// call is made, the others after it.
    fn order(&self) -> u32 {
        100
    }

    /// Returns the time limit for one event. `None` and zero mean no limit; the default is 5 seconds.
    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    /// Returns the effect of its failure on the run.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Open
    }

    /// Returns whether it is active. An inactive middleware gets no events.
    fn is_enabled(&self) -> bool {
        true
    }
}

/// The error of a middleware.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The effect of a middleware's failure on the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// The run continues without the middleware.
    #[default]
    Open,
    /// The run ends regularly, and its session can continue later.
    Closed,
}

/// An event of a run. Middleware is called in order for events before something, and in reverse order for events after
/// it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A run begins. Its task is in the session.
    Start,
    /// An iteration begins: a model call and the tools that it asks for.
    BeforeIteration,
    /// The model is about to be called.
    BeforeModel,
    /// The window was compacted again to make room for notes of the middleware. The call is about to be made, and notes
    /// that are added now are still part of it.
    Compacted,
    /// The model has answered. The answer is in the session.
    AfterModel(ModelAnswer),
    /// A tool is about to be run.
    BeforeTool(ToolCall),
    /// A tool has returned its result, which is in the session.
    AfterTool(ToolOutcome),
    /// An iteration is over.
    AfterIteration,
    /// The provider refused the request as too long. The window is about to be made smaller.
    Overflow(TooLong),
    /// The run is over.
    Stop(Stopped),
}

impl Event {
    /// Returns the event's name in logs, such as `before_model`.
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

    /// Whether the event comes after something, so that middleware is called in reverse order.
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

    /// Whether this is the same moment of the run.
    fn is_same(&self, other: &Event) -> bool {
        let of = |event: &Event| match event {
            Event::BeforeTool(call) => Some(call.id.clone()),
            Event::AfterTool(outcome) => Some(outcome.call.id.clone()),
            _ => None,
        };
        self.name() == other.name() && of(self) == of(other)
    }
}

/// The reaction of a middleware. The pipeline carries it out before it calls the next middleware.
#[derive(derive_more::Debug, Clone, Default)]
#[non_exhaustive]
pub struct Reaction {
    /// Notes to the model, each sent as a separate message. They are part of this model call, or of the next one if no
    /// call is about to be made.
    #[debug("{:?}", Redacted(notes))]
    pub notes: Vec<String>,
    /// An additional policy that the window must meet until the end of the run (see [`Policy::tightened`]).
    pub policy: Option<Box<Policy>>,
    /// How the run continues.
    pub flow: Flow,
}

impl Reaction {
    /// Creates a reaction that does nothing.
    pub fn none() -> Self {
        Reaction::default()
    }

    /// Adds a note to the model.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Makes the window also meet this policy.
    #[must_use]
    pub fn tighten(self, policy: Policy) -> Self {
        Reaction { policy: Some(Box::new(policy)), ..self }
    }

    /// Uses this text as the tool's result, without running the tool. Ignored at events other than
    /// [`Event::BeforeTool`].
    #[must_use]
    pub fn answer(self, text: impl Into<String>) -> Self {
        Reaction { flow: Flow::Answer(text.into()), ..self }
    }

    /// Uses this text as the tool's error, without running the tool. Ignored at events other than
    /// [`Event::BeforeTool`].
    #[must_use]
    pub fn refuse(self, text: impl Into<String>) -> Self {
        Reaction { flow: Flow::Refuse(text.into()), ..self }
    }

    /// Makes the next model call the last one, without tools.
    #[must_use]
    pub fn last_answer(self, reason: EndReason) -> Self {
        Reaction { flow: Flow::LastAnswer(reason), ..self }
    }

    /// Ends the run here.
    #[must_use]
    pub fn stop(self, reason: EndReason) -> Self {
        Reaction { flow: Flow::Stop(reason), ..self }
    }
}

/// How a run continues after a reaction.
#[derive(derive_more::Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Flow {
    /// It continues unchanged.
    #[default]
    Continue,
    /// The tool is not run. This is its result.
    Answer(#[debug("{:?}", Redacted(_0))] String),
    /// The tool is not run. This is the error that the model reads as its result.
    Refuse(#[debug("{:?}", Redacted(_0))] String),
    /// One more model call is made, without tools. If several middleware ask for it, the first reason counts.
    LastAnswer(EndReason),
    /// The run ends.
    Stop(EndReason),
}

/// Settings that replace those of a middleware. `None` leaves the middleware's own.
///
/// ```
/// use lookback_agent::{MiddlewareSettings, OnFailure};
///
/// let settings = MiddlewareSettings::default().order(1).on_failure(OnFailure::Closed);
/// assert_eq!(settings.order, Some(1));
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct MiddlewareSettings {
    /// Replaces [`Middleware::order`].
    pub order: Option<u32>,
    /// Replaces [`Middleware::time_limit`]. Zero means no limit.
    pub(crate) time_limit: Option<Duration>,
    /// Replaces [`Middleware::on_failure`].
    pub on_failure: Option<OnFailure>,
}

impl MiddlewareSettings {
    /// Replaces [`Middleware::order`].
    #[must_use]
    pub fn order(self, order: u32) -> Self {
        MiddlewareSettings { order: Some(order), ..self }
    }

    /// Replaces [`Middleware::time_limit`]. Zero means no limit.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        MiddlewareSettings { time_limit: Some(time_limit), ..self }
    }

    /// Replaces [`Middleware::on_failure`].
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        MiddlewareSettings { on_failure: Some(on_failure), ..self }
    }
}
