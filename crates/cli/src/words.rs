//! Sentences for people, made from the engine's enums and their numbers.

use lookback::cut::{Change, Edit, Hidden};
use lookback::dialect::{Mend, Problem};
use lookback::message::{PartRef, Role};
use lookback::plan::{Action, Reason};
use lookback::policy::{Excess, Start};

use crate::output::{number, plain};

pub(crate) fn action(action: Action) -> &'static str {
    match action {
        Action::Keep => "keep",
        Action::Truncate => "truncate",
        Action::Clear => "clear",
        Action::Summarize => "summarize",
        Action::Drop => "drop",
    }
}

pub(crate) fn excess(excess: &Excess) -> String {
    let (actual, limit) = (number(excess.actual), number(excess.limit));
    format!("{actual} {} where {limit} may be", excess.measure)
}

pub(crate) fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Fits => "no limit is exceeded".to_owned(),
        Reason::Pinned { pin } => format!("pinned: {pin}"),
        Reason::Recent => "recent enough".to_owned(),
        Reason::Exceeded { measure, actual, limit, target } => {
            let (actual, limit, target) = (number(*actual), number(*limit), number(*target));
            format!("{actual} {measure} exceeded {limit}; cut to {target}")
        }
        Reason::Start { rule } => match rule {
            Start::Any => "a window may begin anywhere".to_owned(),
            Start::User => "a window begins with a message of a person".to_owned(),
            Start::UserOrToolPair => "a window begins with a message of a person, or a tool call".to_owned(),
        },
        Reason::Waits => "waits for the end of a tool loop with signed reasoning".to_owned(),
        Reason::Stale => "held nothing but signed reasoning, which a compaction makes stale".to_owned(),
        Reason::Spent => "a note of lookback's that the model has seen".to_owned(),
        Reason::Capped => "long output cut as it arrived".to_owned(),
        Reason::Repaired { why } => format!("could not be sent: {}", hidden(*why)),
    }
}

pub(crate) fn hidden(why: Hidden) -> &'static str {
    match why {
        Hidden::Orphan => "a tool result that answers no call before it",
        Hidden::Duplicate => "a second result of the same call",
        Hidden::Late => "a result that came after a stand-in for it was sent",
        Hidden::Blank => "a text without any words",
        Hidden::Unsigned => "reasoning without a signature",
        Hidden::Stale => "signed reasoning whose prefix has changed",
    }
}

/// What was done to a message of these parts so that it could be sent; nothing for what is no repair.
pub(crate) fn repair(parts: &[PartRef<'_>], edit: &Edit) -> Option<String> {
    let id = match parts.get(edit.part) {
        Some(PartRef::ToolCall(call)) => Some(call.id.as_str()),
        Some(PartRef::ToolResult(result)) => Some(result.call_id.as_str()),
        _ => None,
    };
    let named = id.map(|id| format!(" ({})", short(id))).unwrap_or_default();
    match &edit.change {
        Change::Hide(why) => Some(format!("{}{named} is left out", hidden(*why))),
        Change::Rename(new) => Some(format!("identifier{named} is taken or not allowed; it is sent as {}", short(new))),
        Change::Arguments(_) => Some(format!("arguments{named} are not a JSON object; they are sent in one")),
        Change::Cut { .. } => None,
    }
}

/// What is done to a message as it is sent, in a word.
pub(crate) fn mended(mend: Mend) -> &'static str {
    match mend {
        Mend::Moved | Mend::ResultsFirst | Mend::SentBehindNext => "move",
        Mend::MergedWithPrevious => "merge",
        Mend::SentAsUser => "relabel",
        Mend::MarkersRemoved { .. } => "unmark",
        _ => "change",
    }
}

/// What is done to a message as it is sent, and why.
pub(crate) fn mend(mend: Mend) -> String {
    match mend {
        Mend::Moved => "a tool result that does not stand right behind its call is sent there".to_owned(),
        Mend::MergedWithPrevious => "it is sent as one message with the one before it, of the same role".to_owned(),
        Mend::ResultsFirst => "its tool results are sent before the other content, which stood before them".to_owned(),
        Mend::SentAsUser => "a system message may not stand here: it is sent as a user's".to_owned(),
        Mend::SentBehindNext => {
            "a system message may not stand here: it is sent behind the user's message that follows".to_owned()
        }
        Mend::MarkersRemoved { count: 1 } => "a cache marker more than may be is taken out".to_owned(),
        Mend::MarkersRemoved { count } => format!("{count} cache markers more than may be are taken out"),
        _ => "it is changed as it is sent".to_owned(),
    }
}

/// What is wrong, and what to do.
pub(crate) fn problem(problem: &Problem) -> String {
    let role = |role: &Role| match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    match problem {
        Problem::NoMessages => "there are no messages; send at least one".to_owned(),
        Problem::MissingResult { id } => {
            format!("call {} has no result; add it right behind the message, or run with --fix", short(id))
        }
        Problem::OrphanResult { id } => {
            format!("result of {} answers no call of the message before it; remove it", short(id))
        }
        Problem::DuplicateResult { id } => format!("call {} is answered a second time; keep one result", short(id)),
        Problem::DuplicateCall { id } => format!("identifier {} stands for two calls; give each its own", short(id)),
        Problem::BadId { id } => {
            format!("identifier {} has characters that are not allowed; rename it in call and result", short(id))
        }
        Problem::ResultsNotFirst => "other content stands before tool results; put the results first".to_owned(),
        Problem::BadArguments { id } => format!("arguments of {} are not a JSON object; mend them", short(id)),
        Problem::BlankText => "text is empty or all white space; remove it".to_owned(),
        Problem::EmptyContent => "message has no content; remove it, or say something".to_owned(),
        Problem::EmptyToolCalls => "list of calls is empty; leave it out".to_owned(),
        Problem::TrailingSpace => "last assistant text ends in white space; trim it".to_owned(),
        Problem::FirstMessage { role: first } => format!("first message is the {}'s; begin with a user's", role(first)),
        Problem::Alternation { role: twice } => {
            format!("second {} message in a row; merge it with the one before", role(twice))
        }
        Problem::SystemPlace => "a system message may not stand here; put it behind a user's".to_owned(),
        Problem::UnsignedReasoning => "reasoning has no signature; remove it".to_owned(),
        Problem::ToolsNotDeclared => "tools were used, but none are declared; declare them".to_owned(),
        Problem::CacheMarkers { count, most } => {
            format!("{count} cache markers where {most} may be; remove the oldest")
        }
        Problem::TooMuchMedia { count, most } => {
            format!("{count} pictures and files where {most} may be; remove the oldest")
        }
        Problem::TooManyBytes { count, most } => format!("{count} bytes where {most} may be; make it smaller"),
        Problem::TooManyMessages { count, most } => format!("{count} messages where {most} may be; make it shorter"),
        _ => "the rule is broken; `lookback rules` tells more of it".to_owned(),
    }
}

/// An identifier as it can be shown: clients choose them, so they may be long, and hold anything.
pub(crate) fn short(id: &str) -> String {
    cut(id, 48)
}

/// Names that one has to repeat, as they can be shown: longer, and not too many of them.
pub(crate) fn names(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown = names.iter().take(MOST).map(|name| cut(name, 200)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn cut(text: &str, most: usize) -> String {
    let end = if text.chars().nth(most).is_some() { "..." } else { "" };
    format!("`{}{end}`", plain(&text.chars().take(most).collect::<String>()))
}
