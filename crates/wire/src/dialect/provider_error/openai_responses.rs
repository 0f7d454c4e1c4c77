//! The error messages of OpenAI's Responses, without those in `openai_chat.rs`.

use super::saying::Saying;

pub(in crate::dialect) const SAYINGS: &[Saying] = &[
    // DeepSeek's message for a call whose output comes too late, or is missing.
    Saying::breaks("OR10", "No tool output found for tool call"),
    Saying::breaks("OR1", "No tool output found for"),
    Saying::breaks("OR1", "No tool call found for"),
    Saying::breaks("OR2", "was provided without its required following item"),
    Saying::breaks("OR2", "was provided without its required preceding item"),
    Saying::breaks("OR2", "was provided without its required 'reasoning' item"),
    Saying::breaks("OR3", "Items are not persisted when `store` is set to false"),
    Saying::breaks("OR6", "Expected an ID that begins with"),
    Saying::breaks("OR6", "Duplicate item found with id"),
    Saying::breaks("OR7", "Missing required parameter: 'input[{}].summary'"),
    Saying::breaks("OR7", "Unknown parameter: 'input[{}].status'"),
    Saying::breaks("OR8", "The 'compaction_trigger' item must be the final input item"),
    Saying::breaks("OR0", "One of \"input\" or \"previous_response_id\" or 'prompt'"),
    Saying::breaks("OR9", "call_id': string too long"),
    Saying::breaks("OR11", "file type you uploaded is not supported"),
    Saying::breaks("OR12", "Invalid 'temperature': decimal"),
    Saying::breaks("OR12", "Invalid 'top_p': decimal"),
    Saying::breaks("OR14", "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'"),
    Saying::breaks("OR14", "Invalid value: 'output_text'. Supported values are: 'input_text'"),
    Saying::breaks("OR15", "tools[{}].name': string does not match pattern"),
    Saying::breaks("OR15", "input[{}].name': string does not match pattern"),
    Saying::breaks("OR15", "tools[{}].name': string too long"),
    Saying::breaks("OR15", "input[{}].name': string too long"),
    Saying::refused("invalid_encrypted_content"),
];
