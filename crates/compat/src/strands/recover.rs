//! Sending a list repeatedly, and reducing it each time, until the model accepts it.

use lookback_tokens::Estimate;
use lookback_tokens::measure;
use lookback_wire::message::Message;

use super::{ContextWindowOverflow, ConversationManager, Error};

const NO_SMALLER: &str = "The list is too long, and the manager did not make it smaller";

/// Sends a list until the model accepts it.
///
/// `call` sends the list. Each time it fails with an error for which `too_long` returns `true`, the manager reduces the
/// list. This continues as long as each list is smaller than the previous one, in estimated tokens, or in bytes if the
/// tokens are equal. So it ends with any manager and any model.
///
/// # Errors
/// Returns [`Error::Overflow`] if the list cannot be reduced. Its source is the model's own error, or that error's text
/// if the manager returned no error but reduced nothing. Returns [`Error::Model`] if the model fails for another
/// reason, and the manager's error if the manager fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::strands::{SlidingWindowConversationManager, recover};
///
/// # #[derive(Debug)] struct Refused;
/// # impl std::fmt::Display for Refused {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("too long") }
/// # }
/// # impl std::error::Error for Refused {}
/// let manager = SlidingWindowConversationManager::default();
/// let mut messages = vec![
///     Message::user("Hello"),
///     Message::assistant("Good day."),
///     Message::user("What is the capital of France?"),
/// ];
/// // A model that accepts at most two messages.
/// let answer = recover(&manager, &mut messages, |_: &Refused| true, async |messages| match messages.len() {
///     0..=2 => Ok("Paris"),
///     _ => Err(Refused),
/// });
/// assert_eq!(answer.await?, "Paris");
/// assert_eq!(messages.len(), 1);
/// # Ok::<(), lookback_compat::strands::Error>(())
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
            return Err(ContextWindowOverflow::new(NO_SMALLER).with_cause(said.into()).into());
        }
        refused = reduced;
    }
}

/// Returns the tokens and bytes of a list, in this order so that tuples compare by tokens first.
fn size(messages: &[Message]) -> (u64, u64) {
    let counter = Estimate::default();
    let sizes = messages.iter().map(|message| measure(message, &[], &counter));
    sizes.fold((0, 0), |(tokens, bytes): (u64, u64), size| {
        (tokens.saturating_add(size.tokens), bytes.saturating_add(size.bytes))
    })
}
