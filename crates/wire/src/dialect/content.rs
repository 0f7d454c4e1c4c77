//! The content of a message or a tool result, a text or a list of elements, and its edits.

use serde_json::value::RawValue;

use crate::edit::{self, Cut, Edit};
use crate::message::PartRef;
use lookback_content::json;

/// The edit of an element.
pub(super) enum ElementEdit<'a> {
    Keep,
    Hide,
    /// Cuts this text. An element of which nothing remains is hidden.
    Cut(&'a Cut, &'a str),
}

/// Returns the text of a part that is a text.
pub(super) fn text<'a>(part: &PartRef<'a>) -> Option<&'a str> {
    if let PartRef::Text(text) = part { Some(text) } else { None }
}

/// Returns the edit of an item of a part, which is an element.
pub(super) fn element<'a>(edits: &'a [Edit], part: usize, item: usize, text: Option<&'a str>) -> ElementEdit<'a> {
    match edit::cut_of(edits, part, item) {
        _ if edit::is_hidden(edits, part) => ElementEdit::Hide,
        Some(cut) => ElementEdit::Cut(cut, text.unwrap_or_default()),
        None => ElementEdit::Keep,
    }
}

/// Applies the edit of each element. `write` writes an element with a text. Returns `None` if nothing changes.
pub(super) fn edited<'a>(
    content: &RawValue,
    edit: impl Fn(usize) -> ElementEdit<'a>,
    write: fn(&str) -> Box<RawValue>,
) -> Option<Box<RawValue>> {
    let Some(elements) = json::array(content) else {
        let ElementEdit::Cut(cut, text) = edit(0) else { return None };
        return Some(json::string(&cut.apply(text)));
    };
    let mut changes = false;
    let elements = elements.into_iter().enumerate().filter_map(|(index, raw)| {
        let edit = edit(index);
        changes |= !matches!(edit, ElementEdit::Keep);
        match edit {
            ElementEdit::Keep => Some(raw.to_owned()),
            ElementEdit::Hide => None,
            ElementEdit::Cut(cut, text) => {
                Some(cut.apply(text)).filter(|text| !text.is_empty()).map(|text| write(&text))
            }
        }
    });
    let elements: Vec<_> = elements.collect();
    changes.then(|| json::write_array(elements.iter().map(AsRef::as_ref)))
}

/// Writes a block of text.
pub(super) fn text_block(text: &str) -> Box<RawValue> {
    json::value(&serde_json::json!({"type": "text", "text": text}))
}
