//! How large a message is as it is shown: its parts, less what its edits take away.

use crate::edit::{self, Edit};
use crate::message::{Media, Message, PartRef, ResultItem};
use crate::size::Size;
use crate::tokens::{self, TokenCounter};

/// Measures a message as it is shown after `edits`: `bytes` are those of the message in its own dialect.
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
        // What the counter sees beside the parts stays where some of them are shortened.
        let parts = if edits.is_empty() { size.tokens } else { add_up(message, &[], counter).tokens };
        size.tokens = whole.saturating_add(size.tokens).saturating_sub(parts);
    }
    size.bytes = message.wire().map_or(0, |wire| wire.dialect.shown_bytes(message, edits, wire));
    size
}

/// The parts of a message as they are shown, and what it costs beside them; without its bytes.
fn add_up(message: &Message, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
    let mut size = Size { tokens: counter.message_overhead(), bytes: 0, messages: 1, media: 0 };
    // Sizes saturate where they are added, so that no counter and no log can make them wrap.
    let tokens = |tokens| Size { tokens, ..Size::default() };
    let text_of = |text: &str| tokens(counter.text(text));
    for (index, part) in message.parts().enumerate().filter(|(index, _)| !edit::is_hidden(edits, *index)) {
        match part {
            PartRef::Text(text) => {
                let cut = edit::cut_of(edits, index, 0).map(|cut| cut.apply(text));
                size += text_of(cut.as_deref().unwrap_or(text));
            }
            PartRef::Reasoning(reasoning) => {
                // Hidden reasoning comes as ciphertext: base64, four characters for three bytes of text.
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
    Size { tokens: tokens::image_tokens(media, counter.image()), media: 1, ..Size::default() }
}

fn of_document(media: &Media, counter: &dyn TokenCounter) -> Size {
    Size { tokens: tokens::document_tokens(media, counter), media: 1, ..Size::default() }
}
