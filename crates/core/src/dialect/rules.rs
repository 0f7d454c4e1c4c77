//! What a check finds: a rule by its number, the place, and the values that a sentence about it needs.

use serde::Serialize;

use crate::message::Role;

/// One rule of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// Its number, such as `AM2`. Numbers are never reused.
    pub id: &'static str,
    /// What follows from breaking it.
    pub severity: Severity,
    /// What it demands.
    pub demands: &'static str,
}

impl Rule {
    pub(super) const fn refused(id: &'static str, demands: &'static str) -> Rule {
        Rule { id, severity: Severity::Refused, demands }
    }
}

/// What follows from breaking a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// The provider refuses the request.
    Refused,
    /// Something is silently dropped, or some models or servers refuse it.
    Degraded,
}

/// A rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's number.
    pub rule: &'static str,
    /// What follows.
    pub severity: Severity,
    /// Index of the message; the number of messages where it is the request as a whole.
    pub message: usize,
    /// Where it is, such as `messages[7].tool_calls[1]`.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong, with its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// There is no message.
    NoMessages,
    /// A tool call has no result where it must stand.
    MissingResult {
        /// The call.
        id: String,
    },
    /// A tool result answers no call of the message before it.
    OrphanResult {
        /// The call that it names.
        id: String,
    },
    /// A call has a second result.
    DuplicateResult {
        /// The call.
        id: String,
    },
    /// Two calls have one identifier.
    DuplicateCall {
        /// The identifier.
        id: String,
    },
    /// An identifier has characters that are not allowed.
    BadId {
        /// The identifier.
        id: String,
    },
    /// Other content stands before the results in their message.
    ResultsNotFirst,
    /// A tool call's arguments are not a JSON object.
    BadArguments {
        /// The call.
        id: String,
    },
    /// A text is empty or all white space.
    BlankText,
    /// A message has no content.
    EmptyContent,
    /// `tool_calls` is an empty list.
    EmptyToolCalls,
    /// The last message is the model's, and ends in white space.
    TrailingSpace,
    /// The first message is of the wrong role.
    FirstMessage {
        /// Its role.
        role: Role,
    },
    /// Two messages of one role follow each other.
    Alternation {
        /// Their role.
        role: Role,
    },
    /// A system message stands where none may.
    SystemPlace,
    /// Reasoning has no signature.
    UnsignedReasoning,
    /// The history has tool calls or results, and the request declares no tools.
    ToolsNotDeclared,
    /// Too many cache markers.
    CacheMarkers {
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Too many pictures and files.
    TooMuchMedia {
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The request is too large.
    TooManyBytes {
        /// Its bytes.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Too many messages.
    TooManyMessages {
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
}
