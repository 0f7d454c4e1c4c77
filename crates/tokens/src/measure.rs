//! Measures a message as it is shown, after its edits.

use crate as tokens;
use crate::TokenCounter;
use lookback_models::ReasoningFormula;
use lookback_wire::edit::{self, Edit};
use lookback_wire::message::Role;
use lookback_wire::message::{Media, Message, PartRef, Reasoning, ResultItem};
use lookback_wire::size::Size;

/// Returns the size of a message as it is shown after `edits`.
///
/// `bytes` is the length of the message in its own dialect, and 0 for a message that was built in Rust and has no wire
/// form. If the edits hide every part, the size is zero in every measure.
///
/// ```
/// use lookback_wire::message::Message;
/// use lookback_tokens::{measure, Estimate};
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
        // Shortened parts do not reduce the tokens that the counter adds for the message as a whole.
        let parts = if edits.is_empty() { size.tokens } else { add_up(message, &[], counter).tokens };
        size.tokens = whole.saturating_add(size.tokens).saturating_sub(parts);
    }
    size.bytes = message.wire().map_or(0, |wire| wire.dialect.shown_bytes(message, edits, wire));
    size
}

/// Adds up the shown parts of a message and the tokens around them. Leaves `bytes` at 0.
fn add_up(message: &Message, edits: &[Edit], counter: &dyn TokenCounter) -> Size {
    let frame = counter.frame();
    let mut size = Size { tokens: frame.message, messages: 1, ..Size::default() };
    // Adding sizes saturates, because a counter or a log may give huge numbers.
    let flat = |tokens| Size { tokens, ..Size::default() };
    let text_of = |text: &str| flat(counter.text(text));
    for (index, part) in message.parts().enumerate().filter(|(index, _)| !edit::is_hidden(edits, *index)) {
        match part {
            PartRef::Text(text) => {
                let cut = edit::cut_of(edits, index, 0).map(|cut| cut.apply(text));
                let text = cut.as_deref().unwrap_or(text);
                size += text_of(text);
                if frame.forgets
                    && matches!(frame.reasoning, ReasoningFormula::Text | ReasoningFormula::None)
                    && message.role() == Role::Assistant
                {
                    size.passing = size.passing.saturating_add(counter.text(thoughts(text)));
                }
            }
            PartRef::Reasoning(reasoning) => size += reasoning_size(reasoning, counter),
            PartRef::ToolCall(call) => {
                let arguments = edit::arguments(edits, index).unwrap_or(&call.arguments);
                let id = || text_of(edit::renamed(edits, index).unwrap_or(&call.id));
                size += text_of(&call.name) + text_of(arguments) + frame.call.map_or_else(id, flat);
            }
            PartRef::ToolResult(result) => {
                let id = || text_of(edit::renamed(edits, index).unwrap_or(&result.call_id));
                size += frame.result.map_or_else(id, flat);
                size += edit::note_of(result, edits, index).map_or(Size::default(), |note| text_of(&note.marker));
                for (item, value) in result.content.iter().enumerate() {
                    match (edit::cut_of(edits, index, item), value) {
                        (Some(cut), value) => size += text_of(&cut.apply(value.text().unwrap_or_default())),
                        (None, ResultItem::Text(text) | ResultItem::Json(text)) => size += text_of(text),
                        (None, ResultItem::Image(media)) => size += image_size(media, counter),
                        (None, ResultItem::Document(media)) => size += document_size(media, counter),
                        (None, ResultItem::Opaque(opaque)) => size += tokens::json_size(&opaque.raw, counter),
                    }
                }
            }
            PartRef::Image(media) => size += image_size(media, counter),
            PartRef::Document(media) => size += document_size(media, counter),
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
            PartRef::Opaque(opaque) => size += tokens::json_size(&opaque.raw, counter),
        }
    }
    if let Some(reasoning) = message.wire().and_then(|wire| wire.dialect.reasoning_beside(message)) {
        size += reasoning_size(&reasoning, counter);
    }
    size
}

/// Returns the reasoning in `<think>` at the beginning of an answer, as open models write it.
fn thoughts(text: &str) -> &str {
    let end = text.trim_start().starts_with("<think>").then(|| text.find("</think>")).flatten();
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn reasoning_size(reasoning: &Reasoning, counter: &dyn TokenCounter) -> Size {
    let frame = counter.frame();
    let tokens = tokens::reasoning_tokens(frame.reasoning, reasoning, counter);
    Size { tokens, passing: if frame.forgets { tokens } else { 0 }, ..Size::default() }
}

fn image_size(media: &Media, counter: &dyn TokenCounter) -> Size {
    Size { tokens: tokens::image_tokens(media, counter), media: 1, ..Size::default() }
}

fn document_size(media: &Media, counter: &dyn TokenCounter) -> Size {
    Size { tokens: tokens::document_tokens(media, counter), media: 1, ..Size::default() }
}
