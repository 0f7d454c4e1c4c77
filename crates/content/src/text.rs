//! Prepares numbers and texts for display.
//!
//! Text from outside, such as an identifier, may be long and contain characters that control a terminal. These
//! functions shorten and escape it.

use std::fmt::Write as _;

/// Returns whether a character is invisible to people: control characters, characters without width, changes of text
/// direction, line separators and tags. A model reads all of them.
///
/// ```
/// use lookback_content::text::is_unseen;
///
/// assert!(is_unseen('\u{202e}') && is_unseen('\u{e0041}'));
/// assert!(!is_unseen('é') && !is_unseen('語'));
/// ```
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a character is Chinese, Japanese or Korean. Words of these languages are not separated by spaces.
pub(crate) fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Returns an identifier for display. Clients choose identifiers, so they may be long and contain anything.
pub fn short(id: &str) -> String {
    cut(id, 48)
}

/// Returns names for display. They may be longer than identifiers, because users have to repeat them.
pub fn names(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown = names.iter().take(MOST).map(|name| cut(name, 200)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn cut(text: &str, most: usize) -> String {
    let end = if text.chars().nth(most).is_some() { "..." } else { "" };
    format!("`{}{end}`", plain(&text.chars().take(most).collect::<String>()))
}

/// Escapes the characters that control a terminal or are invisible, as `\u001b`.
pub fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            // Writing to a string does not fail.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(escaped, "\\u{unit:04x}"));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns a number with thousands separators.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}
