//! The hooks that an agent calls before each model call. Managers register for them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lookback_wire::message::Message;

use super::Error;

/// The next model call.
#[derive(Debug)]
#[non_exhaustive]
pub struct BeforeModelCall<'a> {
    /// The agent's messages. A hook may change them.
    pub messages: &'a mut Vec<Message>,
    /// The projected tokens of the call, if known.
    pub projected_tokens: Option<u64>,
    /// The most tokens that the model accepts, if known.
    pub context_window_limit: Option<u64>,
}

/// The future that a hook returns. It can be sent between threads.
type Hooked<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

type Hook = Box<dyn for<'a> Fn(BeforeModelCall<'a>) -> Hooked<'a> + Send + Sync>;

/// The hooks of an agent. Its loop calls [`HookRegistry::before_model_call`] before each model call.
#[derive(Default)]
pub struct HookRegistry {
    before_model_call: Vec<Hook>,
}

impl HookRegistry {
    /// Adds a hook that is called before each model call, after the hooks that were added earlier.
    pub fn on_before_model_call<F>(&mut self, hook: F)
    where
        F: for<'a> Fn(BeforeModelCall<'a>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>
            + Send
            + Sync
            + 'static,
    {
        self.before_model_call.push(Box::new(hook));
    }

    /// Calls every hook, in the order in which they were added.
    ///
    /// # Errors
    /// Returns the error of the first hook that fails. The hooks after it are not called.
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
