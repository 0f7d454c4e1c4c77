//! Detects the dialect of messages from features that only one dialect has.

mod anthropic;
mod bedrock;
mod gemini;
mod openai_chat;
mod openai_responses;

use std::fmt;

use serde_json::value::RawValue;

pub(super) use self::anthropic::SIGNS as ANTHROPIC;
pub(super) use self::bedrock::SIGNS as BEDROCK;
pub(super) use self::gemini::SIGNS as GEMINI;
pub(super) use self::openai_chat::SIGNS as OPENAI_CHAT;
pub(super) use self::openai_responses::SIGNS as OPENAI_RESPONSES;
use super::Dialect;
use crate::cache_marker;
use lookback_content::json::{self, Fields};

/// A feature of a conversation that shows its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Clue {
    /// The dialect.
    pub dialect: Dialect,
    /// The index of the message that has it, or `None` if it is a member of the body.
    pub message: Option<usize>,
    /// The feature.
    pub(super) sign: Sign,
}

/// A feature that shows a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// A member of the object that has the messages.
    Beside(&'static str),
    /// The role of a message.
    Role(&'static str),
    /// A member of a message, other than its role and content.
    Member(&'static str),
    /// A block of the content with this `type`.
    Block(&'static str),
    /// An item of this `type`, which is not a message with a role.
    Item(&'static str),
    /// A block of the content without a `type`.
    Untyped,
    /// A thinking block with a signature.
    SignedThinking,
    /// A thinking block without a signature. This is only a hint: servers of OpenAI's format send such blocks too.
    Thinking,
    /// A cache marker in a block. This is only a hint: gateways accept it in OpenAI's format too.
    CacheMarker,
}

impl Sign {
    /// Returns whether the sign is conclusive. A hint counts only if no sign is conclusive.
    fn is_sure(self) -> bool {
        // OpenAI's Responses also have these roles and blocks, and any server may give its models such names.
        let hints = [Sign::Role("developer"), Sign::Role("system"), Sign::Block("refusal"), Sign::Beside("model")];
        !matches!(self, Sign::Thinking | Sign::CacheMarker) && !hints.contains(&self)
    }
}

/// The features that only one dialect has. Each dialect has an entry.
pub(super) struct Signs {
    /// Finds one in a request body.
    pub(super) in_body: fn(&Fields<'_>) -> Option<Sign>,
    /// Finds one in a message, apart from its content.
    pub(super) in_message: fn(&Fields<'_>) -> Option<Sign>,
    /// Finds one in a content block.
    pub(super) in_block: fn(&Fields<'_>) -> Option<Sign>,
}

/// Returns the first of these members that a body has.
fn any(body: &Fields<'_>, keys: &[&'static str]) -> Option<Sign> {
    keys.iter().copied().find(|key| has(body, key)).map(Sign::Beside)
}

/// Returns whether a body has a member other than `null`.
fn has(body: &Fields<'_>, key: &str) -> bool {
    body.get(key).is_some_and(|value| value.get() != "null")
}

/// Returns whether a tool in a body has this member.
fn has_tool_with(body: &Fields<'_>, key: &str) -> bool {
    let tools = body.get("tools").and_then(json::array).unwrap_or_default();
    tools.into_iter().filter_map(Fields::read).any(|tool| tool.get(key).is_some())
}

/// Returns the type of a block, if it is one of these.
fn block(block: &Fields<'_>, kinds: &[&'static str]) -> Option<Sign> {
    let kind = block.text("type")?;
    kinds.iter().copied().find(|known| *known == kind).map(Sign::Block)
}

/// An error about a conversation that is in two dialects at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{first}, and {other}")]
#[non_exhaustive]
pub struct Contradiction {
    /// The clue that came first.
    pub first: Clue,
    /// The first clue to another dialect.
    pub other: Clue,
}

impl fmt::Display for Clue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clue { dialect, message, sign } = self;
        match message {
            Some(index) => write!(f, "messages[{index}] has {sign}, as in {dialect}"),
            None => write!(f, "the body has {sign}, as in {dialect}"),
        }
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sign::Beside(member) | Sign::Member(member) => write!(f, "`{member}`"),
            Sign::Role(role) => write!(f, "the role `{role}`"),
            Sign::Block(kind) => write!(f, "a block `{kind}`"),
            Sign::Item(kind) => write!(f, "an item `{kind}`"),
            Sign::Untyped => f.write_str("a block without `type`"),
            Sign::SignedThinking => f.write_str("signed thinking"),
            Sign::Thinking => f.write_str("thinking"),
            Sign::CacheMarker => write!(f, "`{}`", cache_marker::MEMBER),
        }
    }
}

impl Dialect {
    /// Detects the dialect of a conversation.
    ///
    /// Returns the clue that shows the dialect, or `None` if there is none, as in plain text. `beside` is the object
    /// that has the messages, if any. Its keys are clues, too.
    ///
    /// # Errors
    /// Returns an error if there are clues to two dialects.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    /// use serde_json::value::RawValue;
    ///
    /// let list = r#"[{"role":"user","content":"Hi"},{"role":"user","content":[{"text":"Hi"}]}]"#;
    /// let messages: Vec<&RawValue> = serde_json::from_str(list)?;
    /// let clue = Dialect::detect(None, messages)?.unwrap();
    /// assert_eq!(clue.to_string(), "messages[1] has a block without `type`, as in bedrock");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detect<'a>(
        beside: Option<&RawValue>,
        messages: impl IntoIterator<Item = &'a RawValue>,
    ) -> Result<Option<Clue>, Contradiction> {
        let beside = beside.and_then(Fields::read);
        let clues: Vec<Clue> = clues(beside.as_ref(), messages).collect();
        let Some(first) = first(clues.iter().copied()) else { return Ok(None) };
        match clues.into_iter().find(|clue| clue.sign.is_sure() && clue.dialect != first.dialect) {
            Some(other) => Err(Contradiction { first, other }),
            None => Ok(Some(first)),
        }
    }
}

/// Returns the first conclusive clue, or else the first hint.
pub(super) fn first(clues: impl IntoIterator<Item = Clue>) -> Option<Clue> {
    let mut hint = None;
    for clue in clues {
        if clue.sign.is_sure() {
            return Some(clue);
        }
        hint = hint.or(Some(clue));
    }
    hint
}

/// Returns the clues: first those in the body, then at most one per message.
pub(super) fn clues<'a>(
    beside: Option<&Fields<'_>>,
    messages: impl IntoIterator<Item = &'a RawValue>,
) -> impl Iterator<Item = Clue> {
    let of_message = |(index, message): (usize, &'a RawValue)| {
        let (dialect, sign) = in_message(&Fields::read(message)?)?;
        Some(Clue { dialect, message: Some(index), sign })
    };
    let beside = beside.and_then(|body| seen(|signs| (signs.in_body)(body)));
    let beside = beside.map(|(dialect, sign)| Clue { dialect, message: None, sign });
    beside.into_iter().chain(messages.into_iter().enumerate().filter_map(of_message))
}

/// The dialects in the order in which their signs are looked for: OpenAI's chat format comes last, because other
/// servers accept most of it.
const ORDER: [Dialect; Dialect::ALL.len()] =
    [Dialect::OpenAiResponses, Dialect::Gemini, Dialect::Bedrock, Dialect::Anthropic, Dialect::OpenAiChat];

/// Returns the first conclusive sign that a dialect finds, or else the first hint.
fn seen(find: impl Fn(&Signs) -> Option<Sign>) -> Option<(Dialect, Sign)> {
    let found = ORDER.into_iter().filter_map(|dialect| Some((dialect, find(dialect.format().signs)?)));
    sure(found)
}

/// Returns the first conclusive sign, or else the first hint.
fn sure(found: impl Iterator<Item = (Dialect, Sign)>) -> Option<(Dialect, Sign)> {
    let mut hint = None;
    for (dialect, sign) in found {
        if sign.is_sure() {
            return Some((dialect, sign));
        }
        hint = hint.or(Some((dialect, sign)));
    }
    hint
}

fn in_message(message: &Fields<'_>) -> Option<(Dialect, Sign)> {
    let found = seen(|signs| (signs.in_message)(message));
    if found.is_some_and(|(_, sign)| sign.is_sure()) {
        return found;
    }
    message.text("role")?;
    let blocks = message.get("content").and_then(json::array).into_iter().flatten().filter_map(Fields::read);
    sure(found.into_iter().chain(blocks.filter_map(|block| seen(|signs| (signs.in_block)(&block)))))
}
