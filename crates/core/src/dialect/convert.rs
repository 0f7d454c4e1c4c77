//! Saying a message of one dialect in another, where nothing of it is lost.

use serde_json::value::RawValue;

use super::Dialect;
use super::format::{Format, Rendered};
use crate::json::{self, Fields};
use crate::message::{Media, MediaSource, Message};

/// Something of a message that another dialect cannot say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{to} cannot say {what}")]
#[non_exhaustive]
pub struct ConversionError {
    /// The dialect that cannot say it.
    pub to: Dialect,
    /// What would be lost.
    pub what: String,
}

impl ConversionError {
    pub(super) fn new(to: Dialect, what: impl Into<String>) -> Self {
        ConversionError { to, what: what.into() }
    }
}

pub(super) const IDENTIFIER: &str = "a picture or file by another provider's identifier";
pub(super) const ADDRESS: &str = "a picture or file by this address";
pub(super) const ARGUMENTS: &str = "tool arguments that are not a JSON object";

/// How deep to look: the deepest member that any dialect knows, the place of a picture in a tool result, stands at nine.
const DEEPEST: usize = 16;

/// The message as JSON of the other dialect.
pub(super) fn render(to: Dialect, message: &Message) -> Rendered {
    if let Some(wire) = message.wire()
        && let Some(what) = unknown(wire.dialect.format(), "", &wire.raw, DEEPEST)
    {
        return Err(ConversionError::new(to, format!("`{}` of {}", what.escape_debug(), wire.dialect)));
    }
    (to.format().render)(message)
}

/// The first member that is not known where it stands. Members that say nothing, as they are `null`, are none.
///
/// It reads no more of the text than it must: what a parser refuses elsewhere in it (a number of any size, half of a
/// surrogate pair, deep nesting) hides nothing.
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

/// Whether an address is one that any provider can fetch, and not a place in a cloud's storage.
pub(super) fn is_public(url: &str) -> bool {
    !url.starts_with("s3:") && !url.starts_with("gs:")
}

/// A picture's address, with its bytes in it where they are in the message.
pub(super) fn url(media: &Media) -> Option<String> {
    match (&media.source, &media.mime) {
        (MediaSource::Url(url), _) => Some(url.clone()).filter(|_| is_public(url)),
        (MediaSource::Base64(data), Some(mime)) => Some(format!("data:{mime};base64,{data}")),
        (MediaSource::Base64(_), None) | (MediaSource::Text(_) | MediaSource::Id(_), _) => None,
    }
}
