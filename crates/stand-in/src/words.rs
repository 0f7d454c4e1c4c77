//! Errors in the providers' words.

use lookback_wire::dialect::Dialect;
use serde_json::json;

/// Returns the error of a request that breaks a rule.
pub(crate) fn refused(dialect: Dialect, rule: &str, path: &str) -> String {
    let message = match rule {
        "OC2" => "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.".to_owned(),
        "OR1" => "No tool output found for function call c1.".to_owned(),
        "AM2" => "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1.".to_owned(),
        "GM2" => "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.".to_owned(),
        rule => format!("{path} breaks {rule}"),
    };
    error(dialect, &message)
}

/// The message about thinking after a changed prefix.
pub(crate) const BOUND: &str =
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block.";

/// Returns an error with a message, in the provider's form.
pub(crate) fn error(dialect: Dialect, message: &str) -> String {
    match dialect {
        Dialect::Anthropic => json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
        Dialect::Gemini => json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}),
        _ => json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}}),
    }
    .to_string()
}

/// Returns the error of a request that is too long.
pub fn too_long(dialect: Dialect, tokens: u64, most: u64) -> String {
    match dialect {
        Dialect::Anthropic => error(dialect, &format!("prompt is too long: {tokens} tokens > {most} maximum")),
        Dialect::Gemini => error(
            dialect,
            &format!("The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."),
        ),
        Dialect::OpenAiResponses => json!({"error": {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded",
        }})
        .to_string(),
        _ => json!({"error": {
            "message": format!("This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."),
            "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
        }})
        .to_string(),
    }
}
