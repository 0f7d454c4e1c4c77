//! The interface of managers, with default implementations.

use std::future::Future;
use std::sync::Arc;

use lookback_wire::message::Message;
use serde_json::{Value, json};

use super::proactive::log_failure;
use super::{CompressionThreshold, Error, HookRegistry, ModelError};

/// Keeps a list of messages small, in place. Tasks and threads can share a manager.
///
/// To write your own manager, implement `name`, `apply_management` and `reduce_context`. The other methods have
/// defaults.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::strands::{ConversationManager, Error, ModelError};
///
/// /// Keeps only the newest message.
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
///     async fn reduce_context(&self, messages: &mut Vec<Message>, _: Option<ModelError>) -> Result<(), Error> {
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
    /// Returns the name of the manager's type, which identifies its states.
    fn name(&self) -> &str;

    /// Tidies the list after the agent was invoked.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    fn apply_management(&self, messages: &mut Vec<Message>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes the list smaller now.
    ///
    /// A cause means that the model has refused the list. The manager then does everything it can, and returns an error
    /// if the list cannot be made smaller. Without a cause, such a list stays unchanged, and a warning is logged
    /// (`tracing`).
    ///
    /// # Errors
    /// Returns [`Error::Overflow`] if there is a cause and nothing can be reduced. Returns an error if the store fails.
    fn reduce_context(
        &self,
        messages: &mut Vec<Message>,
        cause: Option<ModelError>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Returns the threshold at which the list is reduced before the model refuses it. The default is `None`: never.
    fn proactive_compression(&self) -> Option<&CompressionThreshold> {
        None
    }

    /// Prepares the list for a model call.
    ///
    /// `projected_tokens` is the size of the call, if known. `context_window_limit` is the most tokens that the model
    /// accepts; for `None`, 200,000 is assumed, and a warning is logged once. A hook from
    /// [`register_hooks`](ConversationManager::register_hooks) calls this method before each model call. An agent's own
    /// loop may call it directly instead.
    ///
    /// By default, the list is reduced if the threshold of
    /// [`proactive_compression`](ConversationManager::proactive_compression) is reached. If that fails, a warning is
    /// logged, and the list stays unchanged.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    fn before_model_call(
        &self,
        messages: &mut Vec<Message>,
        projected_tokens: Option<u64>,
        context_window_limit: Option<u64>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async move {
            let threshold = self.proactive_compression();
            if threshold.is_some_and(|threshold| threshold.is_reached(projected_tokens, context_window_limit)) {
                log_failure(self.reduce_context(messages, None).await);
            }
            Ok(())
        }
    }

    /// Registers the manager with an agent's hooks. By default,
    /// [`before_model_call`](ConversationManager::before_model_call) is called before each model call.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use lookback_wire::message::Message;
    /// use lookback_compat::strands::{ConversationManager, HookRegistry, SlidingWindowConversationManager, SlidingWindowOptions};
    ///
    /// let options = SlidingWindowOptions::default().window_size(1).per_turn(true);
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

    /// Returns the state that a session needs to continue later: an object with the manager's name as `__name__`, and
    /// its `removed_message_count`.
    fn get_state(&self) -> impl Future<Output = Value> + Send {
        async move {
            let removed = self.removed_message_count().await;
            json!({"__name__": self.name(), "removed_message_count": removed})
        }
    }

    /// Restores such a state. Returns the messages to put before the agent's messages, which continue at
    /// `removed_message_count`.
    ///
    /// By default, the state is only checked. A manager that counts removed messages must restore the count.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the state does not belong to this kind of manager.
    fn restore_from_session(&self, state: &Value) -> impl Future<Output = Result<Option<Vec<Message>>, Error>> + Send {
        async move { state_of(state, self.name()).map(|_| None) }
    }

    /// Returns the number of the agent's messages before the window, which begins with the next one. 0 by default.
    ///
    /// The count includes messages before the window that stay in the list. A summary is not one of the agent's
    /// messages and is not counted.
    fn removed_message_count(&self) -> impl Future<Output = u64> + Send {
        async { 0 }
    }
}

/// Returns the `removed_message_count` of a state, if it is a state of the manager with this name.
pub(super) fn state_of(state: &Value, name: &str) -> Result<u64, Error> {
    if state.get("__name__").and_then(Value::as_str) != Some(name) {
        return Err(Error::State);
    }
    state.get("removed_message_count").and_then(Value::as_u64).ok_or(Error::State)
}
