//! Reads the name of a dialect, and guesses the meaning of an unknown name.

use std::iter;
use std::str::FromStr;

use super::Dialect;

/// How much of an unknown name is compared and repeated, in characters.
const MOST: usize = 40;

/// How similar two names must be for one to count as a typo of the other, from 0 (nothing in common) to 1 (equal).
const ALIKE: f64 = 0.7;

/// Formats that Lookback cannot read yet, by the names that people use for them, in lower case and with hyphens.
const UNREAD: &[(&str, &str)] = &[
    ("ai-sdk", "the AI SDK's UI messages"),
    ("ui-messages", "the AI SDK's UI messages"),
    ("vercel", "the AI SDK's UI messages"),
    ("langchain", "LangChain's format"),
    ("cohere", "Cohere's chat format"),
];

/// An error about an unknown dialect, with the probable meaning of its name.
///
/// ```
/// use lookback_wire::dialect::Dialect;
///
/// let unknown = "openai".parse::<Dialect>().unwrap_err();
/// assert_eq!(unknown.to_string(), "unknown dialect `openai`; did you mean openai-chat?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect `{name}`{}", suggestion(.meant))]
#[non_exhaustive]
pub struct UnknownDialect {
    /// The name, at most its first 40 characters.
    pub(crate) name: String,
    /// Its probable meaning, or `None` if it does not resemble a known name.
    pub(crate) meant: Option<Meant>,
}

/// The probable meaning of an unknown name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Meant {
    /// A dialect, by another of its names or with a typo.
    Dialect(Dialect),
    /// A format that Lookback cannot read yet, with its description.
    Unread(&'static str),
}

fn suggestion(meant: &Option<Meant>) -> String {
    match meant {
        Some(Meant::Dialect(dialect)) => format!("; did you mean {dialect}?"),
        Some(Meant::Unread(format)) => format!(": Lookback cannot read {format} yet; use {}", choices()),
        None => format!("; use {}", choices()),
    }
}

/// Returns the names of all dialects as "a, b or c".
fn choices() -> String {
    let names = Dialect::ALL.map(Dialect::name);
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

impl UnknownDialect {
    fn new(name: &str) -> UnknownDialect {
        let name: String = name.chars().take(MOST).collect();
        let meant = meant(&name);
        UnknownDialect { name, meant }
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| UnknownDialect::new(name))
    }
}

/// Returns every known name, with its meaning.
fn names() -> impl Iterator<Item = (&'static str, Meant)> {
    let of = |dialect: Dialect| {
        let names = iter::once(dialect.name()).chain(dialect.format().aliases.iter().copied());
        names.map(move |name| (name, Meant::Dialect(dialect)))
    };
    let unread = UNREAD.iter().map(|(name, format)| (*name, Meant::Unread(format)));
    Dialect::ALL.into_iter().flat_map(of).chain(unread)
}

fn meant(name: &str) -> Option<Meant> {
    let name = name.trim().to_lowercase().replace([' ', '_'], "-");
    let alike = names().map(|(known, meant)| (strsim::normalized_damerau_levenshtein(known, &name), meant));
    let (alike, meant) = alike.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (alike >= ALIKE).then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(name: &str) -> Option<Meant> {
        name.parse::<Dialect>().unwrap_err().meant
    }

    #[test]
    fn every_known_name_means_what_it_says() {
        for dialect in Dialect::ALL {
            assert_eq!(guessed(&dialect.name().to_uppercase()), Some(Meant::Dialect(dialect)));
        }
        for (name, expected) in names() {
            if Dialect::ALL.iter().all(|dialect| dialect.name() != name) {
                assert_eq!(guessed(name), Some(expected), "{name}");
            }
        }
    }
}
