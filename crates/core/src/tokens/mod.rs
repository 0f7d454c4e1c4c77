//! Sizes: what a text, a picture, a message costs in tokens, and the counters that say so.

mod calibration;
mod estimate;
mod media;
mod model;
mod openai;
mod vocabulary;

use std::fmt::Debug;
use std::sync::Arc;

pub use calibration::Calibration;
pub use estimate::{Estimate, Uncounted};
pub use media::ImageFormula;
pub(crate) use media::{document_tokens, image_tokens};
pub use model::{Model, Models, ModelsError, Tokenizer, glob};
pub use openai::{OpenAi, Vocabulary};

use crate::message::Message;
pub use crate::size::Size;

/// Counts tokens. Exact where a provider's tokenizer is public, else an estimate that says so.
///
/// Counts are additive by decision: a message is counted once, when it comes, and a window costs the sum of its
/// messages. (Byte-pair encodings are not quite additive, but providers tokenize each message by itself.)
pub trait TokenCounter: Debug + Send + Sync {
    /// A short name, such as `o200k`, which stands beside the counts that it made.
    fn name(&self) -> &str;

    /// Whether its counts of text are the provider's own.
    fn is_exact(&self) -> bool;

    /// Tokens of a text.
    fn text(&self, text: &str) -> u64;

    /// Tokens that a message costs beside its parts: role, separators.
    fn message_overhead(&self) -> u64 {
        3
    }

    /// How a picture is priced.
    fn image(&self) -> ImageFormula {
        ImageFormula::default()
    }

    /// Tokens of a whole message, for those who count more than its parts and [`message_overhead`](TokenCounter::message_overhead), such as
    /// what a provider writes around tool calls. `None`: the parts are added up, which is what happens unless this says otherwise.
    ///
    /// Where a part is shortened or hidden, its tokens are taken off by what [`text`](TokenCounter::text) says of them.
    ///
    /// ```
    /// use lookback_core::Message;
    /// use lookback_core::{measure, tokens::TokenCounter};
    ///
    /// /// Counts words, and ten for each call of a tool.
    /// #[derive(Debug)]
    /// struct Words;
    ///
    /// impl TokenCounter for Words {
    ///     fn name(&self) -> &str {
    ///         "words"
    ///     }
    ///     fn is_exact(&self) -> bool {
    ///         false
    ///     }
    ///     fn text(&self, text: &str) -> u64 {
    ///         text.split_whitespace().count() as u64
    ///     }
    ///     fn message(&self, message: &Message) -> Option<u64> {
    ///         Some(self.text(&message.text()) + 10 * message.tool_calls().count() as u64)
    ///     }
    /// }
    ///
    /// assert_eq!(measure(&Message::user("one two three"), &[], &Words).tokens, 3);
    /// ```
    fn message(&self, _message: &Message) -> Option<u64> {
        None
    }
}

impl<C: TokenCounter + ?Sized> TokenCounter for Arc<C> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn is_exact(&self) -> bool {
        (**self).is_exact()
    }

    fn text(&self, text: &str) -> u64 {
        (**self).text(text)
    }

    fn message_overhead(&self) -> u64 {
        (**self).message_overhead()
    }

    fn image(&self) -> ImageFormula {
        (**self).image()
    }

    fn message(&self, message: &Message) -> Option<u64> {
        (**self).message(message)
    }
}
