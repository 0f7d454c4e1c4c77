//! The tokens that a provider adds around texts: for messages, tool calls and tools.

use serde::Deserialize;

/// What a request costs besides its texts, pictures and files.
///
/// Providers write a request as one text for the model, with words of their own around messages, tool calls and tools. How
/// many tokens these are is published by few of them. Most of the numbers in `data/models.toml` were measured.
///
/// ```
/// use lookback_wire::models::{Frame, Models};
///
/// let claude = Models::builtin().find("claude-sonnet-4-5").unwrap();
/// assert_eq!(claude.frame.tools, 496); // as Anthropic's page about prices says
/// assert_eq!(Frame::default().tools, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Frame {
    /// The tokens of every request, for what the provider tells the model by itself.
    pub request: u64,
    /// The tokens of each message.
    pub message: u64,
    /// The tokens of a system prompt outside the messages.
    pub system: u64,
    /// The tokens of each tool call besides its name and arguments. If it is `None`, the identifier is counted as text.
    pub call: Option<u64>,
    /// The tokens of each tool result besides its contents. If it is `None`, the identifier is counted as text.
    pub result: Option<u64>,
    /// The tokens of a request with tools, however many.
    pub tools: u64,
    /// The further tokens of a request with tools in the dialect `openai-chat`.
    pub chat_tools: u64,
    /// The tokens of each tool besides its description.
    pub tool: u64,
    /// The factor by which the tokens of a tool's JSON are multiplied. If it is `None`, all tools are counted as they stand.
    pub schema: Option<f64>,
    /// The further tokens of a request that demands answers in a form, besides those of its schema. If it is `None`, the
    /// schema is not counted.
    pub form: Option<u64>,
    /// The further tokens of a request that asks the model to reason.
    pub thinks: u64,
    /// How reasoning is counted.
    pub reasoning: ReasoningFormula,
    /// Whether reasoning counts only until its turn is over, because the provider leaves it out then. If reasoning
    /// is text or not counted, this is also the text up to `</think>` of an answer that begins with `<think>`.
    pub forgets: bool,
}

/// How a provider counts reasoning that comes back in a request.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningFormula {
    /// Its text or, if there is none, its encrypted text: a quarter of the bytes that exceed 650, as OpenAI's own agent
    /// estimates it.
    Text,
    /// Its encrypted text alone. The text that the client sees is a summary, and the model does not.
    Encrypted,
    /// Not at all, since those who serve the model leave it out.
    None,
    /// Its text, and so many tokens for each character of its signature.
    Signed(f64),
}

impl Frame {
    /// A frame that costs nothing.
    pub const NONE: Frame = Frame {
        request: 0,
        message: 0,
        system: 0,
        call: Some(0),
        result: Some(0),
        tools: 0,
        chat_tools: 0,
        tool: 0,
        schema: Some(1.0),
        form: None,
        thinks: 0,
        reasoning: ReasoningFormula::Signed(0.0),
        forgets: false,
    };
}

impl Default for Frame {
    /// Returns the frame for models of which nothing is known: three tokens for each message, as OpenAI's cookbook counts
    /// them, and identifiers and tools as text.
    fn default() -> Self {
        Frame { message: 3, call: None, result: None, schema: None, reasoning: ReasoningFormula::Text, ..Frame::NONE }
    }
}
