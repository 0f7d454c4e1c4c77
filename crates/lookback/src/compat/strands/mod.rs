//! Strands' conversation managers: they keep an agent's own list of messages small, in place, after a turn, before a call, or because the
//! model refused it as too long.
//!
//! [`SlidingWindowConversationManager`] keeps the newest messages; [`SummarizingConversationManager`] merges the oldest into a summary;
//! [`NullConversationManager`] does nothing. All are [`ConversationManager`]s, have Strands' names and defaults, and go by the rules of
//! Bedrock Converse, where the results of tools are a user's messages. Send the list as [`Dialect::Bedrock`] encodes it: that merges
//! neighbors of one role, which the provider refuses and the list may have where something between them is gone. A manager of your own
//! is a type that implements [`ConversationManager`]; three of its methods have no default.
//!
//! What differs from the original, and why:
//!
//! - **Nothing is lost.** What leaves the list stays in a session's log, and `search` finds it. It is kept in process memory unless
//!   a store is given.
//! - **A window begins with a user's message.** If the original begins one with a tool call, the task that the call belongs to stays
//!   before it, beside the messages that the window may hold. So does a tool exchange that the model has not answered yet.
//! - **Any result may be shortened,** also one of the exchange that is under way, and one of JSON; not only those of the oldest
//!   message. No cut makes a text longer. Documents in results are named in their place as pictures are.
//! - **It ends.** Each reduction leaves less than there was, or says that there is nothing to reduce. So [`recover()`] comes to an end.
//! - **A restored window is valid.** `removed_message_count` says where in the agent's messages the window goes on, and the state has
//!   what stands before that place: [`restore_from_session`](ConversationManager::restore_from_session) gives it back.
//! - **Signed reasoning** of a tool loop that is under way forbids a reduction, and of turns that are done it leaves with the first one.

mod hooks;
mod incomplete;
mod mirror;
mod proactive;
mod recover;
mod sliding;
mod summarizing;

use std::future::Future;
use std::sync::Arc;

use lookback_core::{Dialect, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use hooks::{BeforeModelCall, HookRegistry};
pub use incomplete::without_incomplete_calls;
pub use proactive::{CompressionThreshold, ProactiveCompression};
pub use recover::recover;
pub use sliding::{SlidingWindow, SlidingWindowConversationManager};
pub use summarizing::{Summarizing, SummarizingConversationManager};

use super::OptionError;
use crate::summarize::SummarizerError;

/// What the model said when it refused a list as too long.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Keeps a list of messages small, in place. It may be shared between tasks and threads.
///
/// A manager of your own needs a name, and says how it tidies a list and how it makes one smaller. The rest has defaults.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::compat::strands::{Cause, ConversationManager, Error};
///
/// /// Keeps the newest message alone.
/// struct Newest;
///
/// impl ConversationManager for Newest {
///     fn name(&self) -> &str {
///         "Newest"
///     }
///
///     async fn apply_management(&self, messages: &mut Vec<Message>) -> Result<(), Error> {
///         self.reduce_context(messages, None).await
///     }
///
///     async fn reduce_context(&self, messages: &mut Vec<Message>, _: Option<Cause>) -> Result<(), Error> {
///         messages.drain(..messages.len().saturating_sub(1));
///         Ok(())
///     }
/// }
///
/// let mut messages = vec![Message::user("One."), Message::assistant("Two."), Message::user("Three.")];
/// Newest.apply_management(&mut messages).await?;
/// assert_eq!(messages.len(), 1);
/// assert_eq!(Newest.get_state().await["__name__"], "Newest");
/// # Ok::<(), Error>(())
/// # }).unwrap();
/// ```
pub trait ConversationManager: Send + Sync {
    /// What a state of this manager is known by: the name of its type.
    fn name(&self) -> &str;

    /// Tidies the list, after the agent was invoked.
    ///
    /// # Errors
    /// If the store fails.
    fn apply_management(&self, messages: &mut Vec<Message>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes the list smaller now. With a cause, the model has refused the list: whatever helps is done, and an error says that
    /// nothing did. Without one, a list that cannot be made smaller stays as it is, and a warning says so (`tracing`).
    ///
    /// # Errors
    /// [`Error::Overflow`] if there is a cause and nothing can be reduced; and if the store fails.
    fn reduce_context(
        &self,
        messages: &mut Vec<Message>,
        cause: Option<Cause>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// When the list is reduced before the model refuses it. By default it is not.
    fn proactive_compression(&self) -> Option<&CompressionThreshold> {
        None
    }

    /// A model call comes next, of so many tokens if that is known, to a model that takes so many (`None`: 200,000, and a warning says so
    /// once). [`register_hooks`](ConversationManager::register_hooks) has it called; an agent's own loop may call it instead.
    ///
    /// By default the list is reduced if the share of [`proactive_compression`](ConversationManager::proactive_compression) is reached. If
    /// that fails, a warning says so, and the list stays as it is.
    ///
    /// # Errors
    /// If the store fails.
    fn before_model_call(
        &self,
        messages: &mut Vec<Message>,
        projected_tokens: Option<u64>,
        context_window_limit: Option<u64>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async move {
            let threshold = self.proactive_compression();
            if threshold.is_some_and(|threshold| threshold.is_reached(projected_tokens, context_window_limit)) {
                proactive::tell(self.reduce_context(messages, None).await);
            }
            Ok(())
        }
    }

    /// Has the manager asked before each model call of an agent that keeps this registry: by default, for
    /// [`before_model_call`](ConversationManager::before_model_call).
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use lookback::Message;
    /// use lookback::compat::strands::{
    ///     ConversationManager, HookRegistry, PerTurn, SlidingWindow, SlidingWindowConversationManager,
    /// };
    ///
    /// let options = SlidingWindow { window_size: 1, per_turn: PerTurn::Every(true), ..SlidingWindow::default() };
    /// let manager = Arc::new(SlidingWindowConversationManager::new(options)?);
    /// let mut registry = HookRegistry::default();
    /// manager.clone().register_hooks(&mut registry);
    ///
    /// let mut messages = vec![Message::user("One."), Message::assistant("Two."), Message::user("Three.")];
    /// registry.before_model_call(&mut messages, None, None).await?;
    /// assert_eq!(messages.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    fn register_hooks(self: Arc<Self>, registry: &mut HookRegistry)
    where
        Self: Sized + 'static,
    {
        registry.on_before_model_call(move |call| {
            let manager = Arc::clone(&self);
            Box::pin(async move {
                manager.before_model_call(call.messages, call.projected_tokens, call.context_window_limit).await
            })
        });
    }

    /// What a session needs to go on later: an object with the manager's name as `__name__`, and its `removed_message_count`.
    fn get_state(&self) -> impl Future<Output = Value> + Send {
        async move {
            let removed = self.removed_message_count().await;
            json!({"__name__": self.name(), "removed_message_count": removed})
        }
    }

    /// Goes on from such a state. Gives what is to stand before the agent's messages, which go on at `removed_message_count`.
    ///
    /// By default the state is checked, and nothing of it kept: a manager that counts what it removes has to take the count back.
    ///
    /// # Errors
    /// [`Error::State`] if it is not the state of such a manager.
    fn restore_from_session(&self, state: &Value) -> impl Future<Output = Result<Option<Vec<Message>>, Error>> + Send {
        async move { state_of(state, self.name()).map(|_| None) }
    }

    /// How many of the agent's messages are behind the window: it goes on with the next one of them. 0 by default.
    ///
    /// What stays from before that place is not counted out, and neither is a summary.
    fn removed_message_count(&self) -> impl Future<Output = u64> + Send {
        async { 0 }
    }
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
    fn name(&self) -> &str {
        "NullConversationManager"
    }

    async fn apply_management(&self, _: &mut Vec<Message>) -> Result<(), Error> {
        Ok(())
    }

    async fn reduce_context(&self, _: &mut Vec<Message>, cause: Option<Cause>) -> Result<(), Error> {
        let overflow = ContextWindowOverflow::new("The list is too long, and nothing manages it");
        cause.map_or(Ok(()), |cause| Err(ContextWindowOverflow { cause: Some(cause), ..overflow }.into()))
    }
}

/// A message with its bytes in Bedrock's format.
fn own(message: Message) -> Result<Message, crate::Error> {
    Ok(Dialect::Bedrock.convert(&message)?.into_iter().next().unwrap_or(message))
}
