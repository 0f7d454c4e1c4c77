//! The original's token estimate.

use lookback_models::Frame;
use lookback_tokens::TokenCounter;

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
