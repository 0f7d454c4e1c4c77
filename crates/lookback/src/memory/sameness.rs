//! When two statements say the same, and when they are about the same thing.
//!
//! They say the same where they are of one kind, about one thing, and have the same words; white space, a capital at the beginning, a full
//! stop at the end and the article `the` make no difference, and everything else does: `!x` is not `x`, nor `API_KEY` `api_key`.
//!
//! They are about the same thing where whoever stated them says so (`about`); and where nobody says what they are about, if they differ in
//! nothing but the number at their end: "listens on port 5050", "listens on port 6060". A number that stands elsewhere tells things apart:
//! "issue 12 is open", "issue 13 is open".

use super::fact::{Kind, Statement};

/// What two statements have in common that say the same, or are about the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Sameness {
    /// The words of the text, and what it is about.
    Text(Kind, Vec<String>, Option<Vec<String>>),
    /// What it is about, by name.
    About(Kind, Vec<String>),
    /// The words before the number at its end.
    Measured(Kind, Vec<String>),
}

impl Sameness {
    /// Those who say the same have this in common.
    pub(super) fn of_text(statement: &Statement) -> Self {
        Sameness::Text(statement.kind, words(&statement.text), about(statement))
    }

    /// Those who are about the same thing have this in common; `None` where that cannot be told.
    pub(super) fn of_thing(statement: &Statement) -> Option<Self> {
        if let Some(about) = about(statement) {
            // Names of things are given in passing, so capitals tell none apart.
            return Some(Sameness::About(statement.kind, about.iter().map(|word| word.to_lowercase()).collect()));
        }
        let mut words = words(&statement.text);
        let measured = words.pop().is_some_and(|last| is_number(&last)) && !words.is_empty();
        measured.then_some(Sameness::Measured(statement.kind, words))
    }
}

fn about(statement: &Statement) -> Option<Vec<String>> {
    statement.about.as_deref().map(words)
}

/// `5050`, `3.14`, `40%`, `10ms`: a digit first, or behind a sign.
fn is_number(word: &str) -> bool {
    word.trim_start_matches(['-', '+', '$', '€']).starts_with(|c: char| c.is_ascii_digit())
}

/// The words of a text, as they compare.
fn words(text: &str) -> Vec<String> {
    let text = text.trim();
    let plain = text.strip_suffix(['.', '!']).filter(|rest| !rest.is_empty() && !rest.ends_with(['.', '!']));
    let mut words: Vec<String> = plain.unwrap_or(text).split_whitespace().map(str::to_owned).collect();
    if let Some(first) = words.first_mut() {
        let rest = first.chars().skip(1);
        if rest.clone().next().is_none_or(char::is_lowercase) {
            *first = first.chars().next().into_iter().flat_map(char::to_lowercase).chain(rest).collect();
        }
    }
    if words.len() > 1 {
        words.retain(|word| word != "the");
    }
    words
}
