//! When two statements say the same, and when they are about the same thing.
//!
//! They say the same where they are of one kind, about one thing, and have the same words; white space, a capital at the beginning, a full
//! stop at the end and the article `the` make no difference, and everything else does: `!x` is not `x`, nor `API_KEY` `api_key`.
//!
//! They are about the same thing where whoever stated them says so (`about`); and where nobody says what they are about, if they differ in
//! nothing but the number at their end: "listens on port 5050", "listens on port 6060". A number that stands elsewhere, or is a
//! name, tells things apart: "issue 12 is open", "issue 13 is open"; "closed issue 12", "closed issue 13".

use super::fact::{FactKind, Statement};

/// What two statements have in common that say the same, or are about the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Sameness {
    /// The words of the text, and what it is about.
    Text(FactKind, String, Option<String>),
    /// What it is about, by name.
    About(FactKind, String),
    /// The words before the number at its end.
    Measured(FactKind, String),
}

impl Sameness {
    /// What those have in common who say the same, and what those have who are about the same thing; `None` where that cannot be told.
    pub(super) fn of(statement: &Statement) -> (Self, Option<Self>) {
        let kind = statement.kind;
        let text = words(&statement.text);
        let about = statement.about.as_deref().map(words);
        let thing = match &about {
            // Names of things are given in passing, so capitals tell none apart.
            Some(about) => Some(Sameness::About(kind, about.to_lowercase())),
            None => {
                let measured = text.rsplit_once(' ').filter(|(before, last)| is_number(last) && !is_name(before));
                measured.map(|(before, _)| Sameness::Measured(kind, before.to_owned()))
            }
        };
        (Sameness::Text(kind, text, about), thing)
    }
}

/// `5050`, `3.14`, `40%`, `10ms`: digits, perhaps behind a sign and before a unit. `3f2a` is a name.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+', '$', '€']);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':'));
    digits.starts_with(|c: char| c.is_ascii_digit()) && unit.chars().all(|c| c.is_alphabetic() || c == '%')
}

/// Whether the number behind these words is a name, as in `closed issue 12`.
fn is_name(before: &str) -> bool {
    let last = before.rsplit(' ').next().unwrap_or_default().to_lowercase();
    NUMBERED.contains(&last.as_str())
}

/// What goes by numbers.
const NUMBERED: [&str; 16] = [
    "issue", "bug", "ticket", "task", "step", "item", "pr", "request", "commit", "revision", "line", "page", "chapter",
    "phase", "part", "test",
];

/// The words of a text, as they compare, with one space between.
fn words(text: &str) -> String {
    let text = text.trim();
    let plain = text.strip_suffix(['.', '!']).filter(|rest| !rest.is_empty() && !rest.ends_with(['.', '!']));
    let mut out = String::with_capacity(text.len());
    for (index, word) in plain.unwrap_or(text).split_whitespace().enumerate() {
        let mut rest = word.chars();
        let first = rest.next().filter(|_| index == 0 && rest.clone().next().is_none_or(char::is_lowercase));
        let start = out.len();
        if !out.is_empty() {
            out.push(' ');
        }
        match first {
            Some(first) => {
                out.extend(first.to_lowercase());
                out.push_str(rest.as_str());
            }
            None => out.push_str(word),
        }
        if matches!(out.get(start..), Some(" the")) {
            out.truncate(start);
        }
    }
    // At the beginning it is an article where anything follows.
    match out.strip_prefix("the ") {
        Some(rest) => rest.to_owned(),
        None => out,
    }
}
