//! The names of spans, fields and metrics: OpenTelemetry's conventions for generative AI, and Lookback's own names for
//! everything else.
//!
//! The conventions are still in development. These names are from version 1.41, as of November 2026.

/// The operation: [`CHAT`] or [`EXECUTE_TOOL`].
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// A model call.
pub const CHAT: &str = "chat";
/// A run of a tool.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The provider.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The model of the request.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Input tokens, as reported by the provider.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Output tokens, as reported by the provider.
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
/// Metric: the duration of a call, in seconds.
pub const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";

/// Metric: tokens of a window, by [`KIND`]. Also the prefix of span fields.
pub const WINDOW_TOKENS: &str = "lookback.window.tokens";
/// A kind of content in a window, such as `tool_result`.
pub const KIND: &str = "lookback.kind";
/// Metric: the number of calls whose window was compacted.
pub const COMPACTIONS: &str = "lookback.compactions";
/// Metric: the cost of calls, in US dollars, by [`TOKEN_TYPE`].
pub const COST: &str = "lookback.cost";
/// Metric: the cost of the input of calls without a window, in US dollars.
pub const COST_WITHOUT_WINDOW: &str = "lookback.cost_without_window";

/// Returns the boundaries of a histogram of tokens: powers of 4, as the conventions require.
pub fn tokens() -> Vec<f64> {
    (0..14).map(|power| 4_f64.powi(power)).collect()
}

/// Returns the boundaries of a histogram of durations, in seconds: 0.01 times powers of 2, as the conventions require.
pub fn seconds() -> Vec<f64> {
    (0..14).map(|power| 0.01 * 2_f64.powi(power)).collect()
}
