//! Strands' conversation managers: they keep an agent's own list of messages small, in place, after a turn, before a call, or because the
//! model refused it as too long.
//!
//! [`SlidingWindowConversationManager`] keeps the newest messages; [`SummarizingConversationManager`] merges the oldest into a summary;
//! [`NullConversationManager`] does nothing. All are [`ConversationManager`]s, have Strands' names and defaults, and go by the rules of
//! Bedrock Converse, where the results of tools are a user's messages. Send the list as [`Dialect::Bedrock`] encodes it: that merges
//! neighbours of one role, which the provider refuses and the list may have where something between them is gone.
//!
//! What differs from the original, and why:
//!
//! - **Nothing is lost.** What leaves the list stays in a session's log, and `search` finds it. It is kept in process memory unless
//!   a store is given.
//! - **A window begins with a user's message.** Where the original begins one with a tool call, the task that the call belongs to stays
//!   before it; so does a tool exchange to which the model has not answered yet. The window may have a message or two more for that.
//! - **Any result may be shortened,** also one of the exchange that is under way, and one of JSON; not only those of the oldest
//!   message. No cut makes a text longer. Documents in results are named in their place as pictures are.
//! - **It ends.** Each reduction leaves less than there was, or says that there is nothing to reduce, and [`recover`] makes no more than
//!   ten attempts.
//! - **Signed reasoning** of a tool loop that is under way forbids a reduction, and of turns that are done it leaves with the first one.

mod mirror;
mod sliding;
mod summarizing;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use lookback_core::message::{AssistantPart, Content};
use lookback_core::{Dialect, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use sliding::{SlidingWindow, SlidingWindowConversationManager};
pub use summarizing::{Summarizing, SummarizingConversationManager};

use super::OptionError;
use crate::summarize::SummarizerError;

/// What the model said when it refused a list as too long.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// How often [`recover`] sends a list.
const ATTEMPTS: usize = 10;
/// The tokens that a model is taken to accept where nobody says.
const CONTEXT_WINDOW_LIMIT: u64 = 200_000;
/// When a proactive compression begins unless it is said otherwise.
const THRESHOLD: f64 = 0.7;

/// Keeps a list of messages small, in place. It may be shared between tasks and threads.
pub trait ConversationManager: Send + Sync {
    /// Tidies the list, after the agent was invoked.
    ///
    /// # Errors
    /// Where the store fails.
    fn apply_management(&self, messages: &mut Vec<Message>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes the list smaller now. With a cause, the model has refused the list: whatever helps is done, and an error says that
    /// nothing did. Without one, a list that cannot be made smaller stays as it is, and that is told (`tracing`).
    ///
    /// # Errors
    /// [`Error::Overflow`] where there is a cause and nothing can be reduced; and where the store fails.
    fn reduce_context(
        &self,
        messages: &mut Vec<Message>,
        cause: Option<Cause>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// What the original's `register_hooks` has called before each model call: the agent's own loop calls it here.
    ///
    /// A model call comes next, of so many tokens where that is known, to a model that takes so many (`None`: 200,000, which is told once).
    /// Where proactive compression is on and its share is reached, the list is reduced; what goes wrong there is told and changes nothing.
    ///
    /// # Errors
    /// Where the store fails.
    fn before_model_call(
        &self,
        messages: &mut Vec<Message>,
        projected_tokens: Option<u64>,
        context_window_limit: Option<u64>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// What a session needs to go on later: an object with the manager's name as `__name__`.
    fn get_state(&self) -> impl Future<Output = Value> + Send;

    /// Goes on from such a state. Gives what is to stand before the agent's messages.
    ///
    /// # Errors
    /// [`Error::State`] where it is not the state of such a manager.
    fn restore_from_session(&self, state: &Value) -> impl Future<Output = Result<Option<Vec<Message>>, Error>> + Send;

    /// How many messages have left the list, summaries that were replaced not counted.
    fn removed_message_count(&self) -> impl Future<Output = u64> + Send;
}

/// The list cannot be made smaller.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct ContextWindowOverflow {
    /// What stands in the way.
    pub reason: &'static str,
    /// What the model said.
    #[source]
    pub cause: Option<Cause>,
}

impl ContextWindowOverflow {
    pub(crate) fn new(reason: &'static str) -> Self {
        ContextWindowOverflow { reason, cause: None }
    }
}

/// Why a manager did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list cannot be made smaller.
    #[error(transparent)]
    Overflow(#[from] ContextWindowOverflow),
    /// The state is not one of such a manager.
    #[error("Invalid conversation manager state.")]
    State,
    /// There is no summary.
    #[error(transparent)]
    Summary(#[from] SummarizerError),
    /// A message cannot be said in Bedrock's format, or the store fails.
    #[error(transparent)]
    Session(#[from] crate::Error),
    /// The model failed, and not because the list was too long.
    #[error(transparent)]
    Model(Cause),
}

/// Before which model calls a list is tidied, beside the end of the turn. In JSON `false`, `true` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PerTurn {
    /// Before every call, or before none.
    Every(bool),
    /// Before every so many calls, from 1.
    Calls(i64),
}

impl Default for PerTurn {
    fn default() -> Self {
        PerTurn::Every(false)
    }
}

impl PerTurn {
    fn checked(self) -> Result<Self, OptionError> {
        match self {
            PerTurn::Calls(calls) if calls < 1 => Err(OptionError {
                option: "per_turn",
                expected: "a positive integer, True, or False",
                value: calls.to_string(),
            }),
            PerTurn::Every(_) | PerTurn::Calls(_) => Ok(self),
        }
    }

    fn is_due(self, call: u64) -> bool {
        match self {
            PerTurn::Every(every) => every,
            PerTurn::Calls(calls) => u64::try_from(calls).is_ok_and(|calls| calls > 0 && call.is_multiple_of(calls)),
        }
    }
}

/// Whether a list is reduced before the model refuses it. In JSON `false`, `true` or `{"compression_threshold": 0.7}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProactiveCompression {
    /// At 70 % of what the model takes, or never.
    Is(bool),
    /// At this share of what the model takes.
    At {
        /// Above 0 and at most 1.
        #[serde(default = "threshold")]
        compression_threshold: f64,
    },
}

fn threshold() -> f64 {
    THRESHOLD
}

/// When a proactive compression is due.
#[derive(Debug)]
struct Threshold {
    share: Option<f64>,
    told: AtomicBool,
}

impl Threshold {
    fn new(proactive: Option<ProactiveCompression>) -> Result<Self, OptionError> {
        let share = match proactive {
            None | Some(ProactiveCompression::Is(false)) => None,
            Some(ProactiveCompression::Is(true)) => Some(THRESHOLD),
            Some(ProactiveCompression::At { compression_threshold }) => Some(compression_threshold),
        };
        match share {
            Some(share) if !(share > 0.0 && share <= 1.0) => Err(OptionError {
                option: "compression_threshold",
                expected: "between 0 (exclusive) and 1 (inclusive)",
                value: share.to_string(),
            }),
            share => Ok(Threshold { share, told: AtomicBool::new(false) }),
        }
    }

    fn is_reached(&self, projected: Option<u64>, limit: Option<u64>) -> bool {
        let Some(share) = self.share else { return false };
        let limit = limit.unwrap_or_else(|| {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(assumed = CONTEXT_WINDOW_LIMIT, "nobody says how many tokens the model takes");
            }
            CONTEXT_WINDOW_LIMIT
        });
        projected.is_some_and(|projected| projected as f64 >= share * limit as f64)
    }
}

/// A proactive reduction that fails must not keep the call from being made.
fn tell(reduced: Result<(), Error>) {
    if let Err(error) = reduced {
        tracing::warn!(%error, "the proactive compression failed, and the call is made as it is");
    }
}

/// The members of a state, where it is one of this manager.
fn state_of<'a>(state: &'a Value, name: &str) -> Result<(&'a Value, u64), Error> {
    let removed = state.get("removed_message_count").and_then(Value::as_u64);
    match removed.filter(|_| state.get("__name__").and_then(Value::as_str) == Some(name)) {
        Some(removed) => Ok((state, removed)),
        None => Err(Error::State),
    }
}

/// Leaves the list as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullConversationManager;

impl ConversationManager for NullConversationManager {
    async fn apply_management(&self, _: &mut Vec<Message>) -> Result<(), Error> {
        Ok(())
    }

    async fn reduce_context(&self, _: &mut Vec<Message>, cause: Option<Cause>) -> Result<(), Error> {
        let overflow = ContextWindowOverflow::new("The list is too long, and nothing manages it");
        cause.map_or(Ok(()), |cause| Err(ContextWindowOverflow { cause: Some(cause), ..overflow }.into()))
    }

    async fn before_model_call(&self, _: &mut Vec<Message>, _: Option<u64>, _: Option<u64>) -> Result<(), Error> {
        Ok(())
    }

    async fn get_state(&self) -> Value {
        json!({"__name__": "NullConversationManager", "removed_message_count": 0})
    }

    async fn restore_from_session(&self, state: &Value) -> Result<Option<Vec<Message>>, Error> {
        state_of(state, "NullConversationManager").map(|_| None)
    }

    async fn removed_message_count(&self) -> u64 {
        0
    }
}

/// Sends a list until the model takes it: each time that it says the list is `too_long`, the manager reduces it. Ten attempts are made at
/// the most.
///
/// # Errors
/// [`Error::Overflow`], with the model's own error as its source, where the list cannot be reduced or the last attempt was refused too;
/// [`Error::Model`] where the model fails otherwise; and where the manager does.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::compat::strands::{SlidingWindowConversationManager, recover};
///
/// # #[derive(Debug)] struct Refused;
/// # impl std::fmt::Display for Refused { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("too long") } }
/// # impl std::error::Error for Refused {}
/// let manager = SlidingWindowConversationManager::default();
/// let mut messages = vec![
///     Message::user("Hello"),
///     Message::assistant("Good day."),
///     Message::user("What is the capital of France?"),
/// ];
/// // A model that takes two messages at most.
/// let answer = recover(&manager, &mut messages, |_: &Refused| true, async |messages| match messages.len() {
///     0..=2 => Ok("Paris"),
///     _ => Err(Refused),
/// });
/// assert_eq!(answer.await?, "Paris");
/// assert_eq!(messages.len(), 1);
/// # Ok::<(), lookback::compat::strands::Error>(())
/// # }).unwrap();
/// ```
pub async fn recover<T, E>(
    manager: &impl ConversationManager,
    messages: &mut Vec<Message>,
    too_long: impl Fn(&E) -> bool,
    mut call: impl AsyncFnMut(&[Message]) -> Result<T, E>,
) -> Result<T, Error>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut attempts = 1;
    loop {
        match call(messages).await {
            Ok(answer) => return Ok(answer),
            Err(error) if !too_long(&error) => return Err(Error::Model(error.into())),
            Err(error) if attempts == ATTEMPTS => {
                let overflow = ContextWindowOverflow::new("The list is still too long after ten attempts");
                return Err(ContextWindowOverflow { cause: Some(error.into()), ..overflow }.into());
            }
            Err(error) => manager.reduce_context(messages, Some(error.into())).await?,
        }
        attempts += 1;
    }
}

/// An answer that ended at the model's limit of output tokens: its tool calls may be incomplete, so a note stands in the place of each.
///
/// ```
/// use lookback::{Message, ToolCall, compat::strands::without_incomplete_calls};
///
/// let message = Message::calls("Let me look.", [ToolCall::new("c1", "read", "{\"pa")]);
/// let message = without_incomplete_calls(&message);
/// assert!(message.tool_calls().next().is_none());
/// assert!(message.text().ends_with("[The call of read was cut off at the limit of output tokens, and not made.]"));
/// ```
#[must_use]
pub fn without_incomplete_calls(message: &Message) -> Message {
    let Content::Assistant(parts) = message.content() else { return message.clone() };
    if message.tool_calls().next().is_none() {
        return message.clone();
    }
    let told = |part: &AssistantPart| match part {
        AssistantPart::ToolCall(call) => {
            let name = if call.name.is_empty() { "<unknown>" } else { &call.name };
            AssistantPart::Text(format!(
                "[The call of {name} was cut off at the limit of output tokens, and not made.]"
            ))
        }
        AssistantPart::Text(_) | AssistantPart::Reasoning(_) | AssistantPart::Opaque(_) => part.clone(),
    };
    Message::new(Content::Assistant(parts.iter().map(told).collect()))
}

/// A message of ours, with its bytes.
fn own(message: Message) -> Result<Message, crate::Error> {
    Ok(Dialect::Bedrock.convert(&message)?.into_iter().next().unwrap_or(message))
}
