//! Edits: what was done to which part of a message before it is shown. The message itself stays as it came.

use serde::{Deserialize, Deserializer, Serialize};

use crate::message::{Media, MediaSource, Message, PartRef, ToolResult};

/// What stands in a text's place: its first `head` bytes, a marker, and its last `tail` bytes.
///
/// The offsets always fall between characters as a reader sees them (grapheme clusters), and the result is always
/// shorter than the text, in bytes and in characters. A marker alone (`head` and `tail` 0) is a text that was cleared.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Kept from the start, in bytes.
    pub head: usize,
    /// Kept from the end, in bytes.
    pub tail: usize,
    /// What stands between: how much is gone.
    pub marker: String,
}

/// What was done to one part of a message before it is shown. The message itself stays in the log as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Index of the part in the message.
    pub part: usize,
    /// What was done to it.
    pub change: Change,
}

/// A change to one part.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A text, or an item of a tool result, shows less. An item of which nothing is left is not shown at all.
    Cut {
        /// Index of the item in the result; 0 for a text.
        item: usize,
        /// What stands in its place.
        cut: Cut,
    },
    /// The part is not shown.
    Hide(Hidden),
    /// A tool call or result goes by another identifier, since its own was taken or is not allowed.
    Rename(String),
    /// A tool call's arguments were not a JSON object, which providers refuse; this object holds them.
    Arguments(String),
}

/// Why a part is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// A tool result whose call is not in the history before it.
    Orphan,
    /// A second result of the same call.
    Duplicate,
    /// A result that came after a stand-in for it was sent; it takes the stand-in's place at the next compaction.
    Late,
    /// Text that is empty or all white space, which the provider refuses.
    Blank,
    /// Reasoning without a signature, which the provider refuses.
    Unsigned,
    /// Signed reasoning whose prefix a compaction changed.
    Stale,
}

impl Edit {
    /// Where it stands among others: by part, and what is done to all of a part before what is done to its items.
    fn place(&self) -> (usize, usize) {
        match self.change {
            Change::Cut { item, .. } => (self.part, item.saturating_add(1)),
            Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => (self.part, 0),
        }
    }
}

impl Cut {
    /// A cut that leaves nothing of a text but the note that it was cleared.
    pub fn clear(text: &str) -> Option<Cut> {
        let characters = text.chars().count();
        Cut { head: 0, tail: 0, marker: format!("[cleared: {characters} characters]") }.if_shorter(text)
    }

    /// What stands in place of a picture or file.
    pub fn placeholder(media: &Media, kind: &'static str) -> Cut {
        let format = media.mime.as_deref().map_or("unknown", |mime| mime.rsplit('/').next().unwrap_or(mime));
        let marker = match &media.source {
            MediaSource::Base64(data) => {
                format!("[{kind}: {format}, {} bytes]", data.trim_end_matches('=').len() * 3 / 4)
            }
            MediaSource::Text(text) => format!("[{kind}: {format}, {} characters]", text.chars().count()),
            MediaSource::Url(_) | MediaSource::Id(_) => format!("[{kind}: {format}]"),
        };
        Cut { head: 0, tail: 0, marker }
    }

    /// A note where there is no text at all.
    pub(crate) fn note(marker: &str) -> Cut {
        Cut { head: 0, tail: 0, marker: marker.to_owned() }
    }

    /// A text without the white space at its end; `None` where there is none.
    pub fn trim_end(text: &str) -> Option<Cut> {
        let head = text.trim_end().len();
        (head < text.len()).then(|| Cut { head, tail: 0, marker: String::new() })
    }

    pub(crate) fn nothing() -> Cut {
        Cut { head: 0, tail: 0, marker: String::new() }
    }

    pub(crate) fn if_shorter(self, text: &str) -> Option<Cut> {
        let kept = self.head + self.tail;
        let gone = text.get(self.head..text.len() - self.tail)?;
        let shorter = gone.len() > self.marker.len() && gone.chars().count() > self.marker.chars().count();
        (kept < text.len() && shorter).then_some(self)
    }

    /// The text as it is shown.
    pub fn apply(&self, text: &str) -> String {
        let head = text.get(..self.head).unwrap_or_default();
        let tail = text.len().checked_sub(self.tail).and_then(|at| text.get(at..)).unwrap_or_default();
        [head, &self.marker, tail].concat()
    }
}

/// Puts edits in order: by part, and in a part what is done to all of it before what is done to its items. Everything that takes
/// edits wants them so, and finds one without a look at the others, however many a message has.
pub fn in_order(mut edits: Vec<Edit>) -> Vec<Edit> {
    edits.sort_by_key(Edit::place);
    edits
}

/// Reads edits, which a log of before may hold in another order.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Edit>, D::Error> {
    Vec::deserialize(deserializer).map(in_order)
}

/// The edits that are in one place.
fn at(edits: &[Edit], place: (usize, usize)) -> &[Edit] {
    let start = edits.partition_point(|edit| edit.place() < place);
    let end = edits.partition_point(|edit| edit.place() <= place);
    edits.get(start..end).unwrap_or_default()
}

/// What is done to all of a part.
fn of_part(edits: &[Edit], part: usize) -> &[Edit] {
    at(edits, (part, 0))
}

/// Whether anything is done to a part.
pub(crate) fn touches(edits: &[Edit], part: usize) -> bool {
    let first = edits.partition_point(|edit| edit.part < part);
    edits.get(first).is_some_and(|edit| edit.part == part)
}

/// Whether a part is hidden by these edits.
pub fn is_hidden(edits: &[Edit], part: usize) -> bool {
    of_part(edits, part).iter().any(|edit| matches!(edit.change, Change::Hide(_)))
}

/// Whether a part is hidden for this reason.
pub(crate) fn is_hidden_as(edits: &[Edit], part: usize, why: Hidden) -> bool {
    of_part(edits, part).iter().any(|edit| edit.change == Change::Hide(why))
}

/// Whether every part of a message is hidden, so that nothing of it is shown. A cache marker alone is nothing.
pub fn hides_all(message: &Message, edits: &[Edit]) -> bool {
    let mut parts = message.parts().enumerate();
    !edits.is_empty() && parts.all(|(index, part)| is_hidden(edits, index) || part.is_cache_marker())
}

/// The cut of one item of one part, where there is one.
pub fn cut_of(edits: &[Edit], part: usize, item: usize) -> Option<&Cut> {
    at(edits, (part, item.saturating_add(1))).iter().find_map(|edit| match &edit.change {
        Change::Cut { cut, .. } => Some(cut),
        Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => None,
    })
}

/// The note in a result that has no content of its own.
pub fn note_of<'a>(result: &ToolResult, edits: &'a [Edit], part: usize) -> Option<&'a Cut> {
    cut_of(edits, part, 0).filter(|_| result.content.is_empty())
}

/// The identifier by which a part goes after these edits, where they change it.
pub fn renamed(edits: &[Edit], part: usize) -> Option<&str> {
    of_part(edits, part).iter().find_map(|edit| match &edit.change {
        Change::Rename(id) => Some(id.as_str()),
        Change::Cut { .. } | Change::Hide(_) | Change::Arguments(_) => None,
    })
}

/// The arguments of a tool call after these edits, where they change them.
pub fn arguments(edits: &[Edit], part: usize) -> Option<&str> {
    of_part(edits, part).iter().find_map(|edit| match &edit.change {
        Change::Arguments(json) => Some(json.as_str()),
        Change::Rename(_) | Change::Cut { .. } | Change::Hide(_) => None,
    })
}

/// All that can be read of a message after these edits, as [`Message::text`] gives all of it.
pub fn shown_text(message: &Message, edits: &[Edit]) -> String {
    if edits.is_empty() {
        return message.text();
    }
    let mut lines = Vec::new();
    for (index, part) in message.parts().enumerate().filter(|(index, _)| !is_hidden(edits, *index)) {
        match part {
            PartRef::Text(text) => {
                lines.push(cut_of(edits, index, 0).map_or_else(|| text.to_owned(), |cut| cut.apply(text)));
            }
            PartRef::Reasoning(reasoning) => lines.push(reasoning.text.clone()),
            PartRef::ToolCall(call) => {
                lines.push(call.name.clone());
                lines.push(arguments(edits, index).unwrap_or(&call.arguments).to_owned());
            }
            PartRef::ToolResult(result) => {
                lines.extend(note_of(result, edits, index).map(|note| note.marker.clone()));
                for (item, value) in result.content.iter().enumerate() {
                    match (cut_of(edits, index, item), value.text()) {
                        (Some(cut), text) => lines.push(cut.apply(text.unwrap_or_default())),
                        (None, Some(text)) => lines.push(text.to_owned()),
                        (None, None) => {}
                    }
                }
            }
            PartRef::Image(_) | PartRef::Document(_) => {}
            PartRef::Opaque(opaque) => lines.push(opaque.raw.get().to_owned()),
        }
    }
    lines.join("\n")
}
