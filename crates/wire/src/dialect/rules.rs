//! Rules, and the findings of a check: the broken rule, the place, and the values involved.

use std::fmt;

use serde::Serialize;

use crate::wire::Role;
use lookback_content::text::short;

/// One rule of a provider. The number of a deleted rule is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The number, such as `AM2`. Numbers are never reused.
    pub id: &'static str,
    /// The consequence of breaking it.
    pub severity: Severity,
    /// The demand, as a sentence without a capital or a full stop.
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

/// The consequence of breaking a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// The provider refuses the request.
    Refused,
    /// The provider silently ignores a part of the request, or only some models or servers refuse it.
    Degraded,
}

/// A rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's number.
    pub rule: &'static str,
    /// The consequence.
    pub severity: Severity,
    /// The index of the message, or the number of messages if the request as a whole breaks the rule.
    pub message: usize,
    /// The path, such as `messages[7].tool_calls[1]`.
    pub path: String,
    /// The problem.
    pub problem: Problem,
}

/// A problem, with the values involved. As JSON, it is an object with its `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problem(pub(super) ProblemKind);

impl Problem {
    /// Returns its kind, such as `missing_result`.
    pub fn kind(&self) -> String {
        // The derived JSON has the names of all kinds, so no second list can differ from it.
        let kind = serde_json::to_value(self).ok().and_then(|json| json.get("kind")?.as_str().map(str::to_owned));
        kind.unwrap_or_default()
    }

    /// Returns the identifier of the tool call that it is about, if it names one.
    pub fn call_id(&self) -> Option<&str> {
        match &self.0 {
            ProblemKind::MissingResult { id }
            | ProblemKind::OrphanResult { id }
            | ProblemKind::DuplicateResult { id }
            | ProblemKind::DuplicateCall { id }
            | ProblemKind::BadId { id }
            | ProblemKind::BadArguments { id } => Some(id),
            _ => None,
        }
    }
}

/// The kinds of problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ProblemKind {
    /// The request has no messages.
    NoMessages,
    /// A tool call has no result at the required place.
    MissingResult {
        /// The identifier of the call.
        id: String,
    },
    /// A tool result has no matching call in the message before it.
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
    /// A tool call's arguments are a JSON object instead of a string.
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
    /// The prefix of reasoning has changed since the previous request.
    ChangedPrefix,
    /// The previous reasoning is missing, although earlier reasoning is present.
    BrokenChain,
    /// Reasoning is not followed by an item of the model.
    LoneReasoning,
    /// A tool call has no signature.
    UnsignedCall,
    /// A tool result is not an object.
    BareResponse,
    /// An earlier file has the same name.
    DuplicateName,
    /// Two items have the same identifier.
    DuplicateId {
        /// The identifier.
        id: String,
    },
    /// A part has a member that the provider does not know.
    UnknownMember,
    /// A text has half of a surrogate pair, which is not a character.
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
    /// A message has a part that its role may not have.
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
    /// A message loads a tool that the request does not declare.
    UnknownTool {
        /// The name.
        name: String,
    },
    /// A text has a type that its role does not allow.
    TextType,
    /// The last message is the assistant's, and the model does not continue it.
    Prefill,
    /// A cache marker has a longer lifetime than an earlier one.
    MarkerOrder,
    /// The model does not accept a part or a role.
    NotForModel,
    /// A number is outside of its range.
    OutOfRange,
    /// A member is null, which is not allowed.
    NullMember,
    /// A required member is missing.
    MissingMember,
    /// A compaction trigger is not the last item.
    TriggerPlace,
    /// A member is set together with cached content, which already has it.
    BesideCached,
    /// A compaction block is at a place where none is allowed.
    CompactionPlace,
    /// A second compaction block has content.
    SecondCompaction,
    /// The requested version of the API does not support this anymore.
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

impl fmt::Display for Problem {
    /// Describes the problem, and after `; ` the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProblemKind {
    /// Describes the problem, and after `; ` the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = |role: &Role| match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        match self {
            ProblemKind::NoMessages => f.write_str("there are no messages; send at least one"),
            ProblemKind::MissingResult { id } => {
                write!(f, "call {} has no result; add it directly after the message, or have the request repaired", short(id))
            }
            ProblemKind::OrphanResult { id } => {
                write!(f, "the result of {} has no call in the message before it; remove it", short(id))
            }
            ProblemKind::DuplicateResult { id } => write!(f, "call {} has a second result; keep only one", short(id)),
            ProblemKind::DuplicateCall { id } => {
                write!(f, "two calls have the identifier {}; give each call its own", short(id))
            }
            ProblemKind::BadId { id } => {
                write!(f, "the identifier {} is not allowed; rename it in the call and in its result", short(id))
            }
            ProblemKind::ResultsNotFirst => f.write_str("other content comes before the tool results; put the results first"),
            ProblemKind::BadArguments { id } => {
                write!(f, "the arguments of {} are not a JSON object; replace them by one", short(id))
            }
            ProblemKind::BareArguments { id } => {
                write!(f, "the arguments of {} are a JSON object instead of a string; write it as a string", short(id))
            }
            ProblemKind::BlankText => f.write_str("the text is empty or only white space; remove it"),
            ProblemKind::EmptyPart => f.write_str("the part is empty; remove it"),
            ProblemKind::EmptyContent => f.write_str("the message has no content; remove it, or add content"),
            ProblemKind::EmptyToolCalls => f.write_str("the list of tool calls is empty; remove it"),
            ProblemKind::TrailingSpace => f.write_str("the last assistant text ends in white space; trim it"),
            ProblemKind::FirstMessage { role: first } => {
                write!(f, "the first message has the role {}; begin with a user message", role(first))
            }
            ProblemKind::Alternation { role: twice } => {
                write!(f, "the message before has the role {} too; merge the two", role(twice))
            }
            ProblemKind::SystemPlace => f.write_str("a system message is not allowed here; put it after a user message"),
            ProblemKind::UnsignedReasoning => f.write_str("the reasoning has no signature; remove it"),
            ProblemKind::ChangedPrefix => {
                f.write_str("the prompt, tools or messages before the reasoning have changed; remove the reasoning")
            }
            ProblemKind::BrokenChain => f.write_str("the reasoning before it is missing; remove all reasoning before it"),
            ProblemKind::LoneReasoning => f.write_str("no item of the model follows the reasoning; remove it"),
            ProblemKind::UnsignedCall => f.write_str("the call has no signature; send the one that the model gave"),
            ProblemKind::BareResponse => f.write_str("the response is not an object; put it into one"),
            ProblemKind::DuplicateId { id } => write!(f, "two items have the identifier {}; remove one of the two", short(id)),
            ProblemKind::UnknownMember => f.write_str("the provider does not know this member; remove it"),
            ProblemKind::LoneSurrogate => f.write_str("a text has half of a surrogate pair; replace it by U+FFFD"),
            ProblemKind::LongId { id, most } => {
                write!(f,
                    "the identifier {} has more than {most} characters; shorten it in the call and in its result",
                    short(id)
                )
            }
            ProblemKind::TooManyCalls { count, most } => {
                write!(f, "{count} tool calls, but at most {most} are allowed in a message; divide them")
            }
            ProblemKind::WrongRole { role: of } => {
                write!(f, "a message with the role {} may not have this part; move it or remove it", role(of))
            }
            ProblemKind::DuplicateName => f.write_str("a file before it has the same name; rename it"),
            ProblemKind::BadName => {
                f.write_str("the name has characters that are not allowed; use letters, digits and single spaces")
            }
            ProblemKind::BadToolName { name } => {
                write!(f, "the provider does not allow the tool name {}; rename the tool", short(name))
            }
            ProblemKind::UnknownTool { name } => {
                write!(f, "the request does not declare the tool {}, which this loads; declare it", short(name))
            }
            ProblemKind::TextType => {
                f.write_str("a text has a type that its role does not allow; use output_text for the assistant, and input_text for others")
            }
            ProblemKind::Prefill => {
                f.write_str("the model does not continue the assistant's last message; end with a user message")
            }
            ProblemKind::MarkerOrder => {
                f.write_str("a cache marker before it lasts for five minutes; let this one last no longer")
            }
            ProblemKind::NotForModel => f.write_str("the model does not accept this; remove it, or use another model"),
            ProblemKind::OutOfRange => f.write_str("the number is outside of its range; set another"),
            ProblemKind::NullMember => f.write_str("the member is null; remove it"),
            ProblemKind::MissingMember => f.write_str("the member is missing; add it"),
            ProblemKind::TriggerPlace => f.write_str("the compaction trigger is not the last item; remove it, or move it"),
            ProblemKind::CompactionPlace => f.write_str("a compaction block is not allowed here; put it first, as it came"),
            ProblemKind::SecondCompaction => f.write_str("an earlier compaction block has content, too; keep only the newest"),
            ProblemKind::Unsupported => f.write_str("this version of the API does not have it anymore; remove it"),
            ProblemKind::BesideCached => f.write_str("the cached content has this already; remove it"),
            ProblemKind::ToolsNotDeclared => f.write_str("tools were used, but none are declared; declare them"),
            ProblemKind::CacheMarkers { count, most } => {
                write!(f, "{count} cache markers, but at most {most} are allowed; remove the oldest")
            }
            ProblemKind::TooMuchMedia { count, most } => {
                write!(f, "{count} pictures and files, but at most {most} are allowed; remove the oldest")
            }
            ProblemKind::TooManyPages { count, most } => {
                write!(f, "{count} pages of PDF, but at most {most} are allowed; send fewer of them")
            }
            ProblemKind::TooManyBytes { count, most } => {
                write!(f, "{count} bytes, but at most {most} are allowed; make the request smaller")
            }
            ProblemKind::TooManyMessages { count, most } => {
                write!(f, "{count} messages, but at most {most} are allowed; remove the oldest")
            }
        }
    }
}
