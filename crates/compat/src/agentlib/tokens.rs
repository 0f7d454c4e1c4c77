//! The original's token estimate, and cutting a list of messages to a budget in it.

use lookback_tokens::TokenCounter;
use lookback_wire::message::Message;
use lookback_wire::message::Role;
use lookback_wire::models::Frame;

use super::Error;
use super::window::{fit, within};

/// The original's token counter: one token for every four UTF-16 units of a text, rounded up, and four for each
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Utf16;

impl TokenCounter for Utf16 {
    fn name(&self) -> &str {
        "utf16/4"
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn text(&self, text: &str) -> u64 {
        estimate_tokens(text)
    }

    fn frame(&self) -> Frame {
        Frame { message: 4, ..Frame::default() }
    }
}

/// Returns the tokens of a text: one for every four UTF-16 units, rounded up.
///
/// ```
/// use lookback_compat::agentlib::estimate_tokens;
///
/// assert_eq!(estimate_tokens(""), 0);
/// assert_eq!(estimate_tokens("abcde"), 2);
/// assert_eq!(estimate_tokens("🦀🦀🦀"), 2); // each is two units
/// ```
pub fn estimate_tokens(text: &str) -> u64 {
    text.encode_utf16().count().div_ceil(4) as u64
}

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
