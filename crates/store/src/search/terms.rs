//! The terms of a text: the strings by which an index finds it.
//!
//! | term | meaning |
//! |---|---|
//! | `paint=3` | a word of this stem, with its weight in the text |
//! | `haus~de=2` | a word of this stem in a text of this language (see the module `language`) |
//! | `~de` | a text of this language |
//! | `src/lib.rs=3` | a name as a whole |
//! | `@user`, `@ann` | the speaker |

use std::collections::HashMap;

use super::language::{Language, common_stem, is_function_word};
use super::words::{folded, has_unspaced, lower, parts, place, split, words};
use crate::Record;

/// The number of levels of a weight. An index has one list of texts for each weight of a word, so a small number keeps
/// it small. A larger one does not improve results.
pub(super) const WEIGHTS: u32 = 5;
/// How fast repeats of a word saturate, and how much the length of a text lowers the weight of its words: the `k1` and
/// `b` of BM25.
pub(super) const SATURATION: f64 = 1.2;
const SHORTENING: f64 = 0.4;
/// The length of an average text in words, without function words. It is the same in every store, so that the weight of
/// a word depends only on its text.
const AVERAGE: f64 = 20.0;
/// The most bytes of a word, and of a name that is indexed as a whole.
const LONGEST: usize = 128;
/// The separators that join words to a name, such as a path.
const JOINTS: [&str; 5] = ["/", ".", "-", ":", "::"];

/// Returns the terms by which a record is found, each once. They consist of letters, digits and `_/.-:~=@`, without
/// spaces and ASCII capitals. A record without a text has none.
///
/// ```
/// use lookback_store::search::terms;
/// use lookback_store::Record;
///
/// let record = Record::new("{}").text("Painted!").role("user");
/// assert_eq!(terms(&record), ["@user", "paint=3"]);
/// ```
pub fn terms(record: &Record) -> Vec<String> {
    if record.text.is_empty() {
        return Vec::new();
    }
    let mut terms = Vec::new();
    let mut counted = Counted::default();
    counted.add(&record.text);
    if let Some(role) = &record.role {
        terms.push(speaker(role));
    }
    if let Some(name) = &record.name {
        // A search for a person's words usually contains the person's name.
        counted.add(name);
        terms.extend(words(name).iter().map(|word| speaker(word)));
        terms.push(speaker(name));
    }
    let (language, length, counts) = counted.terms();
    terms.extend(language.map(mark));
    let least = SATURATION * (1.0 - SHORTENING + SHORTENING * f64::from(length) / AVERAGE);
    for (term, count) in counts {
        let weight = f64::from(count) / (f64::from(count) + least);
        terms.push(weighted(&term, level(weight)));
    }
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// Returns the level of a weight between 0 and 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds")]
fn level(weight: f64) -> u32 {
    (weight * f64::from(WEIGHTS)).round().clamp(1.0, f64::from(WEIGHTS)) as u32
}

/// Returns a term with a weight from 1 to [`WEIGHTS`].
pub(super) fn weighted(term: &str, weight: u32) -> String {
    let mut weighted = String::with_capacity(term.len() + 2);
    weighted.push_str(term);
    weighted.push('=');
    weighted.extend(char::from_digit(weight, 10));
    weighted
}

/// Returns the term of a speaker, by role or name.
pub(super) fn speaker(name: &str) -> String {
    format!("@{}", words(name).join("_"))
}

/// Returns the term of the texts in a language.
pub(super) fn mark(language: Language) -> String {
    format!("~{}", language.code())
}

/// Returns the term of a word in a language; `None` if it cannot be a word of the language.
pub(super) fn native(word: &str, language: Language) -> Option<String> {
    language.stem(word).map(|stem| format!("{stem}{}", mark(language)))
}

/// Counts each word and each name of a text in its original spelling, so that a repeated word is processed only once.
#[derive(Default)]
struct Counted<'a> {
    names: HashMap<&'a str, u32>,
    /// The words, and how often each occurs as a whole word.
    words: HashMap<&'a str, u32>,
    /// The parts of words.
    parts: HashMap<&'a str, u32>,
    order: Vec<&'a str>,
}

impl<'a> Counted<'a> {
    fn add(&mut self, text: &'a str) {
        for found in spelled(text) {
            match found {
                Spelled::Name(name) => *self.names.entry(name).or_default() += 1,
                Spelled::Word(word) => {
                    self.order.push(word);
                    *self.words.entry(word).or_default() += 1;
                }
                Spelled::Part(part) => *self.parts.entry(part).or_default() += 1,
            }
        }
    }

    /// Returns the language, the number of words that are not function words, and the count of each term.
    fn terms(self) -> (Option<Language>, u32, HashMap<String, u32>) {
        let language = Language::detect(self.order.iter().map(|word| folded(word)));
        let says = |(word, _): &(&&str, &u32)| !is_function_word(&folded(word), language);
        let length = self.words.iter().filter(says).fold(0_u32, |sum, (_, count)| sum.saturating_add(*count));
        let mut counts: HashMap<String, u32> = HashMap::with_capacity(self.words.len());
        for (name, count) in self.names {
            *counts.entry(folded(name)).or_default() += count;
        }
        for (word, count) in self.words.into_iter().chain(self.parts) {
            let word = lower(word);
            if let Some(native) = language.and_then(|language| native(&word, language)) {
                *counts.entry(native).or_default() += count;
            }
            *counts.entry(common_stem(&word)).or_default() += count;
        }
        (language, length, counts)
    }
}

/// A piece of a text that becomes a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelled<'a> {
    /// Several words with joints between them, as a whole.
    Name(&'a str),
    /// A word.
    Word(&'a str),
    /// A part of the word before it.
    Part(&'a str),
}

/// Finds the names and words of a text, in order: each name before its words, each word before its parts.
pub(super) fn spelled(text: &str) -> Vec<Spelled<'_>> {
    let mut all = Vec::new();
    let mut name: Vec<&str> = Vec::new();
    let mut end = 0;
    for word in split(text) {
        let at = place(text, word);
        if !text.get(end..at.start).is_some_and(|between| JOINTS.contains(&between)) {
            spell(text, &mut name, &mut all);
        }
        end = at.end;
        name.push(word);
    }
    spell(text, &mut name, &mut all);
    all
}

/// Adds the name and its words to `all`, and clears it.
fn spell<'a>(text: &'a str, name: &mut Vec<&'a str>, all: &mut Vec<Spelled<'a>>) {
    if let [first, .., last] = name.as_slice() {
        let whole = place(text, first).start..place(text, last).end;
        if let Some(whole) = text.get(whole).filter(|whole| whole.len() <= LONGEST) {
            all.push(Spelled::Name(whole));
            // A file is also found by its name without folders.
            let file = whole.rsplit_once('/').map(|(_, file)| file).filter(|file| file.contains(['.', '-', ':']));
            all.extend(file.map(Spelled::Name));
        }
    }
    for word in name.drain(..) {
        let end = (0..=LONGEST.min(word.len())).rev().find(|end| word.is_char_boundary(*end)).unwrap_or_default();
        let word = word.get(..end).unwrap_or_default();
        let parts = parts(word);
        // A name in code keeps a term of its own. A word of an unspaced script is replaced by its pairs of characters.
        if parts.is_empty() || !has_unspaced(word) {
            all.push(Spelled::Word(word));
            all.extend(parts.into_iter().map(Spelled::Part));
        } else {
            all.extend(parts.into_iter().map(Spelled::Word));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn terms_of(text: &str) -> Vec<String> {
        let plain = |term: String| term.split_once('=').map_or_else(|| term.clone(), |(term, _)| term.to_owned());
        let terms: BTreeSet<String> = terms(&Record::new("").text(text)).into_iter().map(plain).collect();
        terms.into_iter().collect()
    }

    #[test]
    fn a_name_is_found_as_a_whole_and_by_its_parts() {
        assert_eq!(terms_of("read_file"), ["file", "read", "read_file"]);
        assert_eq!(terms_of("HashMap"), ["hash", "hashmap", "map"]);
        assert_eq!(terms_of("(src/store/mod.rs)."), ["mod", "mod.rs", "rs", "src", "src/store/mod.rs", "store"]);
        assert_eq!(terms_of("std::fmt 1.2-rc"), ["1", "1.2-rc", "2", "fmt", "rc", "std", "std::fmt"]);
        assert_eq!(terms_of("one... two/ three :four"), ["four", "one", "three", "two"]);
        assert_eq!(terms_of("東京都 東"), ["京都", "東", "東京"]);
    }

    #[test]
    fn a_text_in_another_language_has_its_stems_and_the_common_ones() {
        let terms = terms_of("Die Häuser sind nicht für die Reichen");
        for term in ["~de", "haus~de", "hauser", "reich~de"] {
            assert!(terms.iter().any(|has| has == term), "{term}: {terms:?}");
        }
        assert!(!terms_of("The houses are not for the rich").iter().any(|term| term.contains('~')));
    }

    #[test]
    fn a_word_weighs_more_if_it_is_repeated_and_less_in_a_long_text() {
        let weight = |text: &str| {
            let terms = terms(&Record::new("").text(text));
            terms.iter().find_map(|term| term.strip_prefix("port=")?.parse::<u32>().ok())
        };
        let long = "word ".repeat(1_000);
        assert!(weight("port") > weight(&format!("port {long}")));
        assert!(weight("port port port port") > weight("port"));
        assert_eq!(weight(&format!("port {long}")), Some(1));
        assert!(weight(&"port ".repeat(100)) <= Some(WEIGHTS));
    }

    #[test]
    fn terms_have_no_character_that_an_index_would_split_at() {
        let fine = |c: char| !c.is_ascii() || c.is_ascii_lowercase() || c.is_ascii_digit() || "_/.-:~=@".contains(c);
        let all: Vec<char> = (0..=u32::from(char::MAX)).filter_map(char::from_u32).collect();
        for some in all.chunks(4_096) {
            let text: String = some.iter().map(|c| format!("a{c}b {c} ")).collect();
            for term in terms(&Record::new("").text(text.as_str()).name(text)) {
                assert!(term.chars().all(fine), "{term:?}");
            }
        }
        let long = "x".repeat(10_000);
        assert!(terms(&Record::new("").text(format!("{long}é/{long}"))).iter().all(|term| term.len() <= LONGEST + 2));
    }
}
