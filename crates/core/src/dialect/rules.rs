//! The result of a check: the rule that is broken, where, and the values involved.

use serde::Serialize;

use crate::wire::Role;

/// One rule of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The number, such as `AM2`. Numbers are never reused.
    pub id: &'static str,
    /// What happens if it is broken.
    pub severity: Severity,
    /// What it demands, as a sentence without a capital or a full stop.
    pub demands: &'static str,
}

impl Rule {
    pub(super) const fn refused(id: &'static str, demands: &'static str) -> Rule {
        Rule { id, severity: Severity::Refused, demands }
    }

    pub(super) const fn degraded(id: &'static str, demands: &'static str) -> Rule {
        Rule { id, severity: Severity::Degraded, demands }
    }
}

/// What happens if a rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// The provider refuses the request.
    Refused,
    /// Something is silently ignored, or only some models or servers refuse the request.
    Degraded,
}

/// A rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's number.
    pub rule: &'static str,
    /// What happens because of it.
    pub severity: Severity,
    /// The index of the message, or the number of messages if the request as a whole breaks the rule.
    pub message: usize,
    /// The path, such as `messages[7].tool_calls[1]`.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong, with the values involved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// The request has no messages.
    NoMessages,
    /// A tool call has no result at the place where it is demanded.
    MissingResult {
        /// The identifier of the call.
        id: String,
    },
    /// A tool result answers no call of the message before it.
    OrphanResult {
        /// The identifier that it names.
        id: String,
    },
    /// A call has a second result.
    DuplicateResult {
        /// The identifier of the call.
        id: String,
    },
    /// Two calls have the same identifier.
    DuplicateCall {
        /// The identifier.
        id: String,
    },
    /// An identifier has characters that are not allowed.
    BadId {
        /// The identifier.
        id: String,
    },
    /// A message has other content before its tool results.
    ResultsNotFirst,
    /// A tool call's arguments are not a JSON object.
    BadArguments {
        /// The identifier of the call.
        id: String,
    },
    /// A tool call's arguments are a JSON object itself, and not its text.
    BareArguments {
        /// The identifier of the call.
        id: String,
    },
    /// A text is empty or only white space.
    BlankText,
    /// A message has no content.
    EmptyContent,
    /// A part is an empty object.
    EmptyPart,
    /// `tool_calls` is an empty list.
    EmptyToolCalls,
    /// The last message is the assistant's, and ends in white space.
    TrailingSpace,
    /// The first message has the wrong role.
    FirstMessage {
        /// Its role.
        role: Role,
    },
    /// Two messages in a row have the same role.
    Alternation {
        /// Their role.
        role: Role,
    },
    /// A system message is at a place where none is allowed.
    SystemPlace,
    /// Reasoning has no signature.
    UnsignedReasoning,
    /// Something that stands before reasoning has changed since the request before.
    ChangedPrefix,
    /// Reasoning that stood before other reasoning is missing, and earlier reasoning is there.
    BrokenChain,
    /// Nothing of the model follows reasoning.
    LoneReasoning,
    /// A tool call has no signature.
    UnsignedCall,
    /// A tool result is not an object.
    BareResponse,
    /// A file before it has the same name.
    DuplicateName,
    /// Two items have the same identifier.
    DuplicateId {
        /// The identifier.
        id: String,
    },
    /// A part has a member that the provider does not know.
    UnknownMember,
    /// A text has half of a surrogate pair, which is no character.
    LoneSurrogate,
    /// An identifier is too long.
    LongId {
        /// The identifier.
        id: String,
        /// The most characters that are allowed.
        most: usize,
    },
    /// A message has too many tool calls.
    TooManyCalls {
        /// The number found.
        count: usize,
        /// The most that are allowed.
        most: usize,
    },
    /// A part is in a message whose role may not have it.
    WrongRole {
        /// The role of the message.
        role: Role,
    },
    /// A name has characters that are not allowed.
    BadName,
    /// The name of a tool has characters that are not allowed, or is too long.
    BadToolName {
        /// The name.
        name: String,
    },
    /// A text has a type that is another role's.
    TextType,
    /// The last message is the assistant's, whose words the model will not continue.
    Prefill,
    /// A cache marker is to last longer than one that comes before it.
    MarkerOrder,
    /// The model does not accept a part or a role.
    NotForModel,
    /// A number is outside of its range.
    OutOfRange,
    /// A member is null that may only be absent.
    NullMember,
    /// A required member is missing.
    MissingMember,
    /// A compaction trigger is not the last item.
    TriggerPlace,
    /// A member is present beside cached contents, which have it already.
    BesideCached,
    /// A compaction block is at a place where none is allowed.
    CompactionPlace,
    /// A second compaction block has content.
    SecondCompaction,
    /// The version of the API that the request asks for does not have this anymore.
    Unsupported,
    /// The history has tool calls or results, but the request declares no tools.
    ToolsNotDeclared,
    /// The request has too many cache markers.
    CacheMarkers {
        /// The number found.
        count: usize,
        /// The most that are allowed.
        most: usize,
    },
    /// The request has too many pictures and files.
    TooMuchMedia {
        /// The number found.
        count: usize,
        /// The most that are allowed.
        most: usize,
    },
    /// The PDF files of the request, or one of them, have too many pages.
    TooManyPages {
        /// The number found.
        count: u64,
        /// The most that are allowed.
        most: u64,
    },
    /// The request has too many bytes.
    TooManyBytes {
        /// The number found.
        count: usize,
        /// The most that are allowed.
        most: usize,
    },
    /// The request has too many messages.
    TooManyMessages {
        /// The number found.
        count: usize,
        /// The most that are allowed.
        most: usize,
    },
}
