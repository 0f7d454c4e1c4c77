//! Sending a list until the model takes it: each time that it is refused as too long, the manager makes it smaller.

use lookback_core::Message;
use lookback_core::measure;
use lookback_core::tokens::Estimate;

use super::{ContextWindowOverflow, ConversationManager, Error};

const NO_SMALLER: &str = "The list is too long, and the manager did not make it smaller";

/// Sends a list until the model takes it: each time that it says the list is `too_long`, the manager reduces it.
///
/// This goes on as long as each list is smaller than the one before, in tokens by estimate, or in bytes at as many tokens. So it ends, with
/// any manager and any model.
///
/// # Errors
/// [`Error::Overflow`] if the list cannot be reduced, with the model's own error as its source, or its words if the manager took the error
/// and reduced nothing; [`Error::Model`] if the model fails otherwise; and if the manager does.
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
    let mut refused = size(messages);
    loop {
        let error = match call(messages).await {
            Ok(answer) => return Ok(answer),
            Err(error) if too_long(&error) => error,
            Err(error) => return Err(Error::Model(error.into())),
        };
        let said = error.to_string();
        manager.reduce_context(messages, Some(error.into())).await?;
        let reduced = size(messages);
        if reduced >= refused {
            return Err(ContextWindowOverflow { reason: NO_SMALLER, cause: Some(said.into()) }.into());
        }
        refused = reduced;
    }
}

/// Tokens and bytes, in the order in which they count.
fn size(messages: &[Message]) -> (u64, u64) {
    let counter = Estimate::default();
    let sizes = messages.iter().map(|message| measure(message, &[], &counter));
    sizes.fold((0, 0), |(tokens, bytes): (u64, u64), size| {
        (tokens.saturating_add(size.tokens), bytes.saturating_add(size.bytes))
    })
}
