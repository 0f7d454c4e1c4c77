//! The size of a message as it is shown, after its edits.

use crate::edit::{self, Edit};
use crate::message::{Media, Message, PartRef, ResultItem};
use crate::size::Size;
use crate::tokens::{self, TokenCounter};

/// Returns the size of a message as it is shown after `edits`.
///
/// `bytes` is the length of the message in its own dialect, and 0 for a message that was built in Rust and has no wire
/// form. If the edits hide every part, the size is zero in every measure.
///
/// ```
/// use lookback_core::{Message, measure, tokens::Estimate};
///
/// let size = measure(&Message::user("How long is this?"), &[], &Estimate::default());
/// assert_eq!((size.messages, size.tokens), (1, 8));
/// ```
pub fn measure(message: &Message, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
    if edit::hides_all(message, edits) {
        return Size::default();
    }
    let mut size = add_up(message, edits, counter);
    if let Some(whole) = counter.message(message) {
        // The tokens that the counter adds for the message as a whole do not shrink with the parts that are shortened.
        let parts = if edits.is_empty() { size.tokens } else { add_up(message, &[], counter).tokens };
        size.tokens = whole.saturating_add(size.tokens).saturating_sub(parts);
    }
    size.bytes = message.wire().map_or(0, |wire| wire.dialect.shown_bytes(message, edits, wire));
    size
}

/// Adds up the parts of a message as they are shown, and what the message costs in addition to them. Leaves `bytes` at
/// 0.
fn add_up(message: &Message, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
    let mut size = Size { tokens: counter.message_overhead(), bytes: 0, messages: 1, media: 0 };
    // Adding sizes saturates, so that no counter and no log can make them wrap.
    let tokens = |tokens| Size { tokens, ..Size::default() };
    let text_of = |text: &str| tokens(counter.text(text));
    for (index, part) in message.parts().enumerate().filter(|(index, _)| !edit::is_hidden(edits, *index)) {
        match part {
            PartRef::Text(text) => {
                let cut = edit::cut_of(edits, index, 0).map(|cut| cut.apply(text));
                size += text_of(cut.as_deref().unwrap_or(text));
            }
            PartRef::Reasoning(reasoning) => {
                // Hidden reasoning arrives as ciphertext in base64: four characters for three bytes of text. Counting
                // three tokens for 16 characters means four bytes of text a token.
                let hidden = reasoning.signature.as_ref().filter(|_| reasoning.text.is_empty());
                size += hidden.map_or_else(|| text_of(&reasoning.text), |data| tokens(data.len() as u64 * 3 / 16));
            }
            PartRef::ToolCall(call) => {
                let arguments = edit::arguments(edits, index).unwrap_or(&call.arguments);
                let id = edit::renamed(edits, index).unwrap_or(&call.id);
                size += text_of(&call.name) + text_of(arguments) + text_of(id);
            }
            PartRef::ToolResult(result) => {
                size += text_of(edit::renamed(edits, index).unwrap_or(&result.call_id));
                size += edit::note_of(result, edits, index).map_or(Size::default(), |note| text_of(&note.marker));
                for (item, value) in result.content.iter().enumerate() {
                    match (edit::cut_of(edits, index, item), value) {
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
    Size { tokens: tokens::image_tokens(media, counter.image_formula()), media: 1, ..Size::default() }
}

fn of_document(media: &Media, counter: &dyn TokenCounter) -> Size {
    Size { tokens: tokens::document_tokens(media, counter), media: 1, ..Size::default() }
}
