//! The query of a search.

use std::fmt;
use std::ops::RangeInclusive;

use lookback_engine::transcript::Millis;

use super::language::{Language, common_stem, is_function_word};
use super::terms::{Spelled, mark, native, speaker, spelled};
use super::within::Within;
use super::words::{folded, has_unspaced, lower, words};

/// The most different words of a query that a search looks for.
pub const MOST_WORDS: usize = 32;

/// A query: words and phrases, and limits.
///
/// ```
/// use lookback_store::search::{Query, Within};
///
/// let said = Within::default().speaker("user".to_owned()).since(1_767_225_600_000);
/// let query = Query::new("which port did \"the server\" use?").within(said);
/// assert!(query.has_phrases("So the server listens on 5050.") && !query.has_phrases("the new server"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    pub(super) words: Vec<Word>,
    phrases: Vec<Vec<String>>,
    within: Within,
    pub(super) every: bool,
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word as it is written.
    written: String,
    /// The terms that match it. Those of a language are used only if there are texts in the language.
    pub(super) terms: Vec<(Option<Language>, String)>,
    /// Whether it must match because it is in a phrase.
    pub(super) required: bool,
    /// Whether it is a name in code, whose words follow separately.
    pub(super) is_name: bool,
    /// Whether it is a whole word that is not a function word.
    pub(super) is_word: bool,
    /// Whether it is a function word.
    empty: bool,
}

impl Query {
    /// Parses a query. Text in quotation marks is a phrase; no other character is special. Only the first
    /// [`MOST_WORDS`] different words are used.
    pub fn new(text: &str) -> Self {
        let mut query = Query::parse(text);
        let says = |word: &Word| !word.empty;
        if query.words.iter().any(says) {
            query.words.retain(says);
        }
        query
    }

    /// Parses a query for texts that have every one of its words.
    pub fn every_word(text: &str) -> Self {
        Query { every: true, ..Query::parse(text) }
    }

    fn parse(text: &str) -> Self {
        let plain: String = text.chars().map(|c| if matches!(c, '\u{201c}' | '\u{201d}') { '"' } else { c }).collect();
        let mut query = Query::default();
        let all = words(&plain);
        let language = Language::detect(all.iter().map(String::as_str));
        let mut pieces = plain.split('"').enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            // The text after an unclosed quotation mark is not a phrase.
            let is_phrase = index % 2 == 1 && pieces.peek().is_some();
            query.add(piece, is_phrase, language);
            let phrase = words(piece);
            if is_phrase && !phrase.is_empty() && query.phrases.len() < MOST_WORDS {
                query.phrases.push(phrase);
            }
        }
        query
    }

    fn add(&mut self, text: &str, required: bool, language: Option<Language>) {
        for found in spelled(text) {
            if self.words.len() == MOST_WORDS {
                return;
            }
            let (is_name, is_written) = (matches!(found, Spelled::Name(_)), matches!(found, Spelled::Word(_)));
            let (written, terms) = match found {
                Spelled::Name(name) => (folded(name), vec![(None, folded(name))]),
                Spelled::Word(word) | Spelled::Part(word) => (folded(word), forms(&lower(word), language)),
            };
            match self.words.iter_mut().find(|word| word.terms.first() == terms.first()) {
                Some(known) => {
                    known.required |= required && !known.empty && !is_name;
                    known.terms.extend(terms);
                    known.terms.sort();
                    known.terms.dedup();
                }
                None => {
                    let empty = is_function_word(&written, language);
                    // A text may have the name within a longer one.
                    let required = required && !empty && !is_name;
                    let is_word = is_written && !empty;
                    self.words.push(Word { written, terms, required, is_name, is_word, empty });
                }
            }
        }
    }

    /// Limits the query.
    #[must_use]
    pub fn within(mut self, within: Within) -> Self {
        self.within = within;
        self
    }

    /// Returns the term of the speaker to whom the query is limited.
    pub(super) fn speaker(&self) -> Option<String> {
        self.within.speaker.as_deref().map(speaker)
    }

    /// Returns the time range to which the query is limited, or `None` if it is not. A limited query does not find
    /// texts of an unknown time.
    pub fn times(&self) -> Option<RangeInclusive<Millis>> {
        let Within { since, until, .. } = self.within;
        (since.is_some() || until.is_some()).then(|| since.unwrap_or(Millis::MIN)..=until.unwrap_or(Millis::MAX))
    }

    /// Returns whether the query has a phrase.
    pub(crate) fn is_exact(&self) -> bool {
        !self.phrases.is_empty()
    }

    /// Returns whether a text has all phrases of the query, word for word.
    ///
    /// An index knows the words of a text, but not their order. So [`rank`](super::rank()) returns texts that have the
    /// words of the phrases. The caller reads them and drops those for which this is `false`.
    pub fn has_phrases(&self, text: &str) -> bool {
        if self.phrases.is_empty() {
            return true;
        }
        let said = words(text);
        // Without spaces, the end of a word is unknown.
        let is =
            |(here, word): (&String, &String)| here == word || (has_unspaced(word) && here.contains(word.as_str()));
        let found = |phrase: &Vec<String>| said.windows(phrase.len()).any(|here| here.iter().zip(phrase).all(is));
        self.phrases.iter().all(found)
    }

    /// Returns whether the query has no words. Such a query finds nothing.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the index in this query of a word in lower case, from a text of this language.
    pub(super) fn word(&self, word: &str, language: Option<Language>) -> Option<usize> {
        let forms = [Some(common_stem(word)), language.and_then(|language| native(word, language))];
        let is = |wanted: &Word| wanted.terms.iter().any(|(_, term)| forms.iter().flatten().any(|form| form == term));
        self.words.iter().position(is)
    }
}

/// Returns the terms of a word in lower case, in a query of this language.
fn forms(word: &str, language: Option<Language>) -> Vec<(Option<Language>, String)> {
    let languages: Vec<Language> = language.map_or_else(|| Language::all().collect(), |language| vec![language]);
    let natives = languages.into_iter().filter_map(|language| Some((Some(language), native(word, language)?)));
    [(None, common_stem(word))].into_iter().chain(natives).collect()
}

/// Returns the languages that a query looks for, each with the term of its texts, sorted by this term.
pub(super) fn languages(query: &Query) -> Vec<(Language, String)> {
    let mut all: Vec<(Language, String)> = Vec::new();
    for language in query.words.iter().flat_map(|word| &word.terms).filter_map(|(language, _)| *language) {
        if !all.iter().any(|(known, _)| *known == language) {
            all.push((language, mark(language)));
        }
    }
    all.sort_by(|(_, one), (_, other)| one.cmp(other));
    all
}

impl From<&str> for Query {
    fn from(text: &str) -> Self {
        Query::new(text)
    }
}

impl From<&String> for Query {
    fn from(text: &String) -> Self {
        Query::new(text)
    }
}

impl From<String> for Query {
    fn from(text: String) -> Self {
        Query::new(&text)
    }
}

impl From<&Query> for Query {
    fn from(query: &Query) -> Self {
        query.clone()
    }
}

impl fmt::Debug for Query {
    /// Prints the numbers of words and phrases, but not the words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("words", &self.words.len())
            .field("phrases", &self.phrases.len())
            .field("since", &self.within.since)
            .field("until", &self.within.until)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(query: &Query) -> Vec<&str> {
        query.words.iter().map(|word| word.written.as_str()).collect()
    }

    #[test]
    fn a_query_wants_each_word_once_and_not_more_than_so_many() {
        assert_eq!(written(&Query::new("the port The PORT caf\u{e9} cafe ports")), ["port", "cafe"]);
        let many: Vec<String> = (0..100).map(|word| format!("w{word}")).collect();
        assert_eq!(written(&Query::new(&many.join(" "))), many[..MOST_WORDS]);
        assert_eq!(written(&Query::new(&"apple ".repeat(100_000))), ["apple"]);
    }

    #[test]
    fn a_phrase_is_found_within_a_script_without_spaces() {
        let query = Query::new("\"東京都\"");
        assert!(query.has_phrases("東京都に行く"));
        assert!(!query.has_phrases("京都に行く"));
        assert!(!Query::new("\"port\"").has_phrases("ports"));
    }

    #[test]
    fn function_words_count_only_if_there_is_nothing_else() {
        assert_eq!(written(&Query::new("what is the port of it?")), ["port"]);
        assert_eq!(written(&Query::new("to be or not")), ["to", "be", "or", "not"]);
        assert_eq!(written(&Query::new("Was ist das für ein Haus?")), ["haus"]);
        assert!(Query::new(" ?! ").is_empty());
    }

    #[test]
    fn a_phrase_is_found_word_for_word() {
        let query = Query::new("port of \u{201c}The main Server\u{201d}");
        assert!(query.has_phrases("is it the MAIN server?") && !query.has_phrases("the server is the main one"));
        assert!(!query.has_phrases("main server") && !query.has_phrases("the mainly served"));
        assert_eq!(query.words.iter().filter(|word| word.required).count(), 2);
        let open = Query::new("port \"the main");
        assert!(!open.is_exact() && written(&open) == ["port", "main"]);
        assert!(!Query::new("\"\" \" \" port").is_exact());
        let empty = Query::new("\"to be\"");
        assert!(empty.is_exact() && written(&empty) == ["to", "be"]);
    }

    #[test]
    fn nothing_of_a_query_is_printed() {
        let query = Query::new("\"secret port\"").within(Within::default().speaker("ann".to_owned()));
        assert!(!format!("{query:?}").contains("secret") && !format!("{query:?}").contains("ann"));
    }
}
