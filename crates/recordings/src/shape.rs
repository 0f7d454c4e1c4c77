//! Recognizing the format of a file by its first values.

use lookback_content::json;
use serde_json::value::RawValue;

use crate::formats;
use crate::object::Object;

/// The first bytes of a gzip file.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The byte order marks of UTF-16.
pub(crate) const UTF16: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(hidden)]
#[non_exhaustive]
pub enum Shape {
    /// A list of messages.
    Messages,
    /// A request body: an object with `messages`, `input` or `contents`.
    Request,
    /// One recorded transcript: such an object with a name or with metadata.
    Transcript,
    /// Messages, one per line, or several transcripts.
    Recording,
    /// The log of an agent, or messages of a library, in their own format.
    Log,
    /// Conversations of a data set in the ShareGPT format, with `from` and `value`.
    ShareGpt,
    /// A gzip file, which [`read_text`](super::read_text) unpacks.
    Gzip,
    /// UTF-16.
    Utf16,
    /// Only white space.
    Empty,
    /// Anything else.
    Unknown,
}

impl Shape {
    /// Recognizes the format of a file. It reads only the first values, so the rest of the file may be damaged or in
    /// another format.
    ///
    /// ```
    /// use lookback_recordings::Shape;
    ///
    /// assert_eq!(Shape::detect(br#"{"contents": [{"parts": [{"text": "Hi"}]}]}"#), Shape::Request);
    /// assert_eq!(Shape::detect(br#"[{"role": "user", "content": "Hi"}]"#), Shape::Messages);
    /// ```
    pub fn detect(bytes: &[u8]) -> Shape {
        if bytes.starts_with(&GZIP) {
            return Shape::Gzip;
        }
        if UTF16.iter().any(|mark| bytes.starts_with(mark)) {
            return Shape::Utf16;
        }
        std::str::from_utf8(bytes).map_or(Shape::Unknown, Shape::detect_text)
    }

    pub(crate) fn detect_text(text: &str) -> Shape {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
        if text.is_empty() {
            return Shape::Empty;
        }
        if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
            if formats::of(text).is_some() {
                return Shape::Log;
            }
            return detect_list(whole).or_else(|| detect_object(whole)).unwrap_or(Shape::Unknown);
        }
        if formats::of(text).is_some() {
            return Shape::Log;
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>().map_while(Result::ok);
        let told = values.find_map(|value| detect_object(value).or_else(|| detect_list(value)));
        match told {
            Some(Shape::Messages | Shape::Request | Shape::Transcript) => Shape::Recording,
            Some(shape) => shape,
            None => Shape::Unknown,
        }
    }

    /// Returns whether the file is one conversation: a list of messages, or the body of a request. A file in an unknown
    /// format is also treated as one conversation, so that reading it gives a precise error.
    pub fn is_conversation(self) -> bool {
        match self {
            Shape::Messages | Shape::Request | Shape::Transcript | Shape::Empty | Shape::Unknown => true,
            Shape::Recording | Shape::Log | Shape::ShareGpt | Shape::Gzip | Shape::Utf16 => false,
        }
    }

    /// Returns the name of a format that Lookback does not read, and how to convert it.
    pub(crate) fn foreign(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Shape::ShareGpt => {
                ("conversations of a data set (`from`, `value`)", "rename `from` to `role`, and `value` to `content`")
            }
            Shape::Gzip => ("a gzip file", "unpack it"),
            Shape::Utf16 => ("UTF-16", "convert it to UTF-8"),
            Shape::Messages
            | Shape::Request
            | Shape::Transcript
            | Shape::Recording
            | Shape::Log
            | Shape::Empty
            | Shape::Unknown => return None,
        })
    }
}

/// Recognizes a list: of messages, of transcripts, or of lists of messages.
fn detect_list(value: &RawValue) -> Option<Shape> {
    let elements = json::array(value)?;
    let told = detect_messages(&elements).or_else(|| {
        let first = elements.first()?;
        detect_object(first).or_else(|| detect_messages(&json::array(first)?))
    });
    match told? {
        Shape::Messages if !starts_with_object(&elements) && !elements.is_empty() => Some(Shape::Recording),
        Shape::Request | Shape::Transcript => Some(Shape::Recording),
        shape => Some(shape),
    }
}

fn starts_with_object(elements: &[&RawValue]) -> bool {
    elements.first().is_some_and(|first| first.get().starts_with('{'))
}

/// Recognizes the messages of one conversation. If any of them has a foreign format, that is the result.
fn detect_messages(elements: &[&RawValue]) -> Option<Shape> {
    let Some(first) = elements.first() else { return Some(Shape::Messages) };
    let told = |element: &RawValue| Object::read(element)?.detect_message();
    let foreign = elements.iter().filter_map(|element| told(element)).find(|shape| shape.foreign().is_some());
    foreign.or_else(|| match told(first)? {
        Shape::Recording => Some(Shape::Messages),
        shape => Some(shape),
    })
}

/// The members that may contain the messages of a request or a transcript.
pub(crate) const LISTS: [&str; 3] = ["messages", "input", "contents"];

/// Recognizes an object. [`Shape::Recording`] means one message.
fn detect_object(value: &RawValue) -> Option<Shape> {
    let object = Object::read(value)?;
    if let Some(shape) = object.detect_message() {
        Some(shape)
    } else if object.first("conversations").is_some_and(|turn| turn.has("from")) {
        Some(Shape::ShareGpt)
    } else {
        let list = LISTS.into_iter().find(|list| object.has(list))?;
        object.with_messages(list)
    }
}

impl Object<'_> {
    /// Recognizes a message. [`Shape::Recording`] means a message that Lookback reads.
    fn detect_message(&self) -> Option<Shape> {
        let kind = self.text("type");
        if self.is_item(&kind) {
            Some(Shape::Recording)
        } else if self.has_any(&["role", "parts"]) {
            // A content of Gemini may leave out its role.
            Some(Shape::Recording)
        } else {
            None
        }
    }

    /// Returns whether the object is an item of OpenAI's Responses without a role.
    fn is_item(&self, kind: &str) -> bool {
        let is_call = kind.ends_with("_call") || kind.ends_with("_output");
        (is_call && self.has_any(&["call_id", "id"]))
            || (kind == "reasoning" && self.has_any(&["summary", "encrypted_content", "content"]))
            || matches!(kind, "item_reference" | "compaction" | "compaction_trigger" | "additional_tools")
    }

    /// Recognizes an object with messages in this member.
    fn with_messages(&self, list: &str) -> Option<Shape> {
        const OF_REQUESTS: [&str; 9] = [
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "temperature",
            "stream",
            "store",
            "inferenceConfig",
            "generationConfig",
            "anthropic_version",
        ];
        const OF_TRANSCRIPTS: [&str; 3] = ["id", "meta", "usage"];
        let messages = self.get(list)?;
        // The input of a request may be a text.
        if list == "input" && messages.get().starts_with('"') {
            return self.has_any(&["model", "instructions", "previous_response_id"]).then_some(Shape::Request);
        }
        match detect_messages(&json::array(messages)?)? {
            Shape::Messages if !self.has_any(&OF_REQUESTS) && self.has_any(&OF_TRANSCRIPTS) => Some(Shape::Transcript),
            Shape::Messages => Some(Shape::Request),
            shape if shape.foreign().is_some() => Some(shape),
            _ => None,
        }
    }
}
