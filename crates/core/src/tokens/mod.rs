//! Token counters, and the size of a message in tokens, bytes and media.

mod calibration;
mod estimate;
mod media;
mod model;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod openai;
#[cfg(any(feature = "o200k", feature = "cl100k"))]
mod vocabulary;

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Sub};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use calibration::Calibration;
pub use estimate::{Estimate, Uncounted};
pub use media::ImageFormula;
pub use model::{Model, Models, ModelsError, Tokenizer, glob};
#[cfg(any(feature = "o200k", feature = "cl100k"))]
pub use openai::{OpenAi, Vocabulary};

use crate::cut::{self, Edit};
use crate::message::{Media, Message, PartRef, ResultItem};

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

    /// Returns the tokens that a message costs besides its parts, for its role and separators.
    fn message_overhead(&self) -> u64 {
        3
    }

    /// Returns the formula for the tokens of pictures.
    fn image(&self) -> ImageFormula {
        ImageFormula::default()
    }

    /// Counts the tokens of a whole message.
    ///
    /// Implement it for a counter that counts more than the parts and the
    /// [`message_overhead`](TokenCounter::message_overhead), such as what a provider writes around tool calls. By
    /// default it returns `None`, and the parts are added up.
    ///
    /// If a part is truncated or hidden, the tokens that [`text`](TokenCounter::text) counts for what is missing are
    /// subtracted.
    ///
    /// ```
    /// use lookback_core::Message;
    /// use lookback_core::tokens::{TokenCounter, measure};
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

/// The size of a message or a window, in the measures that can be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Size {
    /// Tokens, as the session's counter counts them.
    pub tokens: u64,
    /// Bytes of JSON.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Pictures and files.
    pub media: u64,
}

impl Add for Size {
    type Output = Size;
    fn add(self, other: Size) -> Size {
        Size {
            tokens: self.tokens.saturating_add(other.tokens),
            bytes: self.bytes.saturating_add(other.bytes),
            messages: self.messages.saturating_add(other.messages),
            media: self.media.saturating_add(other.media),
        }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Size) {
        *self = *self + other;
    }
}

impl Sub for Size {
    type Output = Size;
    fn sub(self, other: Size) -> Size {
        Size {
            tokens: self.tokens.saturating_sub(other.tokens),
            bytes: self.bytes.saturating_sub(other.bytes),
            messages: self.messages.saturating_sub(other.messages),
            media: self.media.saturating_sub(other.media),
        }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), Size::add)
    }
}

/// Measures a message after its edits. The bytes are those of the message in its own dialect.
///
/// ```
/// use lookback_core::{Message, tokens::{measure, Estimate}};
///
/// let size = measure(&Message::user("How long is this?"), &[], &Estimate::default());
/// assert_eq!((size.messages, size.tokens), (1, 8));
/// ```
pub fn measure(message: &Message, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
    if cut::hides_all(message, edits) {
        return Size::default();
    }
    let mut size = add_up(message, edits, counter);
    if let Some(whole) = counter.message(message) {
        // If parts are truncated, only their tokens change, not what the counter adds for the message as a whole.
        let parts = if edits.is_empty() { size.tokens } else { add_up(message, &[], counter).tokens };
        size.tokens = whole.saturating_add(size.tokens).saturating_sub(parts);
    }
    size.bytes = message.wire().map_or(0, |wire| wire.dialect.shown_bytes(message, edits, wire));
    size
}

/// Adds up a message and its parts after the edits, except for its bytes.
fn add_up(message: &Message, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
    let mut size = Size { tokens: counter.message_overhead(), bytes: 0, messages: 1, media: 0 };
    // Sizes saturate when they are added, so that no counter and no log can make them wrap.
    let tokens = |tokens| Size { tokens, ..Size::default() };
    let text_of = |text: &str| tokens(counter.text(text));
    for (index, part) in message.parts().enumerate().filter(|(index, _)| !cut::is_hidden(edits, *index)) {
        match part {
            PartRef::Text(text) => {
                let cut = cut::cut_of(edits, index, 0).map(|cut| cut.apply(text));
                size += text_of(cut.as_deref().unwrap_or(text));
            }
            PartRef::Reasoning(reasoning) => {
                // Hidden reasoning is ciphertext in base64, with four characters for three bytes. A token has about
                // four bytes.
                let hidden = reasoning.signature.as_ref().filter(|_| reasoning.text.is_empty());
                size += hidden.map_or_else(|| text_of(&reasoning.text), |data| tokens(data.len() as u64 * 3 / 16));
            }
            PartRef::ToolCall(call) => {
                let arguments = cut::arguments(edits, index).unwrap_or(&call.arguments);
                let id = cut::renamed(edits, index).unwrap_or(&call.id);
                size += text_of(&call.name) + text_of(arguments) + text_of(id);
            }
            PartRef::ToolResult(result) => {
                size += text_of(cut::renamed(edits, index).unwrap_or(&result.call_id));
                size += cut::note_of(result, edits, index).map_or(Size::default(), |note| text_of(&note.marker));
                for (item, value) in result.content.iter().enumerate() {
                    match (cut::cut_of(edits, index, item), value) {
                        (Some(cut), value) => size += text_of(&cut.apply(value.text().unwrap_or_default())),
                        (None, ResultItem::Text(text) | ResultItem::Json(text)) => size += text_of(text),
                        (None, ResultItem::Image(media)) => size += of_image(media, counter),
                        (None, ResultItem::Document(media)) => size += of_document(media, counter),
                        (None, ResultItem::Opaque(opaque)) => size += text_of(opaque.raw.get()),
                    }
                }
            }
            PartRef::Image(media) => size += of_image(media, counter),
            PartRef::Document(media) => size += of_document(media, counter),
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
            PartRef::Opaque(opaque) => size += text_of(opaque.raw.get()),
        }
    }
    if let Some(text) = message.wire().and_then(|wire| wire.dialect.beside_parts(message)) {
        size += text_of(&text);
    }
    size
}

fn of_image(media: &Media, counter: &dyn TokenCounter) -> Size {
    Size { tokens: media::image_tokens(media, counter.image()), media: 1, ..Size::default() }
}

fn of_document(media: &Media, counter: &dyn TokenCounter) -> Size {
    Size { tokens: media::document_tokens(media, counter), media: 1, ..Size::default() }
}
