//! The error messages of Gemini's generateContent.

use super::saying::Saying;

pub(in crate::dialect) const SAYINGS: &[Saying] = &[
    Saying::tokens("input token count ({actual}) exceeds the maximum number of tokens allowed ({limit})"),
    Saying::tokens("input token count exceeds the maximum number of tokens allowed ({limit})"),
    Saying::media("document contains {actual} pages which exceeds the supported page limit of {limit}"),
    Saying::breaks("GM1", "function call turn comes immediately after a user turn or after a function response turn"),
    Saying::breaks("GM2", "function response turn comes immediately after a function call turn"),
    Saying::breaks("GM2", "number of function response parts is equal to the number of function call parts"),
    Saying::breaks("GM3", "missing a thought_signature in functionCall parts"),
    Saying::breaks("GM4", "contents.parts must not be empty"),
    Saying::breaks("GM4", "required oneof field 'data' must have one initialized field"),
    Saying::breaks("GM6", "it has an empty text parameter"),
    Saying::breaks("GM7", "at 'contents[{}].parts[{}]': Cannot find field"),
    Saying::breaks("GM5", "CachedContent can not be used with GenerateContent request setting system_instruction"),
    Saying::breaks("GM0", "contents is not specified"),
    Saying::breaks("GM4", "it must have a text parameter"),
    Saying::breaks("GM10", "Invalid function name"),
    Saying::refused("Invalid thought signature"),
    Saying::refused("Corrupted thought signature"),
];
