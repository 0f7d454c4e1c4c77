//! Truncates and clears texts. All cuts are made here.

use unicode_segmentation::GraphemeCursor;

use crate::TokenCounter;
pub use crate::truncation::{Truncation, Unit};
use lookback_content::json::{self, Fields};
use lookback_wire::edit::{Change, Cut, Edit};
use lookback_wire::message::{ResultItem, ToolCall, ToolResult};
use serde_json::value::RawValue;

/// The placeholder in a marker for the number of removed units.
const CUT: &str = "{cut}";
/// The standard note in place of a long text in the arguments of a tool call.
const INPUT: &str = "[{cut} characters cleared]";
/// The maximum depth of a text in the arguments of a tool call that is cleared.
const DEEPEST: usize = 8;
/// The placeholder in a marker for the log entry that has the full text.
const ENTRY: &str = "{entry}";

impl Truncation {
    /// Returns how to cut `text`.
    ///
    /// Returns `None` if the text is short enough, if cutting would not make it shorter, or if it was already cut in
    /// the same way.
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
            // The text was already cut: a client may send back a text that it was shown.
            return None;
        }
        let marker = marker.replace(CUT, &gone.to_string());
        Cut { head, tail: text.len() - tail, marker, ..Cut::nothing() }.if_shorter(text)
    }
}

/// Returns the longest beginning of a text that has at most `tokens` tokens.
///
/// It ends between grapheme clusters (characters as a reader sees them). If the first cluster alone is too long, it
/// ends inside that cluster. The cost depends on the length of the result, not on the length of the text.
///
/// ```
/// use lookback_tokens::{cut, Estimate};
///
/// assert_eq!(cut::head("one two three", 2, &Estimate::default()), "one two ");
/// ```
pub fn head<'a>(text: &'a str, tokens: u64, counter: &dyn TokenCounter) -> &'a str {
    // A text may fit although a part of it has more tokens. The search below could stop at such a part.
    if text.len() as u64 <= tokens.saturating_mul(8) && counter.text(text) <= tokens {
        return text;
    }
    let at = prefix_of_tokens(text, tokens, counter);
    let whole = floor(text, at);
    let mut head = text.get(..if whole > 0 { whole } else { at }).unwrap_or_default();
    // A prefix may have a token or two more than a longer prefix.
    while counter.text(head) > tokens {
        let Some((last, _)) = head.char_indices().next_back() else { break };
        head = head.get(..last).unwrap_or_default();
    }
    head
}

/// Inserts the position of the entry into a marker.
fn naming(marker: &str, entry: u64) -> String {
    marker.replace(ENTRY, &entry.to_string())
}

/// Returns the part of a marker that is used: its first 1,000 characters.
fn shortened(marker: &str) -> String {
    marker.chars().take(1_000).collect()
}

/// Returns the edits that truncate the items of a tool result.
///
/// `part` is the index of the result in its message, and `entry` is the position of that message in the log, for the
/// `{entry}` of a marker.
pub fn truncate_result(
    part: usize,
    result: &ToolResult,
    entry: u64,
    cap: &Truncation,
    counter: &dyn TokenCounter,
) -> Vec<Edit> {
    let named = cap.marker.as_ref().filter(|marker| marker.contains(ENTRY));
    let named = named.map(|marker| Truncation { marker: Some(naming(marker, entry)), ..cap.clone() });
    let cap = named.as_ref().unwrap_or(cap);
    cut_items(part, result, |_, item| item.text().and_then(|text| cap.cut(text, counter)))
}

/// Returns the edits that clear a tool result: a note replaces the first item, and the others are hidden.
///
/// `part` is the index of the result in its message, and `entry` is the position of that message in the log. `marker`
/// is the wording of the note, unless it is the standard one. `{cut}` is replaced by the number of removed characters,
/// and `{entry}` by `entry`. The list is empty if the note would not be shorter than the text that it replaces, unless
/// the result also has pictures, files or other items.
pub fn clear_result(part: usize, result: &ToolResult, entry: u64, marker: Option<&str>) -> Vec<Edit> {
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
    let note = Cut::note(&marker);
    cut_items(part, result, |index, _| Some(if index == 0 { note.clone() } else { Cut::nothing() }))
}

/// Returns the edit that clears the long texts in the arguments of a tool call: a note replaces each text of more than
/// `longest` characters. All other bytes stay.
///
/// `part` is the index of the call in its message, and `entry` is the position of that message in the log. `marker` is
/// the wording of the notes, unless it is the standard one, with the placeholders of [`clear_result`]. Returns `None` if
/// no text is longer, or if the arguments are not a JSON object.
#[doc(hidden)]
pub fn clear_input(part: usize, call: &ToolCall, entry: u64, longest: u64, marker: Option<&str>) -> Option<Edit> {
    // A call in a provider's own form is a plain text.
    if call.form.is_some() || !call.has_object_arguments() {
        return None;
    }
    let arguments: &RawValue = serde_json::from_str(&call.arguments).ok()?;
    let mut long = Vec::new();
    long_texts(arguments, longest, DEEPEST, &mut long);
    let start = call.arguments.as_ptr() as usize;
    let (mut cleared, mut at) = (String::new(), 0);
    for (text, characters) in long {
        let range = (text.get().as_ptr() as usize).checked_sub(start)?;
        let marker = marker.map_or_else(|| INPUT.to_owned(), shortened);
        let note = naming(&marker, entry).replace(CUT, &characters.to_string());
        cleared.push_str(call.arguments.get(at..range)?);
        cleared.push_str(&serde_json::Value::from(note).to_string());
        at = range + text.get().len();
    }
    cleared.push_str(call.arguments.get(at..)?);
    (cleared.len() < call.arguments.len()).then_some(Edit { part, change: Change::Arguments(cleared) })
}

/// Collects the texts of more than `longest` characters in a JSON value, with their lengths. Deeper values stay.
fn long_texts<'a>(value: &'a RawValue, longest: u64, depth: usize, found: &mut Vec<(&'a RawValue, u64)>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if value.get().len() as u64 <= longest {
        return;
    }
    if let Some(text) = json::text(value) {
        let characters = text.chars().count() as u64;
        found.extend((characters > longest).then_some((value, characters)));
    } else if let Some(elements) = json::array(value) {
        elements.into_iter().for_each(|element| long_texts(element, longest, depth, found));
    } else if let Some(members) = Fields::read(value) {
        members.values().for_each(|member| long_texts(member, longest, depth, found));
    }
}

/// Returns the edits that replace each picture and file of a tool result by a note.
///
/// `part` is the index of the result in its message.
pub fn clear_media(part: usize, result: &ToolResult) -> Vec<Edit> {
    cut_items(part, result, |_, item| match item {
        ResultItem::Image(media) => Some(Cut::placeholder(media, "image")),
        ResultItem::Document(media) => Some(Cut::placeholder(media, "document")),
        ResultItem::Text(_) | ResultItem::Json(_) | ResultItem::Opaque(_) => None,
    })
}

/// Returns an edit for each item of a tool result for which `cut` returns a cut.
fn cut_items(part: usize, result: &ToolResult, cut: impl Fn(usize, &ResultItem) -> Option<Cut>) -> Vec<Edit> {
    let edit = |(item, value)| Some(Edit { part, change: Change::Cut { item, cut: cut(item, value)? } });
    result.content.iter().enumerate().filter_map(edit).collect()
}

/// Returns whether a text is just a marker, with any number in it.
fn is_marker(text: &str, marker: &str) -> bool {
    let Some((before, after)) = marker.split_once(CUT) else { return text == marker };
    let number = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the byte offset of the character with index `n`, or the length of the text if it has fewer characters.
fn byte_of_char(text: &str, n: u64) -> usize {
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// Returns the last boundary between grapheme clusters at or before `at`.
pub fn floor(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        Ok(false) | Err(_) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
    }
}

/// Returns the first boundary between grapheme clusters at or after `at`.
pub fn ceil(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        Ok(false) | Err(_) => cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()),
    }
}

/// Returns the length in bytes of the longest prefix of at most `n` tokens.
///
/// The search is binary, because the count hardly ever falls as a text grows. If it does, the prefix is a token or two
/// off.
fn prefix_of_tokens(text: &str, n: u64, counter: &dyn TokenCounter) -> usize {
    search(text, n, |at| counter.text(text.get(..at).unwrap_or_default()), |at| at)
}

/// Returns the byte offset at which the longest suffix of at most `n` tokens begins.
fn suffix_of_tokens(text: &str, n: u64, counter: &dyn TokenCounter) -> usize {
    let start = |length: usize| text.len() - length;
    start(search(text, n, |length| counter.text(text.get(start(length)..).unwrap_or_default()), start))
}

/// Returns the largest length in bytes for which `count` returns at most `n`. `place` maps a length to the byte offset
/// at which the text is divided.
fn search(text: &str, n: u64, count: impl Fn(usize) -> u64, place: impl Fn(usize) -> usize) -> usize {
    let fits = |length: usize| {
        // A length that falls inside a character is rounded down to the nearest one that does not.
        (0..4)
            .map(|back| length.saturating_sub(back))
            .find(|l| text.is_char_boundary(place(*l)))
            .filter(|l| count(*l) <= n)
    };
    let mut low = 0;
    let mut high = usize::try_from(n.saturating_mul(4)).unwrap_or(usize::MAX).clamp(1, text.len().max(1));
    // Grow first: the cost then depends on the kept length, not on the cut length.
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
    use crate::Estimate;
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
    fn long_texts_of_an_input_are_cleared_and_all_else_stays() {
        let long = "x\\n".repeat(100);
        let clear = |arguments: String, longest: u64| {
            let call = ToolCall::new("c", "write", arguments);
            match clear_input(1, &call, 7, longest, Some("[{cut} in {entry}]"))?.change {
                Change::Arguments(json) => Some(json),
                _ => None,
            }
        };
        let arguments = format!(
            r#" {{"path": "a.rs",  "content":"{long}", "n": 1.50, "edits": [{{"new": "{long}"}}, "{long}"]}} "#
        );
        let expected =
            r#" {"path": "a.rs",  "content":"[200 in 7]", "n": 1.50, "edits": [{"new": "[200 in 7]"}, "[200 in 7]"]} "#;
        assert_eq!(clear(arguments.clone(), 100).unwrap(), expected);
        assert_eq!(clear(arguments, 200), None);
        assert_eq!(clear(expected.to_owned(), 100), None, "once");
        for broken in [format!(r#""{long}""#), long.clone(), format!("{{\"a\": \"{long}"), String::new()] {
            assert_eq!(clear(broken, 10), None);
        }
        let deep = format!("{}\"{long}\"{}", r#"{"a":"#.repeat(20), "}".repeat(20));
        assert_eq!(clear(deep, 10), None, "deeper texts stay");
    }

    #[test]
    fn a_short_result_is_not_cleared_into_a_longer_one() {
        assert!(clear_result(0, &ToolResult::new("c", "ok"), 0, None).is_empty());
        assert_eq!(clear_result(0, &ToolResult::new("c", "x".repeat(100)), 0, None).len(), 1);
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
            let counter = crate::OpenAiCounter::new(crate::Vocabulary::O200k);
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
