//! Splits a text into words, and folds case and accents.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Returns the words of a text in the form that searches compare: in lower case, and without the accents of Latin,
/// Greek and Cyrillic.
///
/// ```
/// use lookback_store::search::words;
///
/// assert_eq!(words("The caf\u{e9} at Port 5050"), ["the", "cafe", "at", "port", "5050"]);
/// ```
pub fn words(text: &str) -> Vec<String> {
    split(text).map(folded).collect()
}

/// Returns the words of a text as they are written.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    // A combining mark belongs to the letter before it. A mark that follows no letter, for example after an emoji, is
    // not a word.
    let words = text.split(is_between).map(|word| word.trim_start_matches(is_combining_mark));
    words.filter(|word| !word.is_empty())
}

/// Returns a word in lower case, without the accents of Latin, Greek and Cyrillic. Marks of other scripts remain,
/// because there they are vowels or distinguish letters.
pub(crate) fn folded(word: &str) -> String {
    const ACCENTS: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36f}';
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    word.to_lowercase().nfd().filter(|c| !ACCENTS.contains(c)).nfc().collect()
}

/// Returns a word in lower case, with its accents.
pub(super) fn lower(word: &str) -> String {
    if word.is_ascii() { word.to_ascii_lowercase() } else { word.to_lowercase().nfc().collect() }
}

/// Returns whether a word has characters of a script that puts no spaces between words.
pub(super) fn has_unspaced(word: &str) -> bool {
    word.contains(is_unspaced)
}

/// Returns the range of bytes of a word that was split from a text.
pub(super) fn place(text: &str, word: &str) -> std::ops::Range<usize> {
    // The word is a slice of the text, so its address gives its place.
    let start = word.as_ptr() as usize - text.as_ptr() as usize;
    start..start + word.len()
}

/// Returns the parts of a word that is a name in code, or in a script that puts no spaces between words: `read` and
/// `file` of `read_file` and of `readFile`, and each pair of adjacent characters of Han and kana. Empty if the word has
/// no parts.
pub(super) fn parts(word: &str) -> Vec<&str> {
    // Most words are like this.
    if word.bytes().skip(1).all(|b| b.is_ascii_lowercase())
        && word.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
    {
        return Vec::new();
    }
    let runs =
        cut(word, |before, c, after| c == '_' || is_unspaced(before) != is_unspaced(c) || is_hump(before, c, after));
    let mut parts = Vec::new();
    for run in runs.into_iter().map(|run| run.trim_matches('_')) {
        let unspaced = run.starts_with(is_unspaced);
        match run.chars().count() {
            0 | 1 if !unspaced => {}
            0..=2 => parts.push(run),
            _ if !unspaced => parts.push(run),
            _ => {
                let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
                parts.extend(starts.windows(3).filter_map(|at| run.get(*at.first()?..*at.last()?)));
            }
        }
    }
    if parts == [word] { Vec::new() } else { parts }
}

/// Cuts a word before each character for which `is_cut` holds. Its arguments are the previous character, the character,
/// and the next one.
fn cut(word: &str, is_cut: impl Fn(char, char, Option<char>) -> bool) -> Vec<&str> {
    let mut runs = Vec::new();
    let (mut start, mut before) = (0, None);
    let mut rest = word.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let after = rest.peek().map(|(_, after)| *after);
        if before.is_some_and(|before| is_cut(before, c, after)) {
            runs.extend(word.get(start..at));
            start = at;
        }
        before = Some(c);
    }
    runs.extend(word.get(start..));
    runs
}

/// Returns whether a capital begins a part of a name: `F` in `readFile`, and `S` in `HTTPServer`.
fn is_hump(before: char, c: char, after: Option<char>) -> bool {
    let ends = before.is_lowercase() || before.is_numeric();
    c.is_uppercase() && (ends || before.is_uppercase() && after.is_some_and(char::is_lowercase))
}

/// Returns whether a character belongs to a script that puts no spaces between words, and whose words are a few
/// characters long.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}')
}

/// Returns whether a character separates words.
fn is_between(c: char) -> bool {
    !c.is_alphanumeric() && c != '_' && !is_combining_mark(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_folded() {
        for (text, expected) in [
            ("", &[][..]),
            ("  --\u{2014}\0", &[]),
            ("Port 5050, snake_case/_x", &["port", "5050", "snake_case", "_x"]),
            ("Caf\u{e9} cafe\u{301} CAF\u{c9}", &["cafe", "cafe", "cafe"]),
            ("Vi\u{1ec7}t \u{130}stanbul", &["viet", "istanbul"]),
            ("\u{39f}\u{394}\u{39f}\u{3a3} \u{3bf}\u{3b4}\u{3cc}\u{3c2}", &["οδος", "οδος"]),
            ("Ещё ЕЩЁ", &["еще", "еще"]),
            ("हिन्दी में", &["हिन्दी", "में"]),
            ("が か\u{3099} か", &["が", "が", "か"]),
            ("\u{1112}\u{1161}\u{11ab} 한", &["한", "한"]),
            ("\u{2764}\u{fe0f} \u{1f600}", &[]),
            ("\u{301}x", &["x"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn names_and_unspaced_scripts_are_cut_into_parts() {
        for (word, expected) in [
            ("", &[][..]),
            ("word", &[]),
            ("5050", &[]),
            ("v2", &[]),
            ("read_file", &["read", "file"]),
            ("_x", &[]),
            ("__init__", &["init"]),
            ("HashMap", &["Hash", "Map"]),
            ("parseHTTPResponse2Json", &["parse", "HTTP", "Response2", "Json"]),
            ("MAX_LEN", &["MAX", "LEN"]),
            ("\u{c9}t\u{e9}", &[]),
            ("東京", &[]),
            ("東京都", &["東京", "京都"]),
            ("東京tower", &["東京", "tower"]),
            ("が高い", &["が高", "高い"]),
        ] {
            assert_eq!(parts(word), expected, "{word}");
        }
    }

    #[test]
    fn no_word_holds_what_an_index_of_ascii_would_split() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            for word in words(&format!("a{c}b")) {
                let fine = |c: char| !c.is_ascii() || c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(!word.is_empty() && word.chars().all(fine), "{c:?}: {word:?}");
            }
            assert!(words(&c.to_string()).iter().all(|word| !word.is_empty()), "{c:?}");
        }
    }
}
