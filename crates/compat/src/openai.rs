//! OpenAI's format, which three of the systems use for their messages.

use std::borrow::Cow;

use lookback_wire::{
    dialect::{DecodeError, Dialect},
    message::Message,
};
use serde_json::value::RawValue;

/// The dialect that is closest to the messages of these systems.
pub(super) const DIALECT: Dialect = Dialect::OpenAiChat;

/// Decodes messages that a view has encoded.
pub(super) fn decoded(encoded: &[Cow<'_, RawValue>]) -> Result<Vec<Message>, DecodeError> {
    encoded.iter().map(|raw| DIALECT.decode_raw(raw)).collect()
}
