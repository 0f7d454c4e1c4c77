//! Detects the dialect of messages from features that only one dialect has.

use std::fmt;

use serde_json::value::RawValue;

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
    pub(crate) sign: Sign,
}

/// A feature that shows a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sign {
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
        let (dialect, sign) = in_message(message)?;
        Some(Clue { dialect, message: Some(index), sign })
    };
    let beside = beside.and_then(in_body).map(|(dialect, sign)| Clue { dialect, message: None, sign });
    beside.into_iter().chain(messages.into_iter().enumerate().filter_map(of_message))
}

fn in_body(body: &Fields<'_>) -> Option<(Dialect, Sign)> {
    let get = |key: &str| body.get(key).filter(|value| value.get() != "null");
    let any = |keys: &[&'static str]| keys.iter().copied().find(|key| get(key).is_some()).map(Sign::Beside);
    if get("messages").is_none() {
        let lists = [(Dialect::OpenAiResponses, "input"), (Dialect::Gemini, "contents")];
        if let Some((dialect, list)) = lists.into_iter().find(|(_, list)| get(list).is_some()) {
            return Some((dialect, Sign::Beside(list)));
        }
    }
    if get("messages").is_none()
        && let Some(sign) = any(&["previous_response_id", "conversation"])
    {
        return Some((Dialect::OpenAiResponses, sign));
    }
    if get("messages").is_none() && get("prompt").is_some_and(|prompt| prompt.get().starts_with('{')) {
        return Some((Dialect::OpenAiResponses, Sign::Beside("prompt")));
    }
    if let Some(sign) = any(&["toolConfig", "inferenceConfig", "modelId"]) {
        return Some((Dialect::Bedrock, sign));
    }
    if let Some(system) = get("system") {
        let has_type = |block: &RawValue| Fields::read(block).is_some_and(|fields| fields.get("type").is_some());
        match json::array(system) {
            None => return Some((Dialect::Anthropic, Sign::Beside("system"))),
            // An empty list is in both dialects.
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
    if let Some(sign) = any(&["anthropic_version", "output_config"]) {
        return Some((Dialect::Anthropic, sign));
    }
    let has_function = |tool: &RawValue| Fields::read(tool).is_some_and(|tool| tool.get("function").is_some());
    if get("tools").and_then(json::array).unwrap_or_default().into_iter().any(has_function) {
        return Some((Dialect::OpenAiChat, Sign::Beside("tools")));
    }
    let sign = any(&["max_completion_tokens", "response_format", "frequency_penalty", "stream_options"]);
    // Services that resell models put the maker's name before the model's name.
    let resold =
        || get("model").and_then(json::text).filter(|model| model.contains('/')).map(|_| Sign::Beside("model"));
    Some((Dialect::OpenAiChat, sign.or_else(resold)?))
}

/// Types of items of OpenAI's Responses that are not messages.
const ITEMS: [&str; 9] = [
    "function_call",
    "function_call_output",
    "reasoning",
    "custom_tool_call",
    "custom_tool_call_output",
    "item_reference",
    "compaction",
    "compaction_trigger",
    "web_search_call",
];

fn in_message(message: &RawValue) -> Option<(Dialect, Sign)> {
    let fields = Fields::read(message)?;
    if let Some(kind) = fields.text("type").and_then(|kind| ITEMS.into_iter().find(|known| *known == kind)) {
        return Some((Dialect::OpenAiResponses, Sign::Item(kind)));
    }
    if fields.get("content").is_none() && fields.get("parts").and_then(json::array).is_some() {
        return Some((Dialect::Gemini, Sign::Member("parts")));
    }
    let role = fields.text("role")?;
    if role == "tool" {
        return Some((Dialect::OpenAiChat, Sign::Role("tool")));
    }
    if fields.get("output_config").is_some() {
        return Some((Dialect::Anthropic, Sign::Member("output_config")));
    }
    if fields.get("tool_calls").is_some() {
        return Some((Dialect::OpenAiChat, Sign::Member("tool_calls")));
    }
    let among = ["developer", "system"].into_iter().find(|known| *known == role);
    let mut hint = among.map(|role| (Dialect::OpenAiChat, Sign::Role(role)));
    for (dialect, sign) in fields.get("content").and_then(json::array).into_iter().flatten().filter_map(in_block) {
        if sign.is_sure() {
            return Some((dialect, sign));
        }
        hint = hint.or(Some((dialect, sign)));
    }
    hint
}

fn in_block(block: &RawValue) -> Option<(Dialect, Sign)> {
    let fields = Fields::read(block)?;
    // Bedrock's blocks have no type: their key is their kind.
    let Some(kind) = fields.text("type") else { return Some((Dialect::Bedrock, Sign::Untyped)) };
    Some(match &*kind {
        "tool_use" => (Dialect::Anthropic, Sign::Block("tool_use")),
        "tool_result" => (Dialect::Anthropic, Sign::Block("tool_result")),
        "server_tool_use" => (Dialect::Anthropic, Sign::Block("server_tool_use")),
        "mcp_tool_use" => (Dialect::Anthropic, Sign::Block("mcp_tool_use")),
        "redacted_thinking" => (Dialect::Anthropic, Sign::Block("redacted_thinking")),
        "image" => (Dialect::Anthropic, Sign::Block("image")),
        "document" => (Dialect::Anthropic, Sign::Block("document")),
        "thinking" if fields.get("signature").is_some() => (Dialect::Anthropic, Sign::SignedThinking),
        "thinking" => (Dialect::Anthropic, Sign::Thinking),
        "image_url" => (Dialect::OpenAiChat, Sign::Block("image_url")),
        "input_audio" => (Dialect::OpenAiChat, Sign::Block("input_audio")),
        "file" => (Dialect::OpenAiChat, Sign::Block("file")),
        "input_text" => (Dialect::OpenAiResponses, Sign::Block("input_text")),
        "output_text" => (Dialect::OpenAiResponses, Sign::Block("output_text")),
        "input_image" => (Dialect::OpenAiResponses, Sign::Block("input_image")),
        "input_file" => (Dialect::OpenAiResponses, Sign::Block("input_file")),
        "refusal" => (Dialect::OpenAiChat, Sign::Block("refusal")),
        _ => {
            fields.get(cache_marker::MEMBER)?;
            (Dialect::Anthropic, Sign::CacheMarker)
        }
    })
}
