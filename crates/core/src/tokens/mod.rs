//! Token counters, the models that they count for, and what pictures and files cost.

mod base64;
mod calibration;
mod estimate;
mod frame;
mod image;
mod media;
mod model;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod openai;
mod pdf;
mod unknown;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod vocabulary;

use std::fmt::Debug;
use std::sync::Arc;

pub use calibration::Calibration;
pub(crate) use calibration::scale;
pub use estimate::{Estimate, Uncounted};
pub use frame::{Frame, ReasoningFormula};
pub use image::{ImageFormula, Pixels};
pub use media::MediaFormula;
pub(crate) use media::{document_tokens, image_tokens, pdf_pages};
pub use model::{Model, Models, ModelsError, Tokenizer, WideWindow, matches_glob};
#[cfg(any(feature = "o200k", feature = "cl100k"))]
pub use openai::{OpenAiCounter, Vocabulary};
pub(crate) use unknown::json_size;

use crate::message::Message;

/// Loads the vocabularies and the table of models, which are otherwise loaded when they are first needed.
///
/// That takes longer than an answer should: a server does it before it listens. Once they are loaded, it does nothing.
pub fn load() {
    let _ = Models::builtin();
    #[cfg(any(feature = "o200k", feature = "cl100k"))]
    vocabulary::load();
}

/// A counter of tokens: exact if the provider's tokenizer is public, and otherwise an estimate.
///
/// Lookback counts each message once, when it arrives, and adds up the counts of a window. Byte-pair encodings are not
/// quite additive, but providers tokenize each message by itself.
pub trait TokenCounter: Debug + Send + Sync {
    /// Returns a short name, such as `o200k`, which is recorded with the counts.
    fn name(&self) -> &str;

    /// Returns whether its counts of text are exactly the provider's.
    fn is_exact(&self) -> bool;

    /// Counts the tokens of a text.
    fn text(&self, text: &str) -> u64;

    /// Returns the tokens of what a provider writes around texts.
    fn frame(&self) -> Frame {
        Frame::default()
    }

    /// Returns the formulas for pictures, files, sound and video.
    fn media_formula(&self) -> MediaFormula {
        MediaFormula::default()
    }

    /// Counts the tokens of a whole message.
    ///
    /// Implement it for a counter that counts more than the parts and the
    /// [`frame`](TokenCounter::frame). By default it returns `None`, and the parts are added up.
    ///
    /// If a part is truncated or hidden, the tokens that [`text`](TokenCounter::text) counts for what is missing are
    /// subtracted.
    ///
    /// ```
    /// use lookback_core::Message;
    /// use lookback_core::{measure, tokens::TokenCounter};
    ///
    /// /// Counts words, and ten more for each tool call.
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

    fn frame(&self) -> Frame {
        (**self).frame()
    }

    fn media_formula(&self) -> MediaFormula {
        (**self).media_formula()
    }

    fn message(&self, message: &Message) -> Option<u64> {
        (**self).message(message)
    }
}
