//! What is done before each model call of an agent: managers register for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lookback_core::Message;

use super::Error;

/// A model call that comes next.
#[derive(Debug)]
pub struct BeforeModelCall<'a> {
    /// The agent's messages, which a hook may change.
    pub messages: &'a mut Vec<Message>,
    /// The tokens of the call, if they are known.
    pub projected_tokens: Option<u64>,
    /// The most tokens that the model takes, if that is known.
    pub context_window_limit: Option<u64>,
}

/// What a hook returns: a future that can be sent between threads.
type Hooked<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

type Hook = Box<dyn for<'a> Fn(BeforeModelCall<'a>) -> Hooked<'a> + Send + Sync>;

/// The hooks of an agent: its loop calls [`HookRegistry::before_model_call`] before each call to the model.
#[derive(Default)]
pub struct HookRegistry {
    before_model_call: Vec<Hook>,
}

impl HookRegistry {
    /// Has this done before each model call, behind what was registered before.
    pub fn on_before_model_call<F>(&mut self, hook: F)
    where
        F: for<'a> Fn(BeforeModelCall<'a>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>
            + Send
            + Sync
            + 'static,
    {
        self.before_model_call.push(Box::new(hook));
    }

    /// A model call comes next: calls every hook, in the order in which they were registered.
    ///
    /// # Errors
    /// Of the first hook that fails. Those behind it are not called.
    pub async fn before_model_call(
        &self,
        messages: &mut Vec<Message>,
        projected_tokens: Option<u64>,
        context_window_limit: Option<u64>,
    ) -> Result<(), Error> {
        for hook in &self.before_model_call {
            hook(BeforeModelCall { messages: &mut *messages, projected_tokens, context_window_limit }).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for HookRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookRegistry").field("before_model_call", &self.before_model_call.len()).finish()
    }
}
