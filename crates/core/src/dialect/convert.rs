//! Saying a message of one dialect in another, where nothing of it is lost.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Dialect, anthropic, bedrock, openai_chat};
use crate::message::{Media, MediaSource, Message};

/// Something of a message that another dialect cannot say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{to} cannot say {what}")]
pub struct Loss {
    /// The dialect that cannot say it.
    pub to: Dialect,
    /// What would be lost.
    pub what: String,
}

impl Loss {
    pub(super) fn new(to: Dialect, what: impl Into<String>) -> Self {
        Loss { to, what: what.into() }
    }
}

pub(super) const IDENTIFIER: &str = "a picture or file by another provider's identifier";
pub(super) const ARGUMENTS: &str = "tool arguments that are not a JSON object";

/// Members that are copied whole, so that nothing in them can be lost, and cache markers, which are the encoder's.
const WHOLE: [&str; 4] = ["input", "json", "cache_control", "cachePoint"];

/// The message as JSON of the other dialect.
pub(super) fn render(to: Dialect, message: &Message) -> Result<Vec<Box<RawValue>>, Loss> {
    if let Some(wire) = message.wire() {
        let known = match wire.dialect {
            Dialect::OpenAiChat => openai_chat::KNOWN,
            Dialect::Anthropic => anthropic::KNOWN,
            Dialect::Bedrock => bedrock::KNOWN,
        };
        let value: Value = serde_json::from_str(wire.raw.get()).unwrap_or_default();
        if let Some(what) = unknown(known, "", &value) {
            return Err(Loss::new(to, format!("`{what}` of {}", wire.dialect)));
        }
    }
    match to {
        Dialect::OpenAiChat => openai_chat::render(message),
        Dialect::Anthropic => anthropic::render(message),
        Dialect::Bedrock => bedrock::render(message),
    }
}

/// The first member that is not known where it stands.
fn unknown(known: &[&str], parent: &str, value: &Value) -> Option<String> {
    match value {
        Value::Array(elements) => elements.iter().find_map(|element| unknown(known, parent, element)),
        Value::Object(members) => members.iter().filter(|(_, value)| !value.is_null()).find_map(|(key, value)| {
            let place = format!("{parent}.{key}");
            if !known.contains(&place.as_str()) {
                return Some(place.trim_start_matches('.').to_owned());
            }
            if WHOLE.contains(&key.as_str()) { None } else { unknown(known, key, value) }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A picture's address, with its bytes in it where they are in the message.
pub(super) fn url(media: &Media) -> Option<String> {
    match (&media.source, &media.mime) {
        (MediaSource::Url(url), _) => Some(url.clone()),
        (MediaSource::Base64(data), Some(mime)) => Some(format!("data:{mime};base64,{data}")),
        (MediaSource::Base64(_), None) | (MediaSource::Text(_) | MediaSource::Id(_), _) => None,
    }
}
