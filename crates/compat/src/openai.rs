//! OpenAI's format, in which most of the systems keep and return their messages.

use std::borrow::Cow;

use lookback_wire::{
    dialect::{DecodeError, Dialect},
    message::Message,
};
use serde_json::value::RawValue;

/// The dialect that is nearest to the messages of these systems.
pub(super) const DIALECT: Dialect = Dialect::OpenAiChat;

/// Reads messages back that were encoded as they are shown.
pub(super) fn decoded(encoded: &[Cow<'_, RawValue>]) -> Result<Vec<Message>, DecodeError> {
    encoded.iter().map(|raw| DIALECT.decode_raw(raw)).collect()
}
