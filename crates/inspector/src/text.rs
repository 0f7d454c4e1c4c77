//! Text of a session for display: escapes characters that are invisible or change how the page reads.

use std::borrow::Cow;

use lookback_content::text::is_unseen;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// Returns a text with every invisible character escaped by its code, such as `\u{202e}`. Keeps line breaks and tabs.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    // Joiners and variation selectors change visible characters, such as emoji, so they stay.
    let stays = |c: char| matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    let hides = |c: char| is_unseen(c) && !stays(c);
    if !text.chars().any(hides) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hides(c) { written.extend(c.escape_unicode()) } else { written.push(c) }
    }
    Cow::Owned(written)
}

/// Returns the first characters of a text on one line.
pub(crate) fn beginning(text: &str, characters: usize) -> String {
    // Stops early, so that long texts cost no more than short ones.
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(characters + 1));
        if line.chars().count() > characters {
            return line.chars().take(characters).chain(['…']).collect();
        }
    }
    line
}

/// Returns JSON with line breaks and indentation. Text that is not JSON is returned unchanged.
pub(crate) fn indented(json: &str) -> Cow<'_, str> {
    /// Longer JSON is returned unchanged, in bytes.
    const LONGEST: usize = 1 << 20;
    if json.len() > LONGEST {
        return Cow::Borrowed(json);
    }
    let value: Result<serde_json::Value, _> = serde_json::from_str(json);
    match value.as_ref().map(serde_json::to_string_pretty) {
        Ok(Ok(pretty)) => Cow::Owned(pretty),
        _ => Cow::Borrowed(json),
    }
}

/// Returns a text percent-encoded for a URL.
pub(crate) fn encoded(text: &str) -> PercentEncode<'_> {
    /// Names of sessions may contain slashes, which need no encoding here.
    const WRITTEN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');
    utf8_percent_encode(text, WRITTEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(visible("a\tb\nc"), "a\tb\nc");
        assert_eq!(visible("\u{1b}[31m\u{202e}evil\u{0}"), "\\u{1b}[31m\\u{202e}evil\\u{0}");
    }

    #[test]
    fn a_beginning_is_one_line() {
        assert_eq!(beginning("  a\n\n b  ", 10), "a b");
        assert_eq!(beginning("abcdef ghi", 4), "abcd…");
        assert_eq!(beginning(&"x".repeat(1_000_000), 3), "xxx…");
    }
}
