//! Facts and times in the JSON of the command line, with the names of docs/reference/json.md and times in RFC 3339.
//!
//! The logs use the library's own format instead.

use std::ops::Range;

use jiff::Timestamp;
use lookback_engine::transcript::{Millis, Position};
use lookback_facts as memory;
use lookback_facts::{Confidence, FactEntry, FactId, FactKind, Scope, Speaker, Trust};
use serde::{Serialize, Serializer};

/// Serializes a time as RFC 3339 text, or as null.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn rfc3339<S: Serializer>(time: &Option<Millis>, serializer: S) -> Result<S::Ok, S::Error> {
    timestamp(*time).map(|time| time.to_string()).serialize(serializer)
}

/// Returns a time as a timestamp. `None` if it is missing or outside the range of the calendar.
pub(crate) fn timestamp(time: Option<Millis>) -> Option<Timestamp> {
    time.and_then(|time| Timestamp::from_millisecond(time).ok())
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

/// A current fact.
#[derive(Serialize)]
pub(crate) struct Fact<'a> {
    id: FactId,
    statement: Statement<'a>,
    confidence: Confidence,
    trust: Trust,
    confirmations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    disputes: Option<FactId>,
    #[serde(serialize_with = "rfc3339", skip_serializing_if = "Option::is_none")]
    said: Option<Millis>,
}

#[derive(Serialize)]
struct Statement<'a> {
    kind: FactKind,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<&'a str>,
    confidence: Confidence,
    source: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<Trust>,
    #[serde(serialize_with = "rfc3339", skip_serializing_if = "Option::is_none")]
    time: Option<Millis>,
    #[serde(skip_serializing_if = "is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "is_empty")]
    supersedes: &'a [FactId],
}

#[derive(Serialize)]
struct Source<'a> {
    by: &'a Speaker,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Position>,
}

/// An event in the history of a fact.
#[derive(Serialize)]
pub(crate) struct Event<'a> {
    scope: Scope,
    entry: Position,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum What<'a> {
    Stated(Statement<'a>),
    Confirmed {
        id: FactId,
        confidence: Confidence,
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trust: Option<Trust>,
        #[serde(serialize_with = "rfc3339", skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    Resolved {
        id: FactId,
        with: &'a str,
        source: Source<'a>,
        #[serde(serialize_with = "rfc3339", skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    Forgotten {
        id: FactId,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<&'a str>,
        source: Source<'a>,
        #[serde(serialize_with = "rfc3339", skip_serializing_if = "Option::is_none")]
        time: Option<Millis>,
    },
    Extracted {
        from: &'a [Range<Position>],
    },
    Unknown {},
}

impl<'a> From<&'a memory::Fact> for Fact<'a> {
    fn from(fact: &'a memory::Fact) -> Self {
        let memory::Fact { id, statement, confidence, trust, confirmations, disputes, said, .. } = fact;
        Fact {
            id: *id,
            statement: statement.into(),
            confidence: *confidence,
            trust: *trust,
            confirmations: *confirmations,
            disputes: *disputes,
            said: *said,
        }
    }
}

impl<'a> From<&'a memory::Statement> for Statement<'a> {
    fn from(statement: &'a memory::Statement) -> Self {
        let memory::Statement { kind, text, about, confidence, source, trust, time, tags, supersedes, .. } = statement;
        Statement {
            kind: *kind,
            text,
            about: about.as_deref(),
            confidence: *confidence,
            source: source.into(),
            trust: *trust,
            time: *time,
            tags,
            supersedes,
        }
    }
}

impl<'a> From<&'a memory::Source> for Source<'a> {
    fn from(source: &'a memory::Source) -> Self {
        let memory::Source { by, session, message, .. } = source;
        Source { by, session: session.as_deref(), entry: *message }
    }
}

impl<'a> From<&'a memory::FactEvent> for Event<'a> {
    fn from(event: &'a memory::FactEvent) -> Self {
        let what = match &event.entry {
            FactEntry::Stated(statement) => What::Stated(statement.into()),
            FactEntry::Confirmed { id, confidence, source, trust, time } => {
                What::Confirmed { id: *id, confidence: *confidence, source: source.into(), trust: *trust, time: *time }
            }
            FactEntry::Resolved { id, with, source, time } => {
                What::Resolved { id: *id, with, source: source.into(), time: *time }
            }
            FactEntry::Forgotten { id, why, source, time } => {
                What::Forgotten { id: *id, why: why.as_deref(), source: source.into(), time: *time }
            }
            FactEntry::Extracted { from } => What::Extracted { from },
            _ => What::Unknown {},
        };
        Event { scope: event.scope, entry: event.position, what }
    }
}
