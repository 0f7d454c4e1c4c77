//! The tokens that a provider adds around texts: for messages, tool calls and tools.

use serde::Deserialize;

/// The tokens of a request in addition to its texts, pictures and files.
///
/// Providers turn a request into one text for the model, and add words around messages, tool calls and tools. Few
/// providers publish how many tokens these are. Most of the numbers in `data/models.toml` were measured.
///
/// ```
/// use lookback_models::{Frame, Models};
///
/// let claude = Models::builtin().find("claude-sonnet-4-5").unwrap();
/// assert_eq!(claude.frame.tools, 496); // as Anthropic's page about prices says
/// assert_eq!(Frame::default().tools, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Frame {
    /// The tokens that the provider adds to every request.
    pub request: u64,
    /// The tokens of each message.
    pub message: u64,
    /// The tokens of a system prompt outside the messages.
    pub system: u64,
    /// The tokens of each tool call in addition to its name and arguments. If it is `None`, the identifier is counted
    /// as text.
    pub call: Option<u64>,
    /// The tokens of each tool result in addition to its contents. If it is `None`, the identifier is counted as text.
    pub result: Option<u64>,
    /// The tokens of a request with any number of tools.
    pub tools: u64,
    /// The additional tokens of a request with tools in the dialect `openai-chat`.
    pub chat_tools: u64,
    /// The tokens of each tool in addition to its JSON.
    pub tool: u64,
    /// The factor by which the tokens of a tool's JSON are multiplied. If it is `None`, the JSON of all tools is
    /// counted unchanged.
    pub schema: Option<f64>,
    /// The additional tokens of a request with a schema for the answer, without those of the schema itself. If it is
    /// `None`, the schema is not counted.
    pub form: Option<u64>,
    /// The additional tokens of a request that asks the model to reason.
    pub thinks: u64,
    /// How reasoning is counted.
    pub reasoning: ReasoningFormula,
    /// Whether reasoning counts only until its turn is over, because the provider then drops it. With the formulas
    /// `Text` and `None`, this includes the text up to `</think>` of an answer that begins with `<think>`.
    pub forgets: bool,
}

/// How a provider counts reasoning that a request sends back.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningFormula {
    /// Its text or, if there is none, its encrypted text: a quarter of the decoded bytes beyond 650, which is the
    /// estimate of OpenAI's own agent.
    Text,
    /// Only its encrypted text. The text that the client sees is a summary, which the model does not see.
    Encrypted,
    /// Not at all, because the providers of the model drop it.
    None,
    /// Its text, and this many tokens for each character of its signature.
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
    /// Returns the frame for unknown models: three tokens for each message, as in OpenAI's cookbook, and identifiers
    /// and tools as text.
    fn default() -> Self {
        Frame { message: 3, call: None, result: None, schema: None, reasoning: ReasoningFormula::Text, ..Frame::NONE }
    }
}
