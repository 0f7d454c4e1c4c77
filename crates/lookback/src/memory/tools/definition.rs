//! The tools of a memory as they are told to a model: names, descriptions and the shapes of their arguments, in one table.

use serde_json::{Value, json};

use crate::memory::Statement;

/// A tool, as it is told to a model and as its arguments are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) parameters: &'static [Parameter],
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
    /// Taken where a model was taught another system's tools, and not told to those that were not.
    Untold,
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text of at most so many characters, not blank.
    Text(usize),
    /// A list of names; one alone is a list too.
    Names,
    /// A fact's identifier.
    Id,
    /// A list of facts' identifiers; one alone is a list too.
    Ids,
    /// A number from 0 to 1.
    Share,
    /// A whole number within these bounds.
    Count(u64, u64),
    /// Whatever it is, it is passed over.
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
/// Positions and offsets, as far as every JSON parser reads them exactly.
const FAR: u64 = (1 << 53) - 1;

const TEXT: Shape = Shape::Text(Statement::LONGEST);
const NAME: Shape = Shape::Text(Statement::LONGEST_NAME);
const CONTENT: Parameter = required("content", TEXT, "What is so, in one sentence that can be understood alone.");
const ABOUT: Parameter = optional(
    "about",
    NAME,
    "What it is about, such as `the service's port`. The next of its kind about the same thing takes its place.",
);
const TAGS: Parameter = optional("tags", Shape::Names, "Words to find it by.");
const SUPERSEDES: Parameter =
    optional("supersedes", Shape::Ids, "The facts that are true no longer and whose place it takes, such as [\"f3\"].");
/// There is one session, and a memory knows which.
const SESSION: Parameter = untold("sessionId", Shape::Ignored);

impl Definition {
    /// All of them, in the order in which they are told.
    pub(super) const ALL: [Definition; 10] = [
        Definition {
            name: "memory_finding",
            description: "Remember something that you found out in this session, with how sure it is.",
            parameters: &[
                CONTENT,
                required("confidence", Shape::Share, "How sure it is, from 0 (a guess) to 1 (seen for yourself)."),
                ABOUT,
                optional(
                    "source",
                    NAME,
                    "Who says so: `model` (you; the default), or `tool:NAME` for what a tool said.",
                ),
                TAGS,
                SUPERSEDES,
                untold("sources", Shape::Names),
                SESSION,
            ],
        },
        Definition {
            name: "memory_blocker",
            description: "Remember what stands in the way (content), or say that a blocker is resolved (resolves, with).",
            parameters: &[
                optional("content", TEXT, "What stands in the way, in one sentence that can be understood alone."),
                ABOUT,
                TAGS,
                SUPERSEDES,
                optional("resolves", Shape::Id, "The blocker that stands in the way no longer, such as f4."),
                optional("with", TEXT, "What resolved it."),
                untold("taskId", NAME),
                SESSION,
            ],
        },
        Definition {
            name: "memory_correction",
            description: "Remember that something believed before is wrong, and what is so instead. Never lost from the fact sheet.",
            parameters: &[CONTENT, SUPERSEDES, ABOUT, untold("invalidates", Shape::Ids), SESSION],
        },
        Definition {
            name: "memory_preference",
            description: "Remember how someone wants things done. All sessions of the workspace know it.",
            parameters: &[CONTENT, ABOUT, TAGS, SUPERSEDES, SESSION],
        },
        Definition {
            name: "memory_constraint",
            description: "Remember what must hold whatever is done. All sessions of the workspace know it.",
            parameters: &[CONTENT, ABOUT, TAGS, SUPERSEDES, SESSION],
        },
        Definition {
            name: "memory_decision",
            description: "Remember what was decided in this session, and why.",
            parameters: &[CONTENT, ABOUT, TAGS, SUPERSEDES, SESSION],
        },
        Definition {
            name: "memory_get",
            description: "All facts that stand, by kind; or one of them with its history.",
            parameters: &[optional("id", Shape::Id, "The fact, such as f3. Without it: all that stand."), SESSION],
        },
        Definition {
            name: "memory_forget",
            description: "Show a fact no more, since it should never have been remembered. For what has changed, state what is so now.",
            parameters: &[
                required("id", Shape::Id, "The fact, such as f3."),
                optional("reason", TEXT, "Why."),
                SESSION,
            ],
        },
        Definition {
            name: "memory_search",
            description: "The facts that hold every word of a query, the newest first.",
            parameters: &[
                required("query", Shape::Text(LONGEST_QUERY), "Words, all of which the fact must have."),
                optional("limit", Shape::Count(1, 50), "The most facts; 10 if not given."),
                SESSION,
            ],
        },
        Definition {
            name: "recall",
            description: "Read what has left this conversation's window: search it (query), read messages (from, to), or read one message \
                          in full (entry), such as one that was cut. Messages are named by the number behind #.",
            parameters: &[
                optional("query", Shape::Text(LONGEST_QUERY), "Words, all of which the message must have."),
                optional("from", Shape::Count(0, FAR), "The first message's number."),
                optional("to", Shape::Count(0, FAR), "The last message's number; the same as `from` if not given."),
                optional("entry", Shape::Count(0, FAR), "The number of one message to read in full."),
                optional("limit", Shape::Count(1, FAR), "The most characters of an entry, or the most messages."),
                optional("offset", Shape::Count(0, FAR), "Characters of the entry, or messages found, to pass over."),
                SESSION,
            ],
        },
    ];

    /// The tool of a name.
    pub(super) fn of(name: &str) -> Option<&'static Definition> {
        const ALL: &[Definition] = &Definition::ALL;
        ALL.iter().find(|definition| definition.name == name)
    }

    /// The JSON Schema of its arguments.
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
