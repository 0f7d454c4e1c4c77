//! Showing less of a text: the one place where text is cut.

use serde::{Deserialize, Serialize};
use unicode_segmentation::GraphemeCursor;

pub use crate::edit::{
    Change, Cut, Edit, Hidden, arguments, cut_of, hides_all, in_order, is_hidden, note_of, renamed, shown_text,
};
use crate::message::{ResultItem, ToolResult};
use crate::tokens::TokenCounter;

/// In a marker, how much is gone.
const CUT: &str = "{cut}";
/// In a marker, the entry of the log that has what is gone.
const ENTRY: &str = "{entry}";

/// How much of a long text to keep, from its head and from its tail.
///
/// ```
/// use lookback_core::{Truncation, Unit, tokens::Estimate};
///
/// let cap = Truncation { head: 20, tail: 5, ..Truncation::default() };
/// let text = "a".repeat(500) + "the end";
/// let cut = cap.cut(&text, &Estimate::default()).unwrap();
/// assert_eq!(cut.apply(&text), "aaaaaaaaaaaaaaaaaaaa\n[... 482 characters cut ...]\ne end");
/// assert_eq!(cap.cut("short", &Estimate::default()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncation {
    /// Kept from the start, in `unit`s.
    pub head: u64,
    /// Kept from the end, in `unit`s.
    #[serde(default)]
    pub tail: u64,
    /// What `head` and `tail` count.
    #[serde(default)]
    pub unit: Unit,
    /// What stands between them, where `{cut}` is how many units are gone, and `{entry}` the entry of the log that has them; absent,
    /// `\n[... {cut} characters cut ...]\n`. Of a longer one only the first 1,000 characters count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

/// What a text's length is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Unicode scalar values.
    #[default]
    Characters,
    /// Tokens of the session's counter.
    Tokens,
}

impl Unit {
    /// Its plural, in words.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Characters => "characters",
            Unit::Tokens => "tokens",
        }
    }
}

impl Truncation {
    /// What of `text` would be shown; `None` when it is short enough, or cutting it would not make it shorter.
    pub fn cut(&self, text: &str, counter: &dyn TokenCounter) -> Option<Cut> {
        let (head, tail, gone) = match self.unit {
            Unit::Characters => {
                if text.len() as u64 <= self.head.saturating_add(self.tail) {
                    return None;
                }
                let length = text.chars().count() as u64;
                if length <= self.head.saturating_add(self.tail) {
                    return None;
                }
                let head = floor(text, byte_of_char(text, self.head));
                let tail = ceil(text, byte_of_char(text, length - self.tail)).max(head);
                let kept = |range: &str| range.chars().count() as u64;
                let gone = length - text.get(..head).map_or(0, kept) - text.get(tail..).map_or(0, kept);
                (head, tail, gone)
            }
            Unit::Tokens => {
                let length = counter.text(text);
                if length <= self.head.saturating_add(self.tail) {
                    return None;
                }
                let head = floor(text, prefix_of_tokens(text, self.head, counter));
                let tail = ceil(text, suffix_of_tokens(text, self.tail, counter)).max(head);
                let gone = counter.text(text.get(head..tail).unwrap_or_default());
                (head, tail, gone)
            }
        };
        let marker = match &self.marker {
            Some(marker) => shortened(marker),
            None => format!("\n[... {{cut}} {} cut ...]\n", self.unit.name()),
        };
        if text.get(head..tail).is_some_and(|gone| is_marker(gone, &marker)) {
            // It was cut so before it came here: a client may send again what it was shown.
            return None;
        }
        let marker = marker.replace(CUT, &gone.to_string());
        Cut { head, tail: text.len() - tail, marker }.if_shorter(text)
    }
}

/// The longest beginning of a text that has at most `tokens` tokens. It ends between characters as a reader sees them; where
/// the first of these alone is too long, inside it. It costs what is kept, however long the text.
///
/// ```
/// use lookback_core::{cut, tokens::Estimate};
///
/// assert_eq!(cut::head("one two three", 2, &Estimate::default()), "one two ");
/// ```
pub fn head<'a>(text: &'a str, tokens: u64, counter: &dyn TokenCounter) -> &'a str {
    // A text may fit although a part of it does not, which the search might meet.
    if text.len() as u64 <= tokens.saturating_mul(8) && counter.text(text) <= tokens {
        return text;
    }
    let at = prefix_of_tokens(text, tokens, counter);
    let whole = floor(text, at);
    let mut head = text.get(..if whole > 0 { whole } else { at }).unwrap_or_default();
    // Fewer letters may be more tokens, by one or two.
    while counter.text(head) > tokens {
        let Some((last, _)) = head.char_indices().next_back() else { break };
        head = head.get(..last).unwrap_or_default();
    }
    head
}

/// A marker that names the entry.
fn naming(marker: &str, entry: u64) -> String {
    marker.replace(ENTRY, &entry.to_string())
}

/// As much of a marker as counts.
fn shortened(marker: &str) -> String {
    marker.chars().take(1_000).collect()
}

/// The cuts that a truncation makes in one tool result of this entry, item by item.
pub fn truncate_result(
    result: &ToolResult,
    entry: u64,
    cap: &Truncation,
    counter: &dyn TokenCounter,
) -> Vec<(usize, Cut)> {
    let named = cap.marker.as_ref().filter(|marker| marker.contains(ENTRY));
    let named = named.map(|marker| Truncation { marker: Some(naming(marker, entry)), ..cap.clone() });
    let cap = named.as_ref().unwrap_or(cap);
    let cut = |item: &ResultItem| item.text().and_then(|text| cap.cut(text, counter));
    result.content.iter().enumerate().filter_map(|(index, item)| Some((index, cut(item)?))).collect()
}

/// The cuts that clear one tool result of this entry: its first item says how much is gone, the others are not shown. A marker says it in
/// other words, where `{cut}` is how many characters are gone, and `{entry}` the entry that has them.
///
/// Nothing is cut when the note would be longer than what it replaces.
pub fn clear_result(result: &ToolResult, entry: u64, marker: Option<&str>) -> Vec<(usize, Cut)> {
    let characters: usize = result.content.iter().filter_map(ResultItem::text).map(|text| text.chars().count()).sum();
    let others = result.content.iter().filter(|item| item.text().is_none()).count();
    let media = if others > 0 { format!(" and {others} other items") } else { String::new() };
    let marker = match marker {
        Some(marker) => naming(&shortened(marker), entry).replace(CUT, &characters.to_string()),
        None => format!("[tool result cleared: {characters} characters{media}]"),
    };
    if characters <= marker.len() && others == 0 {
        return Vec::new();
    }
    let note = Cut { head: 0, tail: 0, marker };
    (0..result.content.len()).map(|index| (index, if index == 0 { note.clone() } else { Cut::nothing() })).collect()
}

/// The cuts that put a placeholder in the place of each picture and file of a tool result.
pub fn clear_media(result: &ToolResult) -> Vec<(usize, Cut)> {
    let cut = |item: &ResultItem| match item {
        ResultItem::Image(media) => Some(Cut::placeholder(media, "image")),
        ResultItem::Document(media) => Some(Cut::placeholder(media, "document")),
        ResultItem::Text(_) | ResultItem::Json(_) | ResultItem::Opaque(_) => None,
    };
    result.content.iter().enumerate().filter_map(|(index, item)| Some((index, cut(item)?))).collect()
}

/// Whether a text is nothing but a marker, whatever the number in it.
fn is_marker(text: &str, marker: &str) -> bool {
    let Some((before, after)) = marker.split_once(CUT) else { return text == marker };
    let number = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn byte_of_char(text: &str, n: u64) -> usize {
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// The last boundary between graphemes that is not after `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        Ok(false) | Err(_) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
    }
}

/// The first boundary between graphemes that is not before `at`.
fn ceil(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        Ok(false) | Err(_) => cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()),
    }
}

/// The length in bytes of the longest prefix of at most `n` tokens, found by halving: counts hardly ever fall as text
/// grows, and where they do the prefix is a token or two off, which a cap can bear.
fn prefix_of_tokens(text: &str, n: u64, counter: &dyn TokenCounter) -> usize {
    search(text, n, |at| counter.text(text.get(..at).unwrap_or_default()), |at| at)
}

/// Where the longest suffix of at most `n` tokens begins, in bytes.
fn suffix_of_tokens(text: &str, n: u64, counter: &dyn TokenCounter) -> usize {
    let start = |length: usize| text.len() - length;
    start(search(text, n, |length| counter.text(text.get(start(length)..).unwrap_or_default()), start))
}

/// The largest length of which `count` says at most `n`; `place` is where in the text that length ends.
fn search(text: &str, n: u64, count: impl Fn(usize) -> u64, place: impl Fn(usize) -> usize) -> usize {
    let fits = |length: usize| {
        // Lengths that fall inside a character are rounded down to the next that does not.
        (0..4)
            .map(|back| length.saturating_sub(back))
            .find(|l| text.is_char_boundary(place(*l)))
            .filter(|l| count(*l) <= n)
    };
    let mut low = 0;
    let mut high = usize::try_from(n.saturating_mul(4)).unwrap_or(usize::MAX).clamp(1, text.len().max(1));
    // Grow first, so that the cost follows what is kept and not what is cut.
    while high < text.len() && fits(high).is_some() {
        low = high;
        high = high.saturating_mul(2).min(text.len());
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle).is_some() {
            low = middle;
        } else {
            high = middle;
        }
    }
    fits(high).or_else(|| fits(low)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Estimate;
    use proptest::prelude::*;

    fn characters(head: u64, tail: u64) -> Truncation {
        Truncation { head, tail, ..Truncation::default() }
    }

    #[test]
    fn a_family_is_not_torn_apart() {
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
        let text = family.repeat(40);
        let cut = characters(7, 7).cut(&text, &Estimate::default()).unwrap();
        assert_eq!(cut.head, family.len());
        assert_eq!(cut.tail, family.len());
    }

    #[test]
    fn a_text_little_longer_than_the_cap_is_left_alone() {
        assert_eq!(characters(200, 200).cut(&"x".repeat(401), &Estimate::default()), None);
    }

    #[test]
    fn a_text_that_was_cut_so_before_is_left_alone() {
        let marker = Some("...\n\n... [truncated: {cut} chars removed] ...\n\n...".to_owned());
        for cap in [Truncation { marker, ..characters(200, 200) }, characters(20, 20)] {
            let text = "word ".repeat(2_000);
            let once = cap.cut(&text, &Estimate::default()).unwrap().apply(&text);
            assert_eq!(cap.cut(&once, &Estimate::default()), None);
        }
    }

    #[test]
    fn a_short_result_is_not_cleared_into_a_longer_one() {
        assert!(clear_result(&ToolResult::new("c", "ok"), 0, None).is_empty());
        assert_eq!(clear_result(&ToolResult::new("c", "x".repeat(100)), 0, None).len(), 1);
    }

    #[test]
    fn a_character_of_many_marks_is_cut_inside_when_it_must_be() {
        let text = format!("a{}", "\u{301}".repeat(10_000));
        let head = head(&text, 4, &Estimate::default());
        assert!(!head.is_empty() && Estimate::default().text(head) <= 4);
    }

    proptest! {
        #[cfg(feature = "o200k")]
    #[test]
        fn a_head_keeps_its_limit_with_an_exact_counter(text in "\\PC{0,200}", tokens in 0u64..60) {
            let counter = crate::tokens::OpenAi::new(crate::tokens::Vocabulary::O200k);
            let head = head(&text, tokens, &counter);
            prop_assert!(text.starts_with(head) && counter.text(head) <= tokens);
            prop_assert!(head.len() == text.len() || counter.text(&text) > tokens);
        }

        #[test]
        fn a_cut_is_shorter_and_keeps_both_ends(text in "\\PC{0,300}", head in 0u64..80, tail in 0u64..80, tokens: bool) {
            let unit = if tokens { Unit::Tokens } else { Unit::Characters };
            let counter = Estimate::default();
            if let Some(cut) = (Truncation { head, tail, unit, marker: None }).cut(&text, &counter) {
                let shown = cut.apply(&text);
                prop_assert!(shown.len() < text.len() && shown.chars().count() < text.chars().count());
                prop_assert!(shown.starts_with(&text[..cut.head]) && shown.ends_with(&text[text.len() - cut.tail..]));
            }
        }
    }
}
