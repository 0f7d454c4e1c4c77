//! The reasons why a memory refuses a statement.

use super::fact::{FactId, FactKind, Statement, Trust};

/// The reasons why a statement is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A text is blank.
    #[error("{field} is empty; it needs at least one visible character")]
    Empty {
        /// The part of the statement.
        field: &'static str,
    },
    /// A text is too long.
    #[error("{field} has {length} characters; at most {most} are allowed. Shorten it, or state several facts")]
    Long {
        /// The part of the statement.
        field: &'static str,
        /// Its length in characters.
        length: usize,
        /// The most characters that it may have.
        most: usize,
    },
    /// There are too many of something.
    #[error("there are {count} {field}; at most {most} are allowed")]
    Many {
        /// The part of the statement.
        field: &'static str,
        /// The number of elements.
        count: usize,
        /// The most elements.
        most: usize,
    },
    /// The fact is not current.
    #[error("there is no current fact {id}; it was superseded, resolved or forgotten, or never stated")]
    Gone {
        /// The identifier that was given.
        id: FactId,
    },
    /// The fact belongs to a session, so a shared fact cannot replace it.
    #[error(
        "{id} belongs to the session, and a shared fact cannot replace it; forget it, or replace it in the session"
    )]
    Private {
        /// The fact.
        id: FactId,
    },
    /// The fact is not a blocker, so it cannot be resolved.
    #[error("{id} is a {kind}; only a blocker can be resolved")]
    NoBlocker {
        /// The fact.
        id: FactId,
        /// Its kind.
        kind: FactKind,
    },
    /// The fact has more trust than the source.
    #[error("{id} has {trust} trust, and a source of {worth} trust cannot remove it; ask whoever stated it")]
    Trusted {
        /// The fact.
        id: FactId,
        /// The trust of the fact.
        trust: Trust,
        /// The most trust that the source can give.
        worth: Trust,
    },
}

/// Checks that a statement can be a fact.
pub(super) fn check(statement: &Statement) -> Result<(), Refused> {
    let text = |field, text: &str, most| {
        let length = text.chars().count();
        match length {
            _ if text.trim().is_empty() => Err(Refused::Empty { field }),
            length if length > most => Err(Refused::Long { field, length, most }),
            _ => Ok(()),
        }
    };
    let many = |field, count| {
        let most = Statement::MOST;
        if count > most { Err(Refused::Many { field, count, most }) } else { Ok(()) }
    };
    text("the text", &statement.text, Statement::LONGEST)?;
    statement.about.as_deref().map_or(Ok(()), |about| text("`about`", about, Statement::LONGEST_NAME))?;
    statement.tags.iter().try_for_each(|tag| text("a tag", tag, Statement::LONGEST_NAME))?;
    many("tags", statement.tags.len())?;
    many("superseded facts", statement.supersedes.len())
}
