//! Decides whether two statements say the same, and whether they are about the same thing.
//!
//! Two statements say the same if they have the same kind, the same `about` and the same words. White space, a capital
//! at the beginning, a full stop at the end and the article `the` make no difference. Everything else does: `!x` is not
//! `x`, and `API_KEY` is not `api_key`.
//!
//! Two statements are about the same thing if they have the same kind and the same `about`. Without `about`, they must
//! differ only in the number at their end: "listens on port 5050", "listens on port 6060". A number elsewhere, or one
//! that is a name, distinguishes things: "issue 12 is open", "issue 13 is open"; "closed issue 12", "closed issue 13".

use super::fact::{FactKind, Statement};

/// A key of a statement. Two statements with a common key say the same, or are about the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Sameness {
    /// The words of the text, and `about`.
    Text(FactKind, String, Option<String>),
    /// The subject by name: `about`.
    About(FactKind, String),
    /// The words before the number at the end.
    Measured(FactKind, String),
}

impl Sameness {
    /// Returns the key of statements that say the same, and the key of statements about the same thing. The second is
    /// `None` if the statement does not reveal its subject.
    pub(super) fn keys(statement: &Statement) -> (Self, Option<Self>) {
        let kind = statement.kind;
        let text = words(&statement.text);
        let about = statement.about.as_deref().map(words);
        let thing = match &about {
            // Names are typed casually, so capitals make no difference.
            Some(about) => Some(Sameness::About(kind, about.to_lowercase())),
            None => {
                let measured = text.rsplit_once(' ').filter(|(before, last)| is_number(last) && !is_name(before));
                measured.map(|(before, _)| Sameness::Measured(kind, before.to_owned()))
            }
        };
        (Sameness::Text(kind, text, about), thing)
    }
}

/// Returns whether a word is a number such as `5050`, `3.14`, `40%` or `10ms`: digits, with an optional sign before and
/// an optional unit after them. `3f2a` is a name.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+', '$', '€']);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':'));
    digits.starts_with(|c: char| c.is_ascii_digit()) && unit.chars().all(|c| c.is_alphabetic() || c == '%')
}

/// Returns whether a number after these words is a name, as in `closed issue 12`.
fn is_name(before: &str) -> bool {
    let last = before.rsplit(' ').next().unwrap_or_default().to_lowercase();
    NUMBERED.contains(&last.as_str())
}

/// Words for things that have numbers as names.
const NUMBERED: [&str; 16] = [
    "issue", "bug", "ticket", "task", "step", "item", "pr", "request", "commit", "revision", "line", "page", "chapter",
    "phase", "part", "test",
];

/// Returns the words of a text in the form in which they are compared, separated by single spaces.
fn words(text: &str) -> String {
    let text = text.trim();
    let plain = text.strip_suffix(['.', '!']).filter(|rest| !rest.is_empty() && !rest.ends_with(['.', '!']));
    let mut out = String::with_capacity(text.len());
    for (index, word) in plain.unwrap_or(text).split_whitespace().enumerate() {
        let mut rest = word.chars();
        let first = rest.next();
        let start = out.len();
        if !out.is_empty() {
            out.push(' ');
        }
        match first {
            Some(first) if index == 0 && rest.clone().next().is_none_or(char::is_lowercase) => {
                out.extend(first.to_lowercase());
                out.push_str(rest.as_str());
            }
            _ => out.push_str(word),
        }
        if matches!(out.get(start..), Some(" the")) {
            out.truncate(start);
        }
    }
    // At the beginning, `the` is an article if a word follows.
    match out.strip_prefix("the ") {
        Some(rest) => rest.to_owned(),
        None => out,
    }
}
