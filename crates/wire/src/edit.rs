//! Edits: recorded changes to how the parts of a message are shown. The message itself stays as it arrived.

use lookback_content::Redacted;
use lookback_content::numbered::sparsely_numbered;
use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serialize};

pub use crate::hidden::Hidden;
use crate::message::{Media, MediaSource, Message, PartRef, ToolResult};
use lookback_content::text::short;

/// A shortened text: its first `head` bytes, a marker, and its last `tail` bytes.
///
/// The offsets always fall between grapheme clusters (characters as a reader sees them). The result is always shorter
/// than the text, in bytes and in characters. If `head` and `tail` are both 0, the text was cleared and only the marker
/// is shown.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Length of the beginning that is kept, in bytes.
    pub head: usize,
    /// Length of the end that is kept, in bytes.
    pub tail: usize,
    /// The text between them, which says how much was removed.
    #[debug("{:?}", Redacted(marker))]
    pub marker: String,
    /// Lines of the head and the tail that the window shows elsewhere, in order. A reference replaces them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeat>,
    /// Whether lines are shown without their numbers, except for the first of each kept piece, and every tenth.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unnumbered: bool,
}

/// Lines of a text that another message of the window shows, word for word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// The beginning of the first line, in bytes of the text.
    pub start: usize,
    /// The end of the last line, in bytes of the text.
    pub end: usize,
    /// The entry of the message that shows them.
    pub entry: u64,
}

/// A piece of a shown text.
enum Piece<'a> {
    /// It is shown unchanged.
    Kept(&'a str),
    /// The marker of the cut.
    Marker,
    /// A reference to lines that are shown elsewhere.
    Repeated { lines: usize, entry: u64 },
}

/// A change to how one part of a message is shown. The message itself stays in the log as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Index of the part in the message.
    pub part: usize,
    /// The change.
    pub change: Change,
}

/// A change to how one part is shown.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A text, or an item of a tool result, is shortened. An item that becomes empty is not shown.
    Cut {
        /// Index of the item in the result, or 0 for a text.
        item: usize,
        /// The cut to apply.
        cut: Cut,
    },
    /// The part is not shown.
    Hide(Hidden),
    /// A tool call or result is shown under this identifier, because its own identifier is already in use or is not
    /// allowed.
    Rename(#[debug("{:?}", Redacted(_0))] String),
    /// The arguments of a tool call are shown as this JSON object: it contains them, because providers refuse arguments
    /// that are not an object, or it is the same object with notes in place of long texts.
    Arguments(#[debug("{:?}", Redacted(_0))] String),
}

impl Edit {
    /// Describes the repair that this edit makes of a message with these parts. Returns `None` if it is not a repair.
    pub fn repair(&self, parts: &[PartRef<'_>]) -> Option<String> {
        let id = match parts.get(self.part) {
            Some(PartRef::ToolCall(call)) => Some(call.id.as_str()),
            Some(PartRef::ToolResult(result)) => Some(result.call_id.as_str()),
            _ => None,
        };
        let is_object = matches!(parts.get(self.part), Some(PartRef::ToolCall(call)) if call.has_object_arguments());
        let named =
            |before: &str, after: &str| id.map_or_else(String::new, |id| format!("{before}{}{after}", short(id)));
        match &self.change {
            Change::Hide(why) => Some(format!("{}{} is left out", why, named(" (", ")"))),
            Change::Rename(new) => {
                let (id, new) = (named(" ", ""), short(new));
                Some(format!("the identifier{id} is already used or not allowed: it is sent as {new}"))
            }
            Change::Arguments(_) if !is_object => {
                Some(format!("the arguments{} are not a JSON object: they are sent inside one", named(" of ", "")))
            }
            _ => None,
        }
    }

    /// Returns the cut and the item that it is made in, if this is a cut.
    pub fn into_cut(self) -> Option<(usize, Cut)> {
        match self.change {
            Change::Cut { item, cut } => Some((item, cut)),
            Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => None,
        }
    }

    /// Returns the key that edits are sorted by: the part, then changes to the whole part before changes to its items.
    fn place(&self) -> (usize, usize) {
        match self.change {
            Change::Cut { item, .. } => (self.part, item.saturating_add(1)),
            Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => (self.part, 0),
        }
    }
}

impl Cut {
    /// Returns the cut that replaces a picture or file by a note with its format and, if it is in the message, its
    /// size.
    pub fn placeholder(media: &Media, kind: &'static str) -> Cut {
        let format = media.mime.as_deref().map_or("unknown", |mime| mime.rsplit('/').next().unwrap_or(mime));
        let marker = match &media.source {
            MediaSource::Base64(data) => {
                format!("[{kind}: {format}, {} bytes]", data.trim_end_matches('=').len() * 3 / 4)
            }
            MediaSource::Text(text) => format!("[{kind}: {format}, {} characters]", text.chars().count()),
            MediaSource::Url(_) | MediaSource::Id(_) => format!("[{kind}: {format}]"),
        };
        Cut::note(&marker)
    }

    /// Returns a cut that shows only `marker`. It may be longer than the text that it replaces, which may be empty.
    pub fn note(marker: &str) -> Cut {
        Cut { head: 0, tail: 0, marker: marker.to_owned(), repeats: Vec::new(), unnumbered: false }
    }

    /// Returns the cut that removes white space from the end of a text, or `None` if there is none.
    pub fn trim_end(text: &str) -> Option<Cut> {
        let head = text.trim_end().len();
        (head < text.len()).then(|| Cut { head, ..Cut::nothing() })
    }

    /// Returns a cut that shows nothing.
    pub fn nothing() -> Cut {
        Cut::note("")
    }

    /// Returns this cut if it makes `text` shorter, both in bytes and in characters.
    pub fn if_shorter(self, text: &str) -> Option<Cut> {
        let kept = self.head + self.tail;
        let gone = text.get(self.head..text.len() - self.tail)?;
        let shorter = gone.len() > self.marker.len() && gone.chars().count() > self.marker.chars().count();
        (kept < text.len() && shorter).then_some(self)
    }

    /// Returns the cut that leaves out only lines that the window shows elsewhere, and the numbers of lines if
    /// `unnumbered`. Returns `None` if that is nothing.
    #[doc(hidden)]
    pub fn once(text: &str, repeats: Vec<Repeat>, unnumbered: bool) -> Option<Cut> {
        let changes = unnumbered || !repeats.is_empty();
        changes.then(|| Cut { head: text.len(), repeats, unnumbered, ..Cut::nothing() })
    }

    /// Returns this cut, with those repeats left out, too, that lie completely in its head or tail.
    #[doc(hidden)]
    pub fn without(self, text: &str, mut repeats: Vec<Repeat>) -> Cut {
        let tail = text.len().saturating_sub(self.tail);
        repeats.retain(|repeat| repeat.end <= self.head || repeat.start >= tail);
        Cut { repeats, ..self }
    }

    /// Returns whether this cut hides numbers of lines, and nothing else.
    #[doc(hidden)]
    pub fn only_hides_numbers(&self) -> bool {
        self.unnumbered && self.marker.is_empty() && self.repeats.is_empty() && self.tail == 0
    }

    /// Returns how many bytes of a text are kept.
    pub fn kept_bytes(&self) -> usize {
        let lengths = self.repeats.iter().map(|repeat| repeat.end.saturating_sub(repeat.start));
        let repeated = lengths.fold(0, usize::saturating_add);
        self.head.saturating_add(self.tail).saturating_sub(repeated)
    }

    /// Returns the text as it is shown.
    pub fn apply(&self, text: &str) -> String {
        let mut shown = String::with_capacity(self.kept_bytes().min(text.len()).saturating_add(self.marker.len()));
        for piece in self.pieces(text) {
            match piece {
                Piece::Kept(kept) if self.unnumbered => shown.extend(sparsely_numbered(kept)),
                Piece::Kept(kept) => shown.push_str(kept),
                Piece::Marker => shown.push_str(&self.marker),
                Piece::Repeated { lines, entry } => {
                    let _ = writeln!(shown, "[... {lines} lines as shown above, in entry {entry} ...]");
                }
            }
        }
        shown
    }

    /// Returns the pieces of a text that are kept, in order, with the numbers of their lines.
    pub fn kept<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let kept = |piece| match piece {
            Piece::Kept(kept) => Some(kept),
            Piece::Marker | Piece::Repeated { .. } => None,
        };
        self.pieces(text).into_iter().filter_map(kept)
    }

    /// Returns the pieces of the shown text, in order.
    fn pieces<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::with_capacity(3 + 2 * self.repeats.len());
        let tail = text.len().saturating_sub(self.tail).max(self.head);
        let mut repeats = self.repeats.iter().peekable();
        let mut keep = |mut at: usize, end: usize, pieces: &mut Vec<Piece<'a>>| {
            while let Some(repeat) = repeats.next_if(|repeat| repeat.end <= end) {
                if repeat.start < at {
                    continue;
                }
                let Some(repeated) = text.get(repeat.start..repeat.end) else { continue };
                pieces.extend(text.get(at..repeat.start).map(Piece::Kept));
                pieces.push(Piece::Repeated { lines: lines_of(repeated), entry: repeat.entry });
                at = repeat.end;
            }
            pieces.extend(text.get(at..end).map(Piece::Kept));
        };
        keep(0, self.head, &mut pieces);
        pieces.push(Piece::Marker);
        keep(tail, text.len(), &mut pieces);
        pieces
    }
}

/// Sorts edits by part, and changes to a whole part before changes to its items.
///
/// All functions that take edits expect this order, and find an edit by binary search.
#[doc(hidden)]
pub fn in_order(mut edits: Vec<Edit>) -> Vec<Edit> {
    edits.sort_by_key(Edit::place);
    edits
}

/// Deserializes edits and sorts them, because somebody may have edited the log.
#[doc(hidden)]
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Edit>, D::Error> {
    Vec::deserialize(deserializer).map(in_order)
}

/// Returns the edits with this sort key.
fn at(edits: &[Edit], place: (usize, usize)) -> &[Edit] {
    let start = edits.partition_point(|edit| edit.place() < place);
    let end = edits.partition_point(|edit| edit.place() <= place);
    edits.get(start..end).unwrap_or_default()
}

/// Returns the changes to a whole part.
fn part_edits(edits: &[Edit], part: usize) -> &[Edit] {
    at(edits, (part, 0))
}

/// Returns whether any edit changes a part.
pub(crate) fn touches(edits: &[Edit], part: usize) -> bool {
    let first = edits.partition_point(|edit| edit.part < part);
    edits.get(first).is_some_and(|edit| edit.part == part)
}

/// Returns whether these edits hide a part.
#[doc(hidden)]
pub fn is_hidden(edits: &[Edit], part: usize) -> bool {
    part_edits(edits, part).iter().any(|edit| matches!(edit.change, Change::Hide(_)))
}

/// Returns whether these edits hide a part for this reason.
#[doc(hidden)]
pub fn is_hidden_as(edits: &[Edit], part: usize, why: Hidden) -> bool {
    part_edits(edits, part).iter().any(|edit| edit.change == Change::Hide(why))
}

/// Returns whether a message is not shown, because every part is hidden. Cache markers do not count.
#[doc(hidden)]
pub fn hides_all(message: &Message, edits: &[Edit]) -> bool {
    let mut parts = message.parts().enumerate();
    !edits.is_empty() && parts.all(|(index, part)| is_hidden(edits, index) || part.is_cache_marker())
}

/// Returns the entries that show lines which these edits leave out.
#[doc(hidden)]
pub fn repeated(edits: &[Edit]) -> impl Iterator<Item = u64> {
    let cuts = edits.iter().filter_map(|edit| match &edit.change {
        Change::Cut { cut, .. } => Some(cut),
        Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => None,
    });
    cuts.flat_map(|cut| &cut.repeats).map(|repeat| repeat.entry)
}

/// Returns how many lines a text has, as [`str::lines`] counts them. Comparing bytes is many times as fast.
fn lines_of(text: &str) -> usize {
    let ends = text.bytes().filter(|byte| *byte == b'\n').count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Returns how many lines of a message these edits leave out because an earlier message shows them. Returns `None` if
/// they leave out none, or if they also cut the message in another way.
#[doc(hidden)]
pub fn repeated_lines(message: &Message, edits: &[Edit]) -> Option<u64> {
    let mut lines = 0;
    for (part, result) in message.tool_results() {
        for (item, value) in result.content.iter().enumerate() {
            let Some(cut) = cut_of(edits, part, item) else { continue };
            if !cut.marker.is_empty() || cut.repeats.is_empty() {
                return None;
            }
            let text = value.text().unwrap_or_default();
            let repeated = |repeat: &Repeat| text.get(repeat.start..repeat.end).map_or(0, lines_of);
            lines += cut.repeats.iter().map(repeated).sum::<usize>() as u64;
        }
    }
    (lines > 0).then_some(lines)
}

/// Returns how many characters of the cut tool results are still shown, and how many these results have in full.
#[doc(hidden)]
pub fn shown_characters(message: &Message, edits: &[Edit]) -> (u64, u64) {
    let (mut shown, mut of) = (0, 0);
    for (part, result) in message.tool_results() {
        for (item, value) in result.content.iter().enumerate() {
            if let (Some(cut), Some(text)) = (cut_of(edits, part, item), value.text()) {
                let of_kept = |kept: &str| match cut.unnumbered {
                    true => sparsely_numbered(kept).map(|line| line.chars().count()).sum(),
                    false => kept.chars().count(),
                };
                shown += cut.kept(text).map(of_kept).sum::<usize>();
                of += text.chars().count();
            }
        }
    }
    (shown as u64, of as u64)
}

/// Returns the cut of an item of a part, or `None` if the item is not cut. `item` is 0 for a text.
#[doc(hidden)]
pub fn cut_of(edits: &[Edit], part: usize, item: usize) -> Option<&Cut> {
    at(edits, (part, item.saturating_add(1))).iter().find_map(|edit| match &edit.change {
        Change::Cut { cut, .. } => Some(cut),
        Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => None,
    })
}

/// Returns the note that is shown in a tool result without content, if there is one.
#[doc(hidden)]
pub fn note_of<'a>(result: &ToolResult, edits: &'a [Edit], part: usize) -> Option<&'a Cut> {
    if result.content.is_empty() { cut_of(edits, part, 0) } else { None }
}

/// Returns the identifier under which a part is shown, or `None` if these edits do not change it.
#[doc(hidden)]
pub fn renamed(edits: &[Edit], part: usize) -> Option<&str> {
    part_edits(edits, part).iter().find_map(|edit| match &edit.change {
        Change::Rename(id) => Some(id.as_str()),
        Change::Cut { .. } | Change::Hide(_) | Change::Arguments(_) => None,
    })
}

/// Returns the arguments with which a tool call is shown, or `None` if these edits do not change them.
#[doc(hidden)]
pub fn arguments(edits: &[Edit], part: usize) -> Option<&str> {
    part_edits(edits, part).iter().find_map(|edit| match &edit.change {
        Change::Arguments(json) => Some(json.as_str()),
        Change::Rename(_) | Change::Cut { .. } | Change::Hide(_) => None,
    })
}

/// Returns the searchable text of a message after these edits. See [`Message::text`] for the text without edits.
#[doc(hidden)]
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
