//! The names under which model calls and tools are told to OpenTelemetry: its conventions for generative AI, which are still in
//! development (read in 2026-11, as of 1.41), and ours for what they have no name for.

/// What is done: [`CHAT`] or [`EXECUTE_TOOL`].
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// A model call.
pub const CHAT: &str = "chat";
/// The running of a tool.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The provider.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The model that was asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Input tokens, as the provider reported them.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Output tokens, as the provider reported them.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The session's name.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The tool's name.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The identifier of a tool call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// Whether tokens are `input` or `output`.
pub const TOKEN_TYPE: &str = "gen_ai.token.type";
/// The kind of an error.
pub const ERROR_TYPE: &str = "error.type";
/// Metric: tokens of a call, by [`TOKEN_TYPE`].
pub const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
/// Metric: how long a call took, in seconds.
pub const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";

/// Metric, and the beginning of the names of a span's fields: tokens of a window, by [`KIND`].
pub const WINDOW_TOKENS: &str = "lookback.window.tokens";
/// A kind of content of a window, such as `tool_result`.
pub const KIND: &str = "lookback.kind";
/// Metric: how many compactions were made.
pub const COMPACTIONS: &str = "lookback.compactions";
