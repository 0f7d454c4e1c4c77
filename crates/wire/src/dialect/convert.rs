//! Converts a message to another dialect, if that loses nothing.

use serde_json::value::RawValue;

use super::Dialect;
use super::format::{Format, Rendered};
use crate::message::{Media, MediaSource, Message, ToolCall};
use lookback_content::json::{self, Fields};

/// An error from converting a message to a dialect that cannot express all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{to} cannot express {what}")]
#[non_exhaustive]
pub struct ConversionError {
    /// The dialect that the message was converted to.
    pub(crate) to: Dialect,
    /// The content that would be lost.
    pub(crate) what: String,
}

impl ConversionError {
    pub(super) fn new(to: Dialect, what: impl Into<String>) -> Self {
        ConversionError { to, what: what.into() }
    }
}

pub(super) const IDENTIFIER: &str = "a picture or file by another provider's identifier";
pub(super) const ADDRESS: &str = "a picture or file by this address";

/// Returns the arguments of a call in their own bytes, because a number of thirty digits would not survive a float.
pub(super) fn arguments(dialect: Dialect, call: &ToolCall) -> Result<Box<RawValue>, ConversionError> {
    let object = serde_json::from_str(&call.arguments).ok().filter(|_| call.has_object_arguments());
    object.ok_or(ConversionError::new(dialect, "tool arguments that are not a JSON object"))
}

/// The maximum depth of the search. The deepest known member, the source of a picture in a tool result, is at depth
/// nine.
const DEEPEST: usize = 16;

/// Writes a message as JSON of another dialect.
pub(super) fn render(to: Dialect, message: &Message) -> Rendered {
    if let Some(wire) = message.wire()
        && let Some(what) = unknown(wire.dialect.format(), "", &wire.raw, DEEPEST)
    {
        return Err(ConversionError::new(to, format!("`{}` of {}", what.escape_debug(), wire.dialect)));
    }
    (to.format().render)(message)
}

/// Returns the first member that is unknown at its place. Members that are `null` are ignored.
///
/// It parses only as much as necessary. So values that a JSON parser would refuse (huge numbers, half of a surrogate
/// pair, deep nesting) do not hide unknown members elsewhere.
fn unknown(format: &Format, parent: &str, value: &RawValue, depth: usize) -> Option<String> {
    let Some(depth) = depth.checked_sub(1) else { return Some(parent.to_owned()) };
    if let Some(elements) = json::array(value) {
        return elements.into_iter().find_map(|element| unknown(format, parent, element, depth));
    }
    let fields = Fields::read(value)?;
    fields.iter().filter(|(_, value)| value.get() != "null").find_map(|(key, value)| {
        let place = format!("{parent}.{key}");
        if !format.known.contains(&place.as_str()) {
            return Some(place.trim_start_matches('.').to_owned());
        }
        if format.whole.contains(&key) { None } else { unknown(format, key, value, depth) }
    })
}

/// Returns whether any provider can fetch a URL. URLs of a cloud's storage are not public.
pub(super) fn is_public(url: &str) -> bool {
    !url.starts_with("s3:") && !url.starts_with("gs:")
}

/// Returns the URL of a picture: a `data:` URL if the message has the bytes.
pub(super) fn url(media: &Media) -> Option<String> {
    match (&media.source, &media.mime) {
        (MediaSource::Url(url), _) => is_public(url).then(|| url.clone()),
        (MediaSource::Base64(data), Some(mime)) => Some(format!("data:{mime};base64,{data}")),
        (MediaSource::Base64(_), None) | (MediaSource::Text(_) | MediaSource::Id(_), _) => None,
    }
}
