//! The words of a text, for searches: the same in every store.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The most different words of a query that a search looks for.
pub const MOST_WORDS: usize = 32;

/// The words that a query looks for, each once. Each costs a pass over everything that contains it.
pub(crate) fn query_words(query: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    for word in split(query) {
        if terms.len() == MOST_WORDS {
            break;
        }
        let word = folded(word);
        if !terms.contains(&word) {
            terms.push(word);
        }
    }
    terms
}

/// The words of a text, folded.
pub(crate) fn words(text: &str) -> Vec<String> {
    split(text).map(folded).collect()
}

/// The words of a text, as they are written.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    // A combining mark belongs to the letter before it. One that follows no letter, for example after an emoji, is not
    // a word.
    let words = text.split(is_between).map(|word| word.trim_start_matches(is_combining_mark));
    words.filter(|word| !word.is_empty())
}

/// A word in lower case, without the accents of Latin, Greek and Cyrillic. Marks of other scripts stay, because there
/// they are vowels or distinguish letters.
pub(crate) fn folded(word: &str) -> String {
    const ACCENTS: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36f}';
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    word.to_lowercase().nfd().filter(|c| !ACCENTS.contains(c)).nfc().collect()
}

/// Whether a character separates words.
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
    fn a_query_wants_each_word_once_and_not_more_than_so_many() {
        assert_eq!(query_words("the The THE caf\u{e9} cafe"), ["the", "cafe"]);
        let many: Vec<String> = (0..100).map(|word| format!("w{word}")).collect();
        assert_eq!(query_words(&many.join(" ")), many[..MOST_WORDS]);
        assert_eq!(query_words(&"the ".repeat(1_000_000)), ["the"]);
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
