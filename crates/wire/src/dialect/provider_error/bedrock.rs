//! The error messages of Bedrock and of the models that it serves.

use super::saying::Saying;

pub(in crate::dialect) const SAYINGS: &[Saying] = &[
    // Bedrock also says this about too many bytes, so the measure may be wrong.
    Saying::tokens("Input is too long for requested model"),
    Saying::tokens("Too many input tokens. Max input tokens: {limit}, request input token count: {actual}"),
    Saying::tokens("Too many input tokens"),
    Saying::tokens("Input Tokens Exceeded"),
    // The length is in characters.
    Saying::bytes("Malformed input request: expected maxLength: {limit}, actual: {actual}"),
    Saying::media("too many images: image_count > {limit}"),
    Saying::media("can't include more than {limit} documents in a request"),
    Saying::media("can't include more than {limit} images in a request"),
    Saying::breaks("BC1", "A conversation must start with a user message"),
    Saying::breaks("BC2", "conversation must alternate between user and assistant roles"),
    Saying::breaks("BC2", "roles must alternate between"),
    Saying::breaks("BC2", "number of toolResult blocks at messages.{}.content exceeds the number of toolUse blocks"),
    Saying::breaks("BC2", "Expected toolResult blocks at messages.{}.content"),
    Saying::breaks("BC2", "`tool_use` ids were found without `tool_result` blocks immediately after"),
    Saying::breaks("BC2", "unexpected `tool_use_id` found in `tool_result` blocks"),
    Saying::breaks("BC3", "toolConfig field must be defined when using toolUse and toolResult content blocks"),
    Saying::breaks("BC4", "The text field in the ContentBlock object at messages.{}.content.{} is blank"),
    Saying::breaks("BC4", "content field in the Message object at messages.{} is empty"),
    Saying::breaks("BC4", "toolResult cannot be empty when status value is error"),
    Saying::breaks("BC4", "text content blocks must be non-empty"),
    Saying::breaks("BC4", "must contain non-whitespace text"),
    Saying::breaks("BC5", "toolUse.input is invalid"),
    Saying::breaks("BC5", "final assistant content cannot end with trailing whitespace"),
    Saying::breaks("BC6", "A maximum of {} blocks with cache_control may be provided"),
    Saying::breaks("BC7", "`tool_use` ids must be unique"),
    Saying::breaks("BC7", "blocks at messages.{}.content contain duplicate Ids"),
    Saying::breaks("BC7", "toolUseId' failed to satisfy constraint"),
    Saying::breaks("BC9", "document file name can only contain alphanumeric characters"),
    Saying::breaks("BC9", "Messages can't contain duplicate document names"),
    Saying::breaks("BC10", "model doesn't support the video content block"),
    Saying::breaks("BC10", "model doesn't support the s3Uri field"),
    Saying::breaks("BC13", "toolSpec.name' failed to satisfy constraint"),
    Saying::breaks("BC13", "toolUse.name' failed to satisfy constraint"),
    Saying::refused("tool result blocks cannot be provided in the same turn"),
];
