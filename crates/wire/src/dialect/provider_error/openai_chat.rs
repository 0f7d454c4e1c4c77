//! The error messages of OpenAI, and of servers and gateways that follow its Chat Completions.

use super::saying::Saying;

pub(in crate::dialect) const SAYINGS: &[Saying] = &[
    // OpenAI, Azure, DeepSeek, vLLM until 0.9.
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested {} tokens ({actual} in the messages, {actual} in the functions, and {reserved} in the completion)",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested {} tokens ({actual} in the messages, {reserved} in the completion)",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens, however you requested {} tokens ({actual} in your prompt; {reserved} for the completion)",
    ),
    Saying::tokens("maximum context length is {limit} tokens. However, your messages resulted in {actual} tokens"),
    Saying::tokens("maximum context length is {limit}"),
    Saying::tokens(
        "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {actual} tokens",
    ),
    Saying::tokens("Input tokens exceed the configured limit of {limit}"),
    Saying::tokens("input exceeds the context window"),
    Saying::tokens("prompt tokens ({actual}) exceed model maximum ({limit})"),
    // vLLM since 0.9.
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested {reserved} output tokens and your prompt contains at least {actual} input tokens",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested {reserved} output tokens and your prompt contains {actual} input tokens",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens. However, your request has {actual} input tokens plus {reserved} max_tokens",
    ),
    Saying::tokens("maximum context length is {limit} tokens. However, your request has {actual} input tokens"),
    Saying::tokens(
        "You passed {actual} input tokens and requested {reserved} output tokens. However, the model's context length is only {limit} tokens",
    ),
    Saying::tokens(
        "is too large: {reserved}. This model's maximum context length is {limit} tokens and your request has {actual} input tokens",
    ),
    Saying::tokens("prompt (length {actual}) is longer than the maximum model length of {limit}"),
    // OpenRouter.
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested about {} tokens ({actual} of text input, {actual} of tool input, {reserved} in the output)",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested about {} tokens ({actual} of text input, {reserved} in the output)",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested about {actual} tokens ({} of text input)",
    ),
    Saying::tokens(
        "maximum context length is {limit} tokens. However, you requested about {actual} tokens ({} of text input, {} of tool input)",
    ),
    Saying::tokens("Input length {actual} exceeds the maximum allowed input length of {limit}"),
    // SGLang, Together.
    Saying::tokens("input ({actual} tokens) is longer than the model's context length ({limit} tokens)"),
    Saying::tokens(
        "Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a total of {} tokens: {actual} tokens from the input messages and {reserved} tokens for the completion",
    ),
    Saying::tokens("Requested token count exceeds the model's maximum context length of {limit}"),
    Saying::tokens("Input length ({actual}) exceeds model's maximum context length ({limit})"),
    // llama.cpp, and servers built on it.
    Saying::tokens("request ({actual} tokens) exceeds the available context size ({limit} tokens)"),
    Saying::tokens("exceeds the available context size…n_prompt_tokens:{actual},n_ctx:{limit}"),
    Saying::tokens("exceeds the available context size"),
    Saying::tokens("context size has been exceeded"),
    Saying::tokens("Requested tokens ({actual}) exceed context window of {limit}"),
    Saying::tokens(
        "Trying to keep the first {actual} tokens when context the overflows. However, the model is loaded with context length of only {limit} tokens",
    ),
    Saying::tokens("tokens to keep from the initial prompt is greater than the context length"),
    Saying::tokens("n_keep ({actual}) >= n_ctx ({limit})"),
    Saying::tokens("n_keep: {actual} >= n_ctx: {limit}"),
    Saying::tokens("prompt too long; exceeded max context length"),
    Saying::tokens("prompt too long; exceeded context length"),
    // Text Generation Inference.
    Saying::tokens(
        "`inputs` tokens + `max_new_tokens` must be <= {limit}. Given: {actual} `inputs` tokens and {reserved} `max_new_tokens`",
    ),
    Saying::tokens("`inputs` must have less than {limit} tokens. Given: {actual}"),
    // Clouds.
    Saying::tokens("input token count ({actual}) exceeds the maximum number of tokens allowed ({limit})"),
    Saying::tokens("input token count exceeds the maximum number of tokens allowed ({limit})"),
    Saying::tokens("maximum prompt length is {limit} but the request contains {actual} tokens"),
    Saying::tokens("Prompt contains {actual} tokens…too large for model with {limit} maximum context length"),
    Saying::tokens("too large for model with {limit} maximum context length"),
    Saying::tokens("prompt is too long: {actual}, model maximum context length: {limit}"),
    Saying::tokens(
        "reduce the length of the messages or completion. Current length is {actual} while limit is {limit}",
    ),
    Saying::tokens("reduce the length of the messages"),
    Saying::tokens("exceeded model token limit: {limit} (requested: {actual})"),
    Saying::tokens("exceeded model token limit"),
    Saying::tokens("Range of input length should be [{}, {limit}]"),
    Saying::tokens("Request {actual} input tokens exceeds the model's maximum context length {limit}"),
    Saying::tokens("Prompt exceeds max length"),
    Saying::tokens("context window exceeds limit"),
    Saying::tokens("prompt token count of {actual} exceeds the limit of {limit}"),
    Saying::tokens("total number of tokens (prompt and prediction) cannot exceed {limit} - received {actual}"),
    Saying::tokens("Total tokens of image and text exceed max message tokens"),
    // Bytes, from any server.
    Saying::bytes("Maximum request body size {limit} exceeded, actual body size {actual}"),
    Saying::bytes("request entity too large"),
    Saying::bytes("payload too large"),
    Saying::bytes("request body too large"),
    // Pictures.
    Saying::media("At most {limit} image(s) may be provided in one"),
    Saying::media("Too many images in request. Max is {limit}"),
    Saying::media("Too many images in request: {actual} images provided, but the model supports a maximum of {limit}"),
    Saying::media("request contains {actual} images, exceeding the maximum of {limit}"),
    // Broken rules, in the words of OpenAI and of stricter servers.
    Saying::breaks("OC1", "must be a response to a preceeding message with 'tool_calls'"),
    Saying::breaks("OC1", "must be a response to a preceding message with 'tool_calls'"),
    Saying::breaks("OC1", "unexpected role 'tool'"),
    Saying::breaks("OC1", "unexpected role RoleEnum.tool"),
    Saying::breaks("OC1", "tool_call_id…is not found"),
    Saying::breaks("OC1", "tool call result does not follow tool call"),
    Saying::breaks("OC2", "must be followed by tool messages responding to each 'tool_call_id'"),
    Saying::breaks("OC2", "tool_call_ids did not have response messages"),
    Saying::breaks("OC2", "No tool output found for function call"),
    Saying::breaks("OC3", "failed to parse tool call arguments"),
    Saying::breaks("OC3", "Duplicate value for 'tool_call_id'"),
    Saying::breaks("OC4", "duplicate tool_call id"),
    // Perplexity.
    Saying::refused("Last message must have role `user` or `tool`"),
    Saying::refused("user or tool message(s) should alternate with assistant message(s)"),
    Saying::breaks("OC11", "lone leading surrogate in hex escape"),
    Saying::breaks("OC6", ".id': string too long"),
    Saying::breaks("OC7", "tool_calls': array too long"),
    Saying::breaks("OC8", "Content blocks are expected to be either text or image_url type"),
    Saying::breaks("OC9", "role' does not support 'developer' with this model"),
    Saying::breaks("OC9", "role' does not support 'system' with this model"),
    Saying::breaks("OC10", "Invalid 'temperature': decimal"),
    Saying::breaks("OC10", "Invalid 'top_p': decimal"),
    Saying::breaks("OC5", "Invalid value for 'content': expected a string, got null"),
    Saying::breaks("OC5", "tool_calls': empty array"),
    Saying::breaks("OC5", "Empty tool_calls is not supported"),
    Saying::breaks("OC0", "[] is too short - 'messages'"),
    Saying::breaks("OC0", "Invalid 'messages': empty array"),
    Saying::breaks("OC1", "tool_call_id' of…not found in 'tool_calls' of previous message"),
    Saying::breaks("OC12", "function.name': string does not match pattern"),
    Saying::breaks("OC12", "function.name': string too long"),
    Saying::breaks("OC13", "Image URLs are only allowed for messages with role 'user'"),
    Saying::refused("Not the same number of function calls and responses"),
    Saying::refused("unexpected role 'user' after role 'tool'"),
    Saying::refused("Expected last role"),
    Saying::refused("conversation roles must alternate"),
    Saying::refused("Tool call id was…but must be"),
    Saying::refused("reasoning_content is missing in assistant tool call message"),
    Saying::refused("reasoning_content in the thinking mode must be passed back"),
    Saying::refused("missing a thought_signature in functionCall parts"),
];
