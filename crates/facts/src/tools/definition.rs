//! The tools of a memory in one table: names, descriptions and arguments.

use serde_json::{Value, json};

use super::RECALL;
use crate::{FactKind, Statement};

/// A tool: its description for the model, and its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) action: Action,
    pub(super) description: &'static str,
    pub(super) parameters: &'static [Parameter],
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    StateFinding,
    /// States a blocker, or resolves one.
    Block,
    State(FactKind),
    Get,
    Forget,
    Search,
    Recall,
}

impl Action {
    /// Returns whether it changes nothing.
    pub(super) fn only_reads(self) -> bool {
        match self {
            Action::Get | Action::Search | Action::Recall => true,
            Action::StateFinding | Action::Block | Action::State(_) | Action::Forget => false,
        }
    }
}

/// One argument of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) need: Need,
    pub(super) description: &'static str,
}

/// Whether an argument must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
    // Accepted from models that know another system's tools, but not described.
    Untold,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text of at most this many characters, which is not blank.
    Text(usize),
    /// A list of names. One name alone is a list, too.
    Names,
    /// A fact's identifier.
    Id,
    /// A list of facts' identifiers. One identifier alone is a list, too.
    Ids,
    /// A number from 0 to 1.
    Share,
    /// A whole number in this range.
    Count(u64, u64),
    /// Anything. It is ignored.
    Ignored,
}

impl Shape {
    pub(super) fn schema(self) -> Value {
        const ID: &str = "^[fs][0-9]+$";
        match self {
            Shape::Text(most) => json!({"type": "string", "maxLength": most}),
            Shape::Names => json!({"type": "array", "items": {"type": "string"}, "maxItems": Statement::MOST}),
            Shape::Id => json!({"type": "string", "pattern": ID}),
            Shape::Ids => {
                json!({"type": "array", "items": {"type": "string", "pattern": ID}, "maxItems": Statement::MOST})
            }
            Shape::Share => json!({"type": "number", "minimum": 0, "maximum": 1}),
            Shape::Count(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Shape::Ignored => json!({}),
        }
    }
}

const fn required(name: &'static str, shape: Shape, description: &'static str) -> Parameter {
    Parameter { name, shape, need: Need::Required, description }
}

const fn optional(name: &'static str, shape: Shape, description: &'static str) -> Parameter {
    Parameter { name, shape, need: Need::Optional, description }
}

const fn untold(name: &'static str, shape: Shape) -> Parameter {
    Parameter { name, shape, need: Need::Untold, description: "" }
}

/// The most characters of a query.
const LONGEST_QUERY: usize = 500;
/// The largest position or offset: every JSON parser reads integers up to it exactly.
const FAR: u64 = (1 << 53) - 1;

const TEXT: Shape = Shape::Text(Statement::LONGEST);
const NAME: Shape = Shape::Text(Statement::LONGEST_NAME);
const CONTENT: Parameter = required("content", TEXT, "The fact, in one sentence that can be understood on its own.");
const ABOUT: Parameter = optional(
    "about",
    NAME,
    "What the fact is about, such as `the service's port`. \
     The next fact of this kind about the same thing replaces it.",
);
const TAGS: Parameter = optional("tags", Shape::Names, "Words to find the fact by.");
const SUPERSEDES: Parameter =
    optional("supersedes", Shape::Ids, "Facts that are no longer true and that this one replaces, such as [\"f3\"].");
const SPEAKER: Parameter =
    optional("speaker", NAME, "With `query`: who said it: user, assistant, system, tool, or a name.");
const SINCE: Parameter =
    optional("since", NAME, "With `query`: the first day (2026-11-22) or time (2026-11-22T10:00:00Z).");
const UNTIL: Parameter = optional("until", NAME, "With `query`: the last day or time.");
/// Ignored, because a memory belongs to one session.
const SESSION: Parameter = untold("sessionId", Shape::Ignored);

impl Definition {
    /// All tools, in the order in which a model sees them.
    pub(super) const ALL: [Definition; 10] = [
        Definition {
            name: "memory_finding",
            action: Action::StateFinding,
            description: "Remember something that you found out in this session, and how certain it is.",
            parameters: &[
                CONTENT,
                required("confidence", Shape::Share, "How certain it is, from 0 (a guess) to 1 (you saw it yourself)."),
                ABOUT,
                optional("source", NAME, "Who says it: `model` (you, the default), or `tool:NAME` if a tool said it."),
                TAGS,
                SUPERSEDES,
                untold("sources", Shape::Names),
                SESSION,
            ],
        },
        Definition {
            name: "memory_blocker",
            action: Action::Block,
            description: "Remember something that blocks your work (content), \
                          or report that a blocker is resolved (resolves, with).",
            parameters: &[
                optional("content", TEXT, "What blocks your work, in one sentence that can be understood on its own."),
                ABOUT,
                TAGS,
                SUPERSEDES,
                optional("resolves", Shape::Id, "The blocker that is resolved, such as f4."),
                optional("with", TEXT, "What resolved the blocker."),
                untold("taskId", NAME),
                SESSION,
            ],
        },
        Definition {
            name: "memory_correction",
            action: Action::State(FactKind::Correction),
            description: "Remember that an earlier belief was wrong, and what is true instead. \
                          The fact sheet shows corrections before all other facts.",
            parameters: &[CONTENT, SUPERSEDES, ABOUT, untold("invalidates", Shape::Ids), SESSION],
        },
        Definition {
            name: "memory_preference",
            action: Action::State(FactKind::Preference),
            description: "Remember how someone wants things done. Shared with all sessions of the workspace.",
            parameters: &[CONTENT, ABOUT, TAGS, SUPERSEDES, SESSION],
        },
        Definition {
            name: "memory_constraint",
            action: Action::State(FactKind::Constraint),
            description: "Remember a rule that must never be broken. Shared with all sessions of the workspace.",
            parameters: &[CONTENT, ABOUT, TAGS, SUPERSEDES, SESSION],
        },
        Definition {
            name: "memory_decision",
            action: Action::State(FactKind::Decision),
            description: "Remember what was decided in this session, and why.",
            parameters: &[CONTENT, ABOUT, TAGS, SUPERSEDES, SESSION],
        },
        Definition {
            name: "memory_get",
            action: Action::Get,
            description: "Read all current facts, by kind, or one fact with its history.",
            parameters: &[
                optional("id", Shape::Id, "The fact to read, such as f3. If not given: all current facts."),
                SESSION,
            ],
        },
        Definition {
            name: "memory_forget",
            action: Action::Forget,
            description: "Remove a fact that should never have been remembered. \
                          If something has changed, state the new fact instead.",
            parameters: &[
                required("id", Shape::Id, "The fact to remove, such as f3."),
                optional("reason", TEXT, "Why it should be removed."),
                SESSION,
            ],
        },
        Definition {
            name: "memory_search",
            action: Action::Search,
            description: "Find the facts that have words of a query in any form, the best first.",
            parameters: &[
                required(
                    "query",
                    Shape::Text(LONGEST_QUERY),
                    "Words to look for; a phrase in quotation marks is found word for word.",
                ),
                SPEAKER,
                SINCE,
                UNTIL,
                optional("limit", Shape::Count(1, 50), "The most facts to return; 10 if not given."),
                SESSION,
            ],
        },
        Definition {
            name: RECALL,
            action: Action::Recall,
            description: "Read earlier messages of this conversation that you no longer see: search them (query), \
                          read a range (from, to), or read one (entry), for example one that was shortened. With \
                          entry and query, read the part of one message around the words. The number after # names \
                          a message.",
            parameters: &[
                optional(
                    "query",
                    Shape::Text(LONGEST_QUERY),
                    "Words to look for, such as a question; a phrase in quotation marks is found word for word.",
                ),
                SPEAKER,
                SINCE,
                UNTIL,
                optional("from", Shape::Count(0, FAR), "The number of the first message."),
                optional(
                    "to",
                    Shape::Count(0, FAR),
                    "The number of the last message; the same as `from` if not given.",
                ),
                optional(
                    "entry",
                    Shape::Count(0, FAR),
                    "The number of the message to read: in full, or with `query` around its words.",
                ),
                optional(
                    "limit",
                    Shape::Count(1, FAR),
                    "With `entry`: the most characters. Otherwise: the most messages.",
                ),
                optional(
                    "offset",
                    Shape::Count(0, FAR),
                    "With `entry`: how many characters to skip. With `query`: how many messages to skip.",
                ),
                SESSION,
            ],
        },
    ];

    /// Returns the tool with a name.
    pub(super) fn find(name: &str) -> Option<&'static Definition> {
        const ALL: &[Definition] = &Definition::ALL;
        ALL.iter().find(|definition| definition.name == name)
    }

    /// Returns the JSON Schema of the arguments.
    pub(super) fn schema(&self) -> Value {
        let told = || self.parameters.iter().filter(|parameter| parameter.need != Need::Untold);
        let property = |parameter: &Parameter| {
            let mut schema = parameter.shape.schema();
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), parameter.description.into());
            }
            (parameter.name.to_owned(), schema)
        };
        let properties: serde_json::Map<_, _> = told().map(property).collect();
        let required: Vec<_> = told().filter(|parameter| parameter.need == Need::Required).map(|it| it.name).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}
