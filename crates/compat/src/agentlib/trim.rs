//! Trims a list of messages to a token budget.

use lookback_wire::message::{Message, Role};

use super::Error;
#[cfg(doc)]
use super::Utf16;
use super::window::{fit, within};

/// Returns the newest messages that fit `max_tokens`, counted by [`Utf16`], after all system messages.
///
/// System messages come first and are never dropped. The others are taken from the newest to the oldest, up to the
/// first that does not fit. Calls and their results are kept or dropped together. The newest message is kept even if it
/// does not fit.
///
/// ```
/// use lookback_wire::message::Message;
/// use lookback_compat::agentlib::trim_to_token_budget;
///
/// let messages = ["old and long, longer than there is room for", "new"].map(Message::user);
/// let kept = trim_to_token_budget(messages.to_vec(), 10)?;
/// assert_eq!(kept.len(), 1);
/// assert_eq!(kept[0].text(), "new");
/// # Ok::<(), lookback_compat::agentlib::Error>(())
/// ```
///
/// # Errors
/// Returns an error if OpenAI's format cannot express a message.
pub fn trim_to_token_budget(messages: Vec<Message>, max_tokens: u64) -> Result<Vec<Message>, Error> {
    let (system, rest): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.role() == Role::System);
    fit(system.into_iter().chain(rest), within(max_tokens, None))
}
