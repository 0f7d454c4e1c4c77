//! Finds the current fact whose words are closest to those of a new one.
//!
//! The result is a guess for the model to check; it changes nothing. Two facts are close if they share most of their
//! words, in any order. Forms of one word (`deploy`, `deploys`) count as shared, and small words are ignored. Numbers
//! and names with digits distinguish things: "issue 12 is open" is not close to "issue 13 is open". A number at the end
//! is a measured value, and may differ.

use strsim::normalized_levenshtein;

use crate::sameness::Sameness;
use crate::{Fact, Statement};
use lookback_store::search::words;

/// The minimum share of their words that close facts have in common, from 0 to 1.
const CLOSE: f64 = 0.7;
/// The minimum similarity of two forms of one word, from 0 to 1.
const FORMS: f64 = 0.8;
/// The most facts that are compared, newest first.
const MOST: usize = 1_000;

/// Words that say little about the subject of a sentence. A search ignores more words than these, but here "not"
/// matters.
const SMALL: [&str; 26] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "in", "is", "it", "its", "of", "on",
    "or", "that", "the", "this", "to", "was", "were", "with",
];

/// Returns the fact that is closest to a statement, if one is close enough. `facts` are ordered newest first, and of
/// two equally close facts the newer one is returned.
pub(super) fn closest<'a>(statement: &Statement, facts: impl Iterator<Item = &'a Fact>) -> Option<&'a Fact> {
    let said = Said::from_statement(statement);
    let close = facts.take(MOST).filter_map(|fact| {
        let share = said.share(&Said::from_statement(&fact.statement));
        (share >= CLOSE).then_some((share, fact))
    });
    close.min_by(|(one, _), (other, _)| other.total_cmp(one)).map(|(_, fact)| fact)
}

/// The words by which a fact is compared.
struct Said {
    text: Words,
    about: Option<Words>,
}

impl Said {
    fn from_statement(statement: &Statement) -> Self {
        let mut text = Words::from_text(&statement.text);
        let bare = Statement { about: None, ..statement.clone() };
        if Sameness::keys(&bare).1.is_some() {
            text.numbers.pop();
        }
        Said { text, about: statement.about.as_deref().map(Words::from_text) }
    }

    /// Returns the share of their words that two facts have in common, or 0 if they are about different things.
    fn share(&self, other: &Said) -> f64 {
        let apart = self.about.as_ref().zip(other.about.as_ref()).is_some_and(|(one, other)| one.share(other) < CLOSE);
        if apart { 0.0 } else { self.text.share(&other.text) }
    }
}

/// The relevant words of a text, each once. Words with digits are kept apart.
struct Words {
    plain: Vec<String>,
    numbers: Vec<String>,
}

impl Words {
    fn from_text(text: &str) -> Self {
        let mut all: Vec<String> = Vec::new();
        for word in words(text) {
            if !SMALL.contains(&word.as_str()) && !all.contains(&word) {
                all.push(word);
            }
        }
        let (numbers, plain) = all.into_iter().partition(|word| word.contains(|c: char| c.is_numeric()));
        Words { plain, numbers }
    }

    fn share(&self, other: &Words) -> f64 {
        let lacks = |one: &Words, other: &Words| one.numbers.iter().any(|number| !other.numbers.contains(number));
        let (most, least) = (self.plain.len().max(other.plain.len()), self.plain.len().min(other.plain.len()));
        // Even if all words of the shorter text were shared, it would not be enough.
        if least == 0 || dice(least, most, least) < CLOSE || (lacks(self, other) && lacks(other, self)) {
            return 0.0;
        }
        let mut left: Vec<&String> = other.plain.iter().collect();
        let mut shared = 0;
        let mut rest = Vec::new();
        for word in &self.plain {
            match left.iter().position(|other| *other == word) {
                Some(at) => {
                    left.swap_remove(at);
                    shared += 1;
                }
                None => rest.push(word),
            }
        }
        for word in rest {
            if let Some(at) = left.iter().position(|other| normalized_levenshtein(word, other) >= FORMS) {
                left.swap_remove(at);
                shared += 1;
            }
        }
        dice(shared, most, least)
    }
}

/// Returns twice the shared words divided by all words: 1 if all are shared, 0 if none is.
#[allow(clippy::cast_precision_loss, reason = "a text has few words")]
fn dice(shared: usize, one: usize, other: usize) -> f64 {
    2.0 * shared as f64 / (one + other) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FactKind, Source, Speaker};

    fn said(text: &str, about: Option<&str>) -> Said {
        let statement = Statement::new(FactKind::Finding, text, Source::new(Speaker::Model));
        Said::from_statement(&Statement { about: about.map(str::to_owned), ..statement })
    }

    fn close(one: &str, other: &str) -> bool {
        let (one, other) = (said(one, None), said(other, None));
        assert!((one.share(&other) - other.share(&one)).abs() < f64::EPSILON);
        one.share(&other) >= CLOSE
    }

    #[test]
    fn facts_are_close_that_share_most_of_their_words() {
        for (one, other) in [
            ("Use pnpm, not npm.", "Not npm: use pnpm!"),
            ("Use pnpm, not npm.", "Use yarn, not npm."),
            ("Deploys go out on Fridays.", "A deploy goes out on Friday."),
            ("Deploy on Fridays.", "Never deploy on Fridays."),
            ("The service listens on port 5050.", "It listens on port 6060; the service."),
            ("Café opens late.", "CAFE OPENS LATE"),
        ] {
            assert!(close(one, other), "{one} {other}");
        }
    }

    #[test]
    fn facts_are_not_close_that_name_different_things() {
        for (one, other) in [
            ("Issue 12 is open.", "Issue 13 is open."),
            ("Closed issue 12.", "Closed issue 13."),
            ("Server a1 is in Rust.", "Server b2 is in Rust."),
            ("The server is in Rust.", "The client is in Go."),
            ("Use pnpm, not npm.", "Tests run in CI."),
            ("It is so.", "It is this."),
            ("", ""),
            ("5050", "6060"),
        ] {
            assert!(!close(one, other), "{one} {other}");
        }
    }

    #[test]
    fn facts_about_different_things_are_not_close() {
        let port = |about| said("It listens on port 5050.", about);
        let share = |one, other| port(one).share(&port(other));
        assert!(share(Some("the service's port"), Some("service port")) >= CLOSE);
        assert!(share(Some("the service's port"), None) >= CLOSE);
        assert!(share(Some("service 1"), Some("service 2")) < CLOSE);
        assert!(share(Some("the gateway"), Some("the database")) < CLOSE);
    }
}
