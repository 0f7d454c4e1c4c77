//! Recognizing the format of a file by its first values.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::parse;

/// The first bytes of a gzip file.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The byte order marks of UTF-16.
pub(super) const UTF16: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// A session file of Claude Code.
    ClaudeCode,
    /// Messages of Vercel's AI SDK.
    VercelAi,
    /// Messages of LangChain, as it serializes them.
    LangChain,
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

    pub(super) fn detect_text(text: &str) -> Shape {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
        if text.is_empty() {
            return Shape::Empty;
        }
        if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
            return detect_list(whole).or_else(|| detect_object(whole)).unwrap_or(Shape::Unknown);
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
            Shape::Recording
            | Shape::ClaudeCode
            | Shape::VercelAi
            | Shape::LangChain
            | Shape::ShareGpt
            | Shape::Gzip
            | Shape::Utf16 => false,
        }
    }

    /// Describes a format that Lookback cannot read, and how to convert it.
    fn foreign(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Shape::VercelAi => ("messages of the Vercel AI SDK", "record the requests that it sends to the provider"),
            Shape::LangChain => {
                ("messages of LangChain", "convert them with `convert_to_openai_messages` of langchain_core")
            }
            Shape::ShareGpt => {
                ("conversations of a data set (`from`, `value`)", "rename `from` to `role`, and `value` to `content`")
            }
            Shape::Gzip => ("a gzip file", "unpack it"),
            Shape::Utf16 => ("UTF-16", "convert it to UTF-8"),
            Shape::Messages
            | Shape::Request
            | Shape::Transcript
            | Shape::Recording
            | Shape::ClaudeCode
            | Shape::Empty
            | Shape::Unknown => return None,
        })
    }

    /// Returns the text of an error: the format of the file, the formats that Lookback reads, and how to convert the
    /// file.
    pub(super) fn advice(self) -> String {
        let (what, how) = self.foreign().unwrap_or(("an unknown format", "check that it is the right file"));
        format!(
            "this looks like {what}; Lookback reads Chat Completions, Responses, Anthropic Messages, Bedrock Converse, \
             Gemini and Claude Code sessions: {how}"
        )
    }
}

/// Recognizes a list: of messages, of transcripts, or of lists of messages.
fn detect_list(value: &RawValue) -> Option<Shape> {
    let elements = elements(value)?;
    let told = detect_messages(&elements).or_else(|| {
        let first = elements.first()?;
        detect_object(first).or_else(|| detect_messages(&self::elements(first)?))
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

fn elements(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| parse(value))?
}

/// The members that may contain the messages of a request or a transcript.
pub(super) const LISTS: [&str; 3] = ["messages", "input", "contents"];

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

/// The members of an object, without those that are `null`.
struct Object<'a>(HashMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    fn read(value: &'a RawValue) -> Option<Self> {
        // Check the type first: serde's error about a wrong type would quote the whole value.
        value.get().starts_with('{').then(|| parse(value))?.map(Object)
    }

    fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.get(key).copied().filter(|value| value.get() != "null")
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn has_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.has(key))
    }

    fn text(&self, key: &str) -> String {
        self.get(key).filter(|value| value.get().starts_with('"')).and_then(parse).unwrap_or_default()
    }

    fn objects(&self, key: &str) -> Vec<Object<'a>> {
        let elements = self.get(key).and_then(elements).unwrap_or_default();
        elements.into_iter().filter_map(Object::read).collect()
    }

    fn first(&self, key: &str) -> Option<Object<'a>> {
        self.objects(key).into_iter().next()
    }

    /// Recognizes a message. [`Shape::Recording`] means a message that Lookback reads.
    fn detect_message(&self) -> Option<Shape> {
        let kind = self.text("type");
        if self.is_claude_code(&kind) {
            Some(Shape::ClaudeCode)
        } else if self.is_langchain(&kind) {
            Some(Shape::LangChain)
        } else if self.is_item(&kind) {
            Some(Shape::Recording)
        } else if self.has_any(&["role", "parts"]) {
            // A content of Gemini may leave out its role.
            Some(self.with_role())
        } else {
            None
        }
    }

    /// Returns whether the object is a line of a Claude Code session: a message in its envelope, or one of many other
    /// kinds of lines.
    fn is_claude_code(&self, kind: &str) -> bool {
        let of_session = self.has_any(&["sessionId", "session_id"]);
        match kind {
            "" => false,
            "user" | "assistant" => self.has("message") && (of_session || self.has_any(&["uuid", "parentUuid"])),
            "summary" => self.has("leafUuid"),
            "file-history-snapshot" => self.has("snapshot"),
            _ => of_session && !self.has_any(&["role", "messages"]) && !self.is_item(kind),
        }
    }

    /// Returns whether the object is an item of OpenAI's Responses without a role.
    fn is_item(&self, kind: &str) -> bool {
        let is_call = kind.ends_with("_call") || kind.ends_with("_output");
        (is_call && self.has_any(&["call_id", "id"]))
            || (kind == "reasoning" && self.has_any(&["summary", "encrypted_content", "content"]))
            || matches!(kind, "item_reference" | "compaction" | "compaction_trigger" | "additional_tools")
    }

    fn is_langchain(&self, kind: &str) -> bool {
        let is_message = matches!(kind, "human" | "ai" | "system" | "tool" | "function" | "chat");
        (self.has("lc") && kind == "constructor")
            || (is_message && !self.has("role") && self.has_any(&["data", "content"]))
    }

    /// Recognizes a message with a role.
    fn with_role(&self) -> Shape {
        let parts = self.objects("parts");
        if self.has("toolInvocations") || parts.iter().any(|part| part.has("type")) {
            return Shape::VercelAi;
        }
        let is_vercel = |block: Object<'_>| matches!(&*block.text("type"), "tool-call" | "tool-result");
        if self.objects("content").into_iter().any(is_vercel) { Shape::VercelAi } else { Shape::Recording }
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
        match detect_messages(&elements(messages)?)? {
            Shape::Messages if !self.has_any(&OF_REQUESTS) && self.has_any(&OF_TRANSCRIPTS) => Some(Shape::Transcript),
            Shape::Messages => Some(Shape::Request),
            shape if shape.foreign().is_some() => Some(shape),
            _ => None,
        }
    }
}
