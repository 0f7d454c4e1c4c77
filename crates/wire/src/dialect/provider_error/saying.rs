//! A saying: a provider's error message with placeholders for numbers, which can be found in a text.

use std::iter::Peekable;
use std::str::Chars;

use crate::size::Measure;

/// How far apart the words around a `…` may be, in bytes.
const GAP: usize = 200;

/// A provider's error message.
///
/// `{actual}`, `{limit}` and `{reserved}` match numbers, `{}` matches a number that does not matter, and `…` matches up
/// to 200 bytes of other words. Several `{actual}` are added up.
pub(in crate::dialect) struct Saying {
    pub(super) means: Means,
    pub(super) words: &'static str,
}

/// What a saying means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    TooLong(Measure),
    Malformed(Option<&'static str>),
    Other,
}

impl Saying {
    pub(super) const fn tokens(words: &'static str) -> Saying {
        Saying { means: Means::TooLong(Measure::Tokens), words }
    }

    pub(super) const fn bytes(words: &'static str) -> Saying {
        Saying { means: Means::TooLong(Measure::Bytes), words }
    }

    pub(super) const fn media(words: &'static str) -> Saying {
        Saying { means: Means::TooLong(Measure::Media), words }
    }

    /// Creates a saying for a broken rule.
    pub(super) const fn breaks(rule: &'static str, words: &'static str) -> Saying {
        Saying { means: Means::Malformed(Some(rule)), words }
    }

    /// Creates a saying for messages that the provider refuses without a rule that Lookback knows.
    pub(super) const fn refused(words: &'static str) -> Saying {
        Saying { means: Means::Malformed(None), words }
    }

    pub(super) const fn other(words: &'static str) -> Saying {
        Saying { means: Means::Other, words }
    }

    /// Finds this saying in a text that [`bare`] returned.
    pub(super) fn find(&self, text: &str) -> Option<Found> {
        let words = bare(self.words);
        let first = words.get(..words.find(['{', '…']).unwrap_or(words.len()))?;
        text.match_indices(first).find_map(|(at, _)| {
            let found = Found { at, means: self.means, actual: None, limit: None, reserved: None };
            found.read(words.get(first.len()..)?, text.get(at + first.len()..)?)
        })
    }
}

/// A saying that was found in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// The index of its first byte.
    pub(super) at: usize,
    pub(super) means: Means,
    pub(super) actual: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) reserved: Option<u64>,
}

impl Found {
    pub(super) fn rule(&self) -> Option<&'static str> {
        match self.means {
            Means::Malformed(rule) => rule,
            Means::TooLong(_) | Means::Other => None,
        }
    }

    /// Returns how many numbers were found.
    pub(super) fn numbers(&self) -> usize {
        [self.actual, self.limit, self.reserved].into_iter().flatten().count()
    }

    /// Matches the rest of the words against the rest of the text.
    fn read(mut self, mut words: &str, mut text: &str) -> Option<Found> {
        let mut actual = Vec::new();
        while !words.is_empty() {
            if let Some(rest) = words.strip_prefix('{') {
                let (name, after) = rest.split_once('}')?;
                let (value, left) = number(text)?;
                match name {
                    "actual" => actual.push(value),
                    "limit" => self.limit = value,
                    "reserved" => self.reserved = value,
                    _ => {}
                }
                (words, text) = (after, left);
                continue;
            }
            let gap = words.strip_prefix('…');
            let from = gap.unwrap_or(words);
            let (literal, after) = from.split_at(from.find(['{', '…']).unwrap_or(from.len()));
            if gap.is_some() {
                let near = text.get(..text.floor_char_boundary(GAP + literal.len()))?;
                text = text.get(near.find(literal)?..)?;
            }
            (words, text) = (after, text.strip_prefix(literal)?);
        }
        let sum = |sum: u64, part: &Option<u64>| sum.checked_add((*part)?);
        self.actual = if actual.is_empty() { None } else { actual.iter().try_fold(0, sum) };
        Some(self)
    }
}

/// Reads a number, with or without commas between its thousands, and returns the rest of the text. The value of a
/// number that is too large for 64 bits is `None`.
fn number(text: &str) -> Option<(Option<u64>, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(text);
    if end == 0 {
        return None;
    }
    if end <= 3 {
        while let Some(rest) = text.get(end..)?.strip_prefix(',')
            && digits(rest) == 3
        {
            end += 4;
        }
    }
    let (said, left) = text.split_at_checked(end)?;
    Some((said.replace(',', "").parse().ok(), left))
}

/// Removes everything that gateways, shells and printed exceptions change in a text: white space, quotes, escapes and
/// capitals.
pub(super) fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\\' => out.extend(escaped(&mut rest)),
            '"' | '\'' | '`' | '‘' | '’' | '“' | '”' => {}
            char if char.is_whitespace() => {}
            char => out.push(char.to_ascii_lowercase()),
        }
    }
    out
}

/// Decodes an escape, even if it was escaped several times. This matters for `\u003e`, which Go's encoder writes for
/// `>`.
fn escaped(rest: &mut Peekable<Chars<'_>>) -> Option<char> {
    while rest.next_if_eq(&'\\').is_some() {}
    if rest.next_if(|char| matches!(char, 'n' | 'r' | 't')).is_some() || rest.next_if_eq(&'u').is_none() {
        return None;
    }
    let mut code = 0;
    for _ in 0..4 {
        code = code * 16 + rest.next_if(char::is_ascii_hexdigit)?.to_digit(16)?;
    }
    let char = char::from_u32(code)?;
    let dropped = char.is_whitespace() || matches!(char, '"' | '\'' | '`' | '\\' | '‘' | '’' | '“' | '”');
    (!dropped).then_some(char.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_only_between_thousands() {
        assert_eq!(number("128,000tokens"), Some((Some(128_000), "tokens")));
        assert_eq!(number("1,048,576)"), Some((Some(1_048_576), ")")));
        assert_eq!(number("1,30720]"), Some((Some(1), ",30720]")));
        assert_eq!(number("16384,however"), Some((Some(16_384), ",however")));
        assert_eq!(number("99999999999999999999!"), Some((None, "!")));
        assert_eq!(number("tokens"), None);
    }

    #[test]
    fn wrapping_and_escaping_change_nothing() {
        assert_eq!(bare("{\\\"message\\\":\\\"A \\\\u003e B\\\\n\\n of the `model's`"), "{message:a>bofthemodels");
        assert_eq!(bare("\\u00"), "");
        assert_eq!(bare("\\ud83d!\\"), "!");
    }

    #[test]
    fn parts_are_added_unless_one_is_too_large() {
        let saying = Saying::media("too many: {actual} + {actual} > {limit}");
        let found = saying.find(&bare("Too many: 104 + 1 > 100")).unwrap();
        assert_eq!((found.actual, found.limit), (Some(105), Some(100)));
        for large in [u64::MAX.to_string(), format!("{}0", u64::MAX)] {
            let found = saying.find(&bare(&format!("Too many: {large} + 1 > 100"))).unwrap();
            assert_eq!((found.actual, found.limit), (None, Some(100)));
        }
    }
}
