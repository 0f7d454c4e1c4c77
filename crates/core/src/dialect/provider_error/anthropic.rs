//! The errors of Anthropic, in its words.

use super::saying::Saying;

pub(in crate::dialect) const SAYINGS: &[Saying] = &[
    Saying::tokens("prompt is too long: {actual} tokens > {limit} maximum"),
    Saying::tokens("prompt is too long"),
    Saying::tokens("input length and `max_tokens` exceed context limit: {actual} + {reserved} > {limit}"),
    Saying::tokens("input length and `max_tokens` exceed context limit"),
    // This is a stop reason, which some servers send as an error.
    Saying::tokens("model_context_window_exceeded"),
    Saying::bytes("request_too_large"),
    Saying::bytes("Request exceeds the maximum size"),
    Saying::bytes("Request exceeds the maximum allowed number of bytes"),
    Saying::media("too many images and documents: {actual} + {actual} > {limit}"),
    Saying::media("Too much media: {actual} document pages + {actual} images > {limit}"),
    Saying::media("A maximum of {limit} PDF pages may be provided"),
    Saying::media("messages.{}.content.{}.pdf…A maximum of {limit} PDF pages may be provided"),
    // With fewer pictures, larger ones are accepted. A picture that is too large for any request is malformed.
    Saying::media("messages.{}.content…exceed max allowed size for many-image requests"),
    Saying::media("exceed max allowed size for many-image requests"),
    Saying::breaks("AM1", "first message must use the \"user\" role"),
    Saying::breaks("AM1", "messages: at least one message is required"),
    Saying::breaks("AM1", "use the top-level 'system' parameter for the initial system prompt"),
    Saying::breaks("AM2", "`tool_use` ids were found without `tool_result` blocks immediately after"),
    Saying::breaks("AM2", "unexpected `tool_use_id` found in `tool_result` blocks"),
    Saying::breaks("AM2", "`tool_result` block(s) at the beginning of this message"),
    Saying::breaks("AM2", "each tool_use must have a single result"),
    Saying::breaks("AM3", "`tool_use` ids must be unique"),
    Saying::breaks("AM3", "tool_use.id: String should match pattern"),
    Saying::breaks("AM3", "tool_use_id: String should match pattern"),
    Saying::breaks("AM3", "tool_use.input: Input should be a valid dictionary"),
    Saying::breaks("AM3", "tool_use.input: Input should be an object"),
    Saying::breaks("AM4", "text content blocks must be non-empty"),
    Saying::breaks("AM4", "text content blocks must contain non-whitespace text"),
    Saying::breaks("AM4", "messages must have non-empty content"),
    Saying::breaks("AM4", "final assistant content cannot end with trailing whitespace"),
    Saying::breaks("AM4", "content cannot be empty if `is_error` is true"),
    // A block with another block's signature is not signed.
    Saying::breaks("AM5", "signature: Field required"),
    Saying::breaks("AM5", "Invalid `signature` in `thinking` block"),
    Saying::breaks("AM5", "blocks in the latest assistant message cannot be modified"),
    Saying::breaks("AM7", "role 'system' must precede an 'assistant' message"),
    Saying::breaks("AM9", "A maximum of {} blocks with cache_control may be provided"),
    Saying::refused("roles must alternate between"),
    // Older models refuse any system message.
    Saying::refused("Unexpected role \"system\""),
    Saying::refused("role 'system' is not supported on this model"),
    Saying::refused("does not support assistant message prefill"),
    Saying::refused("Expected `thinking` or `redacted_thinking`, but found"),
    Saying::refused("image dimensions exceed max allowed size: {} pixels"),
    Saying::refused("image exceeds {} MB maximum"),
];
