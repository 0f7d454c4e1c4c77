//! Sentences for people about plans, repairs and findings, from the engine's enums and their numbers.
//!
//! The command line, the gateway and the packages for other languages say the same, because they say it from here. Values
//! from outside, such as identifiers, are escaped and shortened.
//!
//! ```
//! use lookback::plan::Reason;
//! use lookback::size::Measure;
//! use lookback::words;
//!
//! let reason = Reason::Exceeded { measure: Measure::Tokens, actual: 32_411, limit: 32_000, target: 10_000 };
//! assert_eq!(words::reason(&reason), "32,411 tokens exceed the limit of 32,000; the target is 10,000");
//! ```

use std::fmt::Write as _;

use lookback_core::dialect::{Mend, Problem};
use lookback_core::edit::{Change, Edit, Hidden};
use lookback_core::message::{PartRef, Role};
use lookback_core::plan::{Action, Occasion, Reason};
use lookback_core::policy::Start;
use lookback_core::size::Excess;

use crate::memory::is_unseen;
use crate::receipt::PrefixBreak;
use crate::timeline::{Fate, RowKind};

/// Names what is done with a group, in one word.
pub fn action(action: Action) -> &'static str {
    match action {
        Action::Keep => "keep",
        Action::Truncate => "truncate",
        Action::Clear => "clear",
        Action::Summarize => "summarize",
        Action::Drop => "drop",
        _ => "unknown",
    }
}

/// Describes a compaction, and why it was made at lower limits than usual, if it was.
pub fn compaction(occasion: Option<Occasion>) -> String {
    let why = match occasion {
        None => return "compaction".to_owned(),
        Some(Occasion::Pause { millis }) => format!("cache cold after {} seconds", number(millis / 1_000)),
        Some(Occasion::Preamble) => "another system prompt, or other tools".to_owned(),
        Some(Occasion::Model) => "another model".to_owned(),
        Some(Occasion::Told) => "cache cold".to_owned(),
        Some(Occasion::Repaid { read, price }) => {
            format!("calls read {} tokens more than the target; a cut costs {}", number(read), number(price))
        }
        Some(_) => "for a reason that this version cannot describe".to_owned(),
    };
    format!("compaction ({why})")
}

/// Describes a limit that is exceeded.
pub fn excess(excess: &Excess) -> String {
    let (actual, limit) = (number(excess.actual), number(excess.limit));
    format!("{actual} {} (limit {limit})", excess.measure)
}

/// Describes why something is done with a group.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Fits => "no limit is exceeded".to_owned(),
        Reason::Pinned { pin } => format!("pinned: {pin}"),
        Reason::Recent => "recent enough".to_owned(),
        Reason::Exceeded { measure, actual, limit, target } => {
            let (actual, limit, target) = (number(*actual), number(*limit), number(*target));
            format!("{actual} {measure} exceed the limit of {limit}; the target is {target}")
        }
        Reason::Start { rule } => match rule {
            Start::Any => "a window may begin anywhere".to_owned(),
            Start::User => "a window must begin with a message from a person".to_owned(),
            Start::UserOrToolPair => "a window must begin with a message from a person or with a tool call".to_owned(),
            _ => "a window may not begin here".to_owned(),
        },
        Reason::Waits => "waits for the end of the tool loop, which contains signed reasoning".to_owned(),
        Reason::Stale => "contained only signed reasoning, which a compaction invalidates".to_owned(),
        Reason::Spent => "a note from Lookback that the model has already seen".to_owned(),
        Reason::Unlisted => "an index without names: they came back, or it had no room".to_owned(),
        Reason::Capped { shown, of } => {
            let (shown, of) = (number(*shown), number(*of));
            format!("long output truncated to {shown} of {of} characters as it arrived")
        }
        Reason::Repeated { lines: 1 } => "a line that is shown above is left out".to_owned(),
        Reason::Repeated { lines } => format!("{} lines that are shown above are left out", number(*lines)),
        Reason::Refused => "the provider refused its signed reasoning, which is left out".to_owned(),
        Reason::Erased => "its contents were erased".to_owned(),
        Reason::Repaired { why } => format!("could not be sent: {}", hidden(*why)),
        _ => "for a reason that this version cannot describe".to_owned(),
    }
}

/// Says in one word what became of a message.
pub fn fate(fate: &Fate) -> &'static str {
    match fate {
        Fate::Whole | Fate::Decided { action: Action::Keep, .. } => "kept",
        Fate::Repaired => "repaired",
        Fate::Decided { action: Action::Truncate, .. } => "truncated",
        Fate::Decided { action: Action::Clear, .. } => "cleared",
        Fate::Decided { action: Action::Summarize, .. } => "summarized",
        Fate::Decided { .. } => "dropped",
        Fate::Replaced => "replaced",
        Fate::Moved => "moved",
        Fate::Abandoned => "abandoned",
    }
}

/// Describes why that became of a message.
pub fn why(fate: &Fate) -> String {
    match fate {
        Fate::Whole => "sent as it arrived".to_owned(),
        Fate::Repaired => "a part of it could not be sent as it arrived".to_owned(),
        Fate::Decided { reason, .. } => self::reason(reason),
        Fate::Replaced => "another message took its place".to_owned(),
        Fate::Moved => "sent at another place from then on".to_owned(),
        Fate::Abandoned => "the client changed its history, and this is not in it any more".to_owned(),
    }
}

/// Names what a row of a timeline is. `None` if it is a message of the conversation.
pub fn row_kind(kind: RowKind) -> Option<&'static str> {
    match kind {
        RowKind::Message => None,
        RowKind::Aside => Some("answered by Lookback"),
        RowKind::Note => Some("note"),
        RowKind::Mend => Some("repair"),
        RowKind::Summary => Some("summary"),
        RowKind::Index => Some("index"),
    }
}

/// Describes why a request does not extend the one before it.
pub fn prefix_break(broken: PrefixBreak) -> &'static str {
    match broken {
        PrefixBreak::Branch => "a branch: the client changed its history",
        PrefixBreak::Compaction => "a compaction",
        PrefixBreak::Preamble => "another system prompt, or other tools",
        PrefixBreak::Repair => "a repair",
        PrefixBreak::Insertion => "a message was put before the end of the request",
    }
}

/// Returns an amount in US dollars: small ones with more digits.
pub fn money(dollars: f64) -> String {
    if dollars.abs() < 1.0 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

/// Describes a part that is not sent.
pub fn hidden(why: Hidden) -> &'static str {
    match why {
        Hidden::Orphan => "a tool result without a call before it",
        Hidden::Duplicate => "a second result for the same call",
        Hidden::Late => "a result that arrived after its stand-in was sent",
        Hidden::Blank => "a blank text",
        Hidden::Unsigned => "reasoning without a signature",
        Hidden::WrongRole => "a part that a message of its role may not have",
        Hidden::Stale => "signed reasoning whose prefix has changed",
        _ => "a part that this version cannot describe",
    }
}

/// Describes the repair of a message with these parts. `None` if the edit is not a repair.
pub fn repair(parts: &[PartRef<'_>], edit: &Edit) -> Option<String> {
    let id = match parts.get(edit.part) {
        Some(PartRef::ToolCall(call)) => Some(call.id.as_str()),
        Some(PartRef::ToolResult(result)) => Some(result.call_id.as_str()),
        _ => None,
    };
    let named = |before: &str, after: &str| id.map_or_else(String::new, |id| format!("{before}{}{after}", short(id)));
    match &edit.change {
        Change::Hide(why) => Some(format!("{}{} is left out", hidden(*why), named(" (", ")"))),
        Change::Rename(new) => {
            let (id, new) = (named(" ", ""), short(new));
            Some(format!("the identifier{id} is already used or not allowed: it is sent as {new}"))
        }
        Change::Arguments(_) => {
            let id = named(" of ", "");
            Some(format!("the arguments{id} are not a JSON object: they are sent inside one"))
        }
        _ => None,
    }
}

/// Names what encoding does to a message, in one word.
pub fn mended(mend: Mend) -> &'static str {
    match mend {
        Mend::Moved | Mend::ResultsFirst | Mend::SentBehindNext => "move",
        Mend::MergedWithPrevious => "merge",
        Mend::SentAsUser => "relabel",
        Mend::MarkersRemoved { .. } => "unmark",
        Mend::Removed { .. } => "remove",
        Mend::Signed => "sign",
        _ => "change",
    }
}

/// Describes what encoding does to a message, and why.
pub fn mend(mend: Mend) -> String {
    match mend {
        Mend::Moved => "the tool result does not directly follow its call: it is moved there".to_owned(),
        Mend::MergedWithPrevious => "it is merged with the message before it, which has the same role".to_owned(),
        Mend::ResultsFirst => "its tool results are moved before its other content".to_owned(),
        Mend::SentAsUser => "a system message is not allowed here: it is sent as a user message".to_owned(),
        Mend::SentBehindNext => {
            "a system message is not allowed here: it is moved behind the user message that follows".to_owned()
        }
        Mend::Removed { .. } => "the provider refuses it at this place: it is left out".to_owned(),
        Mend::MembersMended => "it has members that the provider refuses, or lacks one: they are mended".to_owned(),
        Mend::HalvesReplaced => "it has half of a surrogate pair: U+FFFD is sent in its place".to_owned(),
        Mend::Signed => "its call has no signature: it is marked so that the provider does not check it".to_owned(),
        Mend::MarkersRemoved { count: 1 } => "one cache marker too many: it is removed".to_owned(),
        Mend::MarkersRemoved { count } => format!("{count} cache markers too many: they are removed"),
        _ => "it is changed when it is sent".to_owned(),
    }
}

/// Describes a problem and what to do about it. The two are separated by `; `.
pub fn problem(problem: &Problem) -> String {
    let role = |role: &Role| match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    match problem {
        Problem::NoMessages => "there are no messages; send at least one".to_owned(),
        Problem::MissingResult { id } => {
            format!("call {} has no result; add it directly after the message, or have the request repaired", short(id))
        }
        Problem::OrphanResult { id } => {
            format!("the result of {} has no call in the message before it; remove it", short(id))
        }
        Problem::DuplicateResult { id } => format!("call {} has a second result; keep only one", short(id)),
        Problem::DuplicateCall { id } => {
            format!("two calls have the identifier {}; give each call its own", short(id))
        }
        Problem::BadId { id } => {
            format!("the identifier {} is not allowed; rename it in the call and in its result", short(id))
        }
        Problem::ResultsNotFirst => "other content comes before the tool results; put the results first".to_owned(),
        Problem::BadArguments { id } => {
            format!("the arguments of {} are not a JSON object; replace them by one", short(id))
        }
        Problem::BareArguments { id } => {
            format!("the arguments of {} are a JSON object instead of a string; write it as a string", short(id))
        }
        Problem::BlankText => "the text is empty or only white space; remove it".to_owned(),
        Problem::EmptyPart => "the part is empty; remove it".to_owned(),
        Problem::EmptyContent => "the message has no content; remove it, or add content".to_owned(),
        Problem::EmptyToolCalls => "the list of tool calls is empty; remove it".to_owned(),
        Problem::TrailingSpace => "the last assistant text ends in white space; trim it".to_owned(),
        Problem::FirstMessage { role: first } => {
            format!("the first message has the role {}; begin with a user message", role(first))
        }
        Problem::Alternation { role: twice } => {
            format!("the message before has the role {} too; merge the two", role(twice))
        }
        Problem::SystemPlace => "a system message is not allowed here; put it after a user message".to_owned(),
        Problem::UnsignedReasoning => "the reasoning has no signature; remove it".to_owned(),
        Problem::ChangedPrefix => {
            "what stands before the reasoning has changed since the last request; remove the reasoning".to_owned()
        }
        Problem::BrokenChain => "the reasoning before it is missing; remove all reasoning before it".to_owned(),
        Problem::LoneReasoning => "nothing of the model follows the reasoning; remove it".to_owned(),
        Problem::UnsignedCall => "the call has no signature; send the one that the model gave".to_owned(),
        Problem::BareResponse => "the response is not an object; put it into one".to_owned(),
        Problem::DuplicateId { id } => format!("two items have the identifier {}; remove one of the two", short(id)),
        Problem::UnknownMember => "the provider does not know this member; remove it".to_owned(),
        Problem::LoneSurrogate => "a text has half of a surrogate pair; replace it by U+FFFD".to_owned(),
        Problem::LongId { id, most } => {
            format!(
                "the identifier {} has more than {most} characters; shorten it in the call and in its result",
                short(id)
            )
        }
        Problem::TooManyCalls { count, most } => {
            format!("{count} tool calls, but at most {most} are allowed in a message; divide them")
        }
        Problem::WrongRole { role: of } => {
            format!("a message with the role {} may not have this part; move it or remove it", role(of))
        }
        Problem::DuplicateName => "a file before it has the same name; rename it".to_owned(),
        Problem::BadName => {
            "the name has characters that are not allowed; use letters, digits and single spaces".to_owned()
        }
        Problem::BadToolName { name } => {
            format!("the provider does not allow the tool name {}; rename the tool", short(name))
        }
        Problem::TextType => {
            "a text has a type that its role does not allow; use output_text for the assistant, and input_text for others"
                .to_owned()
        }
        Problem::Prefill => {
            "the model does not continue the assistant's last message; end with a user message".to_owned()
        }
        Problem::MarkerOrder => {
            "a cache marker before it lasts for five minutes; let this one last no longer".to_owned()
        }
        Problem::NotForModel => "the model does not accept this; remove it, or use another model".to_owned(),
        Problem::OutOfRange => "the number is outside of its range; set another".to_owned(),
        Problem::NullMember => "the member is null; remove it".to_owned(),
        Problem::MissingMember => "the member is missing; add it".to_owned(),
        Problem::TriggerPlace => "the compaction trigger is not the last item; remove it, or move it".to_owned(),
        Problem::CompactionPlace => "a compaction block is not allowed here; put it first, as it came".to_owned(),
        Problem::SecondCompaction => "an earlier compaction block has content, too; keep only the newest".to_owned(),
        Problem::Unsupported => "this version of the API does not have it anymore; remove it".to_owned(),
        Problem::BesideCached => "the cached content has this already; remove it".to_owned(),
        Problem::ToolsNotDeclared => "tools were used, but none are declared; declare them".to_owned(),
        Problem::CacheMarkers { count, most } => {
            format!("{count} cache markers, but at most {most} are allowed; remove the oldest")
        }
        Problem::TooMuchMedia { count, most } => {
            format!("{count} pictures and files, but at most {most} are allowed; remove the oldest")
        }
        Problem::TooManyPages { count, most } => {
            format!("{count} pages of PDF, but at most {most} are allowed; send fewer of them")
        }
        Problem::TooManyBytes { count, most } => {
            format!("{count} bytes, but at most {most} are allowed; make the request smaller")
        }
        Problem::TooManyMessages { count, most } => {
            format!("{count} messages, but at most {most} are allowed; remove the oldest")
        }
        _ => "the rule is broken; `lookback rules` describes it".to_owned(),
    }
}

/// Returns an identifier for display. Clients choose identifiers, so they may be long and contain anything.
pub fn short(id: &str) -> String {
    cut(id, 48)
}

/// Returns names for display. They may be longer than identifiers, because users have to repeat them.
pub fn names(names: &[String]) -> String {
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

/// Escapes the characters that control a terminal or are invisible, in the same way as on a fact sheet.
pub fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            // Writing to memory does not fail.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(escaped, "\\u{unit:04x}"));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns a number with thousands separators.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}
