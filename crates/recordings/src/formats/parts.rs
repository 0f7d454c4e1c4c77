//! The parts of messages, from values in which formats differ.

use lookback_content::json;
use lookback_wire::message::{
    AssistantPart, Media, MediaSource, Reasoning, ResultItem, ToolCall, ToolResult, UserPart,
};
use serde_json::value::RawValue;

use crate::object::Object;

/// Returns a call with these arguments. Arguments that are no object, such as the text of a patch, become the only member
/// of one, because not every dialect has others.
pub(super) fn call(id: &str, name: &str, arguments: Option<&RawValue>) -> AssistantPart {
    let text = arguments.and_then(json::text);
    let arguments = match (&text, arguments) {
        // Some formats have the object as text.
        (Some(text), _) if is_object(text) => text.to_string(),
        (Some(text), _) if text.trim().is_empty() => "{}".to_owned(),
        (_, Some(raw)) if raw.get().starts_with('{') => raw.get().to_owned(),
        (_, Some(raw)) => format!("{{\"input\":{}}}", raw.get()),
        (_, None) => "{}".to_owned(),
    };
    AssistantPart::ToolCall(ToolCall::new(id, name, arguments))
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Returns reasoning with the signature of Anthropic's. Without one, or with another provider's, nobody sends it again.
pub(super) fn reasoning(text: &str, signature: Option<&str>) -> Option<AssistantPart> {
    let signature = signature.filter(|signature| !signature.is_empty() && !signature.starts_with('{'))?;
    Some(AssistantPart::Reasoning(Reasoning::new(text).with_signature(signature)))
}

/// Returns a result with these items.
pub(super) fn result(call: &str, content: Vec<ResultItem>, is_error: bool) -> UserPart {
    let mut result = ToolResult::new(call, "").with_error(is_error);
    result.content = content;
    UserPart::ToolResult(result)
}

/// Returns the text of a value: a string's own text, or any other value as JSON.
pub(super) fn text(value: &RawValue) -> String {
    json::text(value).map_or_else(|| value.get().to_owned(), |text| text.into_owned())
}

/// Returns a text, unless it is empty. Providers refuse empty texts.
pub(super) fn words(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

/// Returns a picture or a file: bytes in base64, or a URL, which may have the bytes in it.
pub(super) fn media(data: &str, mime: Option<&str>) -> Media {
    if let Some((mime, data)) = data.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        return Media::new(MediaSource::Base64(data.to_owned())).with_mime(mime);
    }
    let is_address = data.starts_with("http://") || data.starts_with("https://");
    let source = if is_address { MediaSource::Url(data.to_owned()) } else { MediaSource::Base64(data.to_owned()) };
    let media = Media::new(source);
    mime.map_or(media.clone(), |mime| media.with_mime(mime))
}

/// A part of a list of texts and pictures, as most formats have them.
pub(super) enum Block {
    Text(String),
    Image(Media),
}

impl Block {
    pub(super) fn user(self) -> UserPart {
        match self {
            Block::Text(text) => UserPart::Text(text),
            Block::Image(media) => UserPart::Image(media),
        }
    }

    pub(super) fn result(self) -> ResultItem {
        match self {
            Block::Text(text) => ResultItem::Text(text),
            Block::Image(media) => ResultItem::Image(media),
        }
    }
}

/// Returns the texts and pictures of a content: a string, or a list of strings and of objects with `text`, or with `data`
/// and `mimeType`. `other` reads any other object.
pub(super) fn blocks(content: &RawValue, other: impl Fn(&Object<'_>) -> Option<Block>) -> Vec<Block> {
    if let Some(text) = json::text(content) {
        return words(&text).map(Block::Text).into_iter().collect();
    }
    let block = |value: &RawValue| {
        if let Some(text) = json::text(value) {
            return words(&text).map(Block::Text);
        }
        let object = Object::read(value)?;
        if let Some(found) = other(&object) {
            return Some(found);
        }
        if let Some(data) = object.str("data") {
            return Some(Block::Image(media(&data, object.str("mimeType").as_deref())));
        }
        words(&object.str("text")?).map(Block::Text)
    };
    json::array(content).unwrap_or_default().into_iter().filter_map(block).collect()
}
