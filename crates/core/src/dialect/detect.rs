//! Which dialect messages are in, told by what only one of them has.

use std::fmt;

use serde_json::value::RawValue;

use super::{Dialect, cache};
use crate::json::{self, Fields};

/// Something in a conversation that only one dialect has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Clue {
    /// The dialect.
    pub dialect: Dialect,
    /// Index of the message that has it; `None` where it stands beside the messages.
    pub message: Option<usize>,
    /// What it is.
    pub sign: Sign,
}

/// What a dialect is told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sign {
    /// A member beside the messages.
    Beside(&'static str),
    /// The role of a message.
    Role(&'static str),
    /// A member of a message beside its role and content.
    Member(&'static str),
    /// A block of the content, by its `type`.
    Block(&'static str),
    /// A block of the content without a `type`.
    Untyped,
    /// A block of thinking with a signature.
    SignedThinking,
    /// A block of thinking without one. A hint only: other servers of OpenAI's format send such blocks, too.
    Thinking,
    /// A cache marker in a block. A hint only: gateways take it in OpenAI's format, too.
    CacheMarker,
}

impl Sign {
    /// Whether it decides alone. A hint counts only where nothing else tells.
    fn is_sure(self) -> bool {
        !matches!(self, Sign::Thinking | Sign::CacheMarker)
    }
}

/// A conversation that is in two dialects at once.
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
            None => write!(f, "beside the messages stands {sign}, as in {dialect}"),
        }
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sign::Beside(member) | Sign::Member(member) => write!(f, "`{member}`"),
            Sign::Role(role) => write!(f, "the role `{role}`"),
            Sign::Block(kind) => write!(f, "a block `{kind}`"),
            Sign::Untyped => f.write_str("a block without `type`"),
            Sign::SignedThinking => f.write_str("signed thinking"),
            Sign::Thinking => f.write_str("thinking"),
            Sign::CacheMarker => write!(f, "`{}`", cache::MEMBER),
        }
    }
}

impl Dialect {
    /// Finds out the dialect of a conversation: what tells it, or `None` where nothing does, as in plain text.
    ///
    /// `beside` is the object that the messages stand in, if they do: its keys tell, too.
    ///
    /// # Errors
    /// Where something in it is only one dialect's, and something else only another's.
    ///
    /// ```
    /// use lookback_core::Dialect;
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

/// The first clue that is sure, else the first hint.
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

/// What tells the dialect: first what stands beside the messages, then at most one clue of each message.
pub(super) fn clues<'a>(
    beside: Option<&Fields<'_>>,
    messages: impl IntoIterator<Item = &'a RawValue>,
) -> impl Iterator<Item = Clue> {
    let of_message = |(index, message): (usize, &'a RawValue)| {
        let (dialect, sign) = in_message(message)?;
        Some(Clue { dialect, message: Some(index), sign })
    };
    let beside = beside.and_then(in_body).map(|(dialect, sign)| Clue { dialect, message: None, sign });
    beside.into_iter().chain(messages.into_iter().enumerate().filter_map(of_message))
}

fn in_body(body: &Fields<'_>) -> Option<(Dialect, Sign)> {
    let get = |key: &str| body.get(key).filter(|value| value.get() != "null");
    let any = |keys: &[&'static str]| keys.iter().copied().find(|key| get(key).is_some()).map(Sign::Beside);
    if let Some(sign) = any(&["toolConfig", "inferenceConfig", "modelId"]) {
        return Some((Dialect::Bedrock, sign));
    }
    if let Some(system) = get("system") {
        let has_type = |block: &RawValue| Fields::read(block).is_some_and(|fields| fields.get("type").is_some());
        match json::array(system) {
            None => return Some((Dialect::Anthropic, Sign::Beside("system"))),
            // Both have such lists.
            Some(blocks) if blocks.is_empty() => {}
            Some(blocks) if blocks.iter().all(|block| has_type(block)) => {
                return Some((Dialect::Anthropic, Sign::Beside("system")));
            }
            Some(_) => return Some((Dialect::Bedrock, Sign::Beside("system"))),
        }
    }
    let tools = get("tools").and_then(json::array).unwrap_or_default();
    if tools.into_iter().filter_map(Fields::read).any(|tool| tool.get("input_schema").is_some()) {
        return Some((Dialect::Anthropic, Sign::Beside("tools")));
    }
    if let Some(sign) = any(&["anthropic_version"]) {
        return Some((Dialect::Anthropic, sign));
    }
    let sign = any(&["max_completion_tokens", "response_format", "frequency_penalty"])?;
    Some((Dialect::OpenAiChat, sign))
}

fn in_message(message: &RawValue) -> Option<(Dialect, Sign)> {
    let fields = Fields::read(message)?;
    let role = fields.text("role")?;
    if let Some(role) = ["tool", "developer"].into_iter().find(|known| *known == role) {
        return Some((Dialect::OpenAiChat, Sign::Role(role)));
    }
    if fields.get("tool_calls").is_some() {
        return Some((Dialect::OpenAiChat, Sign::Member("tool_calls")));
    }
    let mut hint = None;
    for (dialect, sign) in json::array(fields.get("content")?)?.into_iter().filter_map(in_block) {
        if sign.is_sure() {
            return Some((dialect, sign));
        }
        hint = hint.or(Some((dialect, sign)));
    }
    hint
}

fn in_block(block: &RawValue) -> Option<(Dialect, Sign)> {
    let fields = Fields::read(block)?;
    // Bedrock's blocks have no type: their key says what they are.
    let Some(kind) = fields.text("type") else { return Some((Dialect::Bedrock, Sign::Untyped)) };
    Some(match &*kind {
        "tool_use" => (Dialect::Anthropic, Sign::Block("tool_use")),
        "tool_result" => (Dialect::Anthropic, Sign::Block("tool_result")),
        "redacted_thinking" => (Dialect::Anthropic, Sign::Block("redacted_thinking")),
        "image" => (Dialect::Anthropic, Sign::Block("image")),
        "document" => (Dialect::Anthropic, Sign::Block("document")),
        "thinking" if fields.get("signature").is_some() => (Dialect::Anthropic, Sign::SignedThinking),
        "thinking" => (Dialect::Anthropic, Sign::Thinking),
        "image_url" => (Dialect::OpenAiChat, Sign::Block("image_url")),
        "input_audio" => (Dialect::OpenAiChat, Sign::Block("input_audio")),
        "file" => (Dialect::OpenAiChat, Sign::Block("file")),
        "refusal" => (Dialect::OpenAiChat, Sign::Block("refusal")),
        _ => {
            fields.get(cache::MEMBER)?;
            (Dialect::Anthropic, Sign::CacheMarker)
        }
    })
}
