//! Counting tokens of messages, and cutting texts to a number of tokens.

mod calibration;
pub mod cut;
mod estimate;
mod measure;
mod media;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod openai;
mod preamble;
mod reasoning;
mod truncation;
mod unknown;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod vocabulary;

use std::fmt::Debug;
use std::sync::Arc;

pub use calibration::Calibration;
pub use estimate::{Estimate, Uncounted};
pub use measure::measure;
pub(crate) use media::{document_tokens, image_tokens};
#[cfg(any(feature = "o200k", feature = "cl100k"))]
pub use openai::{OpenAiCounter, Vocabulary};
#[doc(hidden)]
pub use preamble::measure_deferred;
pub use preamble::measure_preamble;
pub(crate) use reasoning::{reasoning_tokens, sealed_tokens};
pub(crate) use unknown::json_size;

use lookback_models::{Frame, MediaFormula, Model, Models, scale};
use lookback_wire::message::Message;

/// Loads the vocabularies and the table of models, which are otherwise loaded on first use.
///
/// Loading takes longer than a request should, so a server does it before it listens. Later calls do nothing.
pub fn load() {
    let _ = Models::builtin();
    #[cfg(any(feature = "o200k", feature = "cl100k"))]
    vocabulary::load();
}

/// Returns a counter for the tokens of a model.
///
/// It is an [`Estimate`] if the model's vocabulary is not compiled in (features `o200k` and `cl100k`).
pub fn counter(model: &Model) -> Arc<dyn TokenCounter> {
    #[cfg(any(feature = "o200k", feature = "cl100k"))]
    if let Some(vocabulary) = Vocabulary::for_tokenizer(model.tokenizer) {
        return Arc::new(
            OpenAiCounter::new(vocabulary).factor(model.factor).with_frame(model.frame).media(model.media),
        );
    }
    Arc::new(Estimate { factor: model.factor, frame: model.frame, media: model.media })
}

/// A counter of tokens: exact if the provider's tokenizer is public, and otherwise an estimate.
///
/// Lookback counts each message once, when it arrives, and adds up the counts of a window. Counts of byte-pair
/// encodings are not quite additive, but providers tokenize each message separately.
pub trait TokenCounter: Debug + Send + Sync {
    /// Returns a short name, such as `o200k`, which is recorded with the counts.
    fn name(&self) -> &str;

    /// Returns whether its counts of text are exactly the provider's.
    fn is_exact(&self) -> bool;

    /// Counts the tokens of a text.
    fn text(&self, text: &str) -> u64;

    /// Returns the tokens that a provider adds around texts.
    fn frame(&self) -> Frame {
        Frame::default()
    }

    /// Returns the formulas for pictures, files, sound and video.
    fn media_formula(&self) -> MediaFormula {
        MediaFormula::default()
    }

    /// Counts the tokens of a whole message.
    ///
    /// Implement this method if the counter counts more than the parts and the [`frame`](TokenCounter::frame). The
    /// default returns `None`, and the parts are added up.
    ///
    /// If a part is truncated or hidden, the tokens that [`text`](TokenCounter::text) counts for the missing text are
    /// subtracted.
    ///
    /// ```
    /// use lookback_wire::message::Message;
    /// use lookback_tokens::{measure, TokenCounter};
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

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
