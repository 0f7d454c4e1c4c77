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
    /// A request body: an object with `messages`.
    Request,
    /// One recorded transcript: an object with `messages` and a name, or with details of how it was made.
    Transcript,
    /// Messages, one per line, or several transcripts.
    Recording,
    /// A session file of Claude Code.
    ClaudeCode,
    /// A request, or items, of OpenAI's Responses API.
    OpenAiResponses,
    /// A request, or contents, of Gemini.
    Gemini,
    /// Messages of Vercel's AI SDK.
    VercelAi,
    /// Messages of LangChain, as it serializes them.
    LangChain,
    /// Conversations of a data set, with `from` and `value`.
    ShareGpt,
    /// A gzip file, which [`read_text`](super::read_text) unpacks.
    Gzip,
    /// UTF-16.
    Utf16,
    /// Nothing but white space.
    Empty,
    /// Anything else.
    Unknown,
}

impl Shape {
    /// Recognizes the format of a file. It reads only as much as it needs, so the rest of the file may be damaged, or
    /// something else.
    ///
    /// ```
    /// use lookback::recording::Shape;
    ///
    /// assert_eq!(Shape::of(br#"{"model": "gemini", "contents": [{"parts": [{"text": "Hi"}]}]}"#), Shape::Gemini);
    /// assert_eq!(Shape::of(br#"[{"role": "user", "content": "Hi"}]"#), Shape::Messages);
    /// ```
    pub fn of(bytes: &[u8]) -> Shape {
        if bytes.starts_with(&GZIP) {
            return Shape::Gzip;
        }
        if UTF16.iter().any(|mark| bytes.starts_with(mark)) {
            return Shape::Utf16;
        }
        std::str::from_utf8(bytes).map_or(Shape::Unknown, Shape::of_text)
    }

    pub(super) fn of_text(text: &str) -> Shape {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
        if text.is_empty() {
            return Shape::Empty;
        }
        if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
            return of_list(whole).or_else(|| of_object(whole)).unwrap_or(Shape::Unknown);
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>().map_while(Result::ok);
        let told = values.find_map(|value| of_object(value).or_else(|| of_list(value)));
        match told {
            Some(Shape::Messages | Shape::Request | Shape::Transcript) => Shape::Recording,
            Some(shape) => shape,
            None => Shape::Unknown,
        }
    }

    /// Returns whether the format is known, but Lookback cannot read it yet.
    pub fn is_foreign(self) -> bool {
        self.foreign().is_some()
    }

    /// Describes a format that Lookback cannot read yet, and says what to do about it.
    fn foreign(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Shape::OpenAiResponses => {
                ("an OpenAI Responses body (`input` items)", "convert its items to Chat Completions messages")
            }
            Shape::Gemini => ("a Gemini body (`contents`)", "convert its contents to Chat Completions messages"),
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

    /// Says what the file looks like, what Lookback reads instead, and what to do.
    pub(super) fn advice(self) -> String {
        let (what, how) = self.foreign().unwrap_or(("an unknown format", "check that it is the right file"));
        format!(
            "this looks like {what}; Lookback reads Chat Completions, Anthropic Messages, Bedrock Converse and Claude Code \
             sessions: {how}"
        )
    }
}

/// Recognizes a list: of messages, of transcripts, or of lists of messages.
fn of_list(value: &RawValue) -> Option<Shape> {
    let elements = elements(value)?;
    let told = of_messages(&elements).or_else(|| {
        let first = elements.first()?;
        of_object(first).or_else(|| of_messages(&self::elements(first)?))
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

/// Recognizes the messages of one conversation. If any of them has a foreign format, that decides.
fn of_messages(elements: &[&RawValue]) -> Option<Shape> {
    let Some(first) = elements.first() else { return Some(Shape::Messages) };
    let told = |element: &RawValue| Object::read(element)?.of_message();
    let foreign = elements.iter().filter_map(|element| told(element)).find(|shape| shape.is_foreign());
    foreign.or_else(|| match told(first)? {
        Shape::Recording => Some(Shape::Messages),
        shape => Some(shape),
    })
}

fn elements(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| parse(value))?
}

/// Recognizes an object. [`Shape::Recording`] means one message.
fn of_object(value: &RawValue) -> Option<Shape> {
    let object = Object::read(value)?;
    if let Some(shape) = object.of_message() {
        Some(shape)
    } else if object.has("messages") {
        object.with_messages()
    } else if object.first("conversations").is_some_and(|turn| turn.has("from")) {
        Some(Shape::ShareGpt)
    } else if object.first("contents").is_some_and(|content| content.has("parts")) {
        Some(Shape::Gemini)
    } else if object.has("input")
        && (object.has_any(&["model", "instructions", "previous_response_id"]) || object.first("input").is_some())
    {
        Some(Shape::OpenAiResponses)
    } else {
        None
    }
}

/// The members of an object, without those that are `null`.
struct Object<'a>(HashMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    fn read(value: &'a RawValue) -> Option<Self> {
        // What is read as another type than it is makes an error that quotes it in full.
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

    /// Recognizes a message. [`Shape::Recording`] means one that Lookback reads.
    fn of_message(&self) -> Option<Shape> {
        let kind = self.text("type");
        if self.is_claude_code(&kind) {
            Some(Shape::ClaudeCode)
        } else if self.is_langchain(&kind) {
            Some(Shape::LangChain)
        } else if self.has("call_id") && matches!(&*kind, "function_call" | "function_call_output") {
            Some(Shape::OpenAiResponses)
        } else if self.has("role") {
            Some(self.with_role())
        } else {
            None
        }
    }

    /// Returns whether it is a line of a Claude Code session: a message in its envelope, or one of the many kinds of
    /// notes.
    fn is_claude_code(&self, kind: &str) -> bool {
        let of_session = self.has_any(&["sessionId", "session_id"]);
        match kind {
            "" => false,
            "user" | "assistant" => self.has("message") && (of_session || self.has_any(&["uuid", "parentUuid"])),
            "summary" => self.has("leafUuid"),
            "file-history-snapshot" => self.has("snapshot"),
            _ => of_session && !self.has_any(&["role", "messages"]),
        }
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
        if !parts.is_empty() && !self.has("content") {
            return Shape::Gemini;
        }
        for block in self.objects("content") {
            match &*block.text("type") {
                "tool-call" | "tool-result" => return Shape::VercelAi,
                "input_text" | "output_text" | "input_image" | "input_file" => return Shape::OpenAiResponses,
                _ => {}
            }
        }
        Shape::Recording
    }

    /// Recognizes an object with `messages`.
    fn with_messages(&self) -> Option<Shape> {
        const OF_REQUESTS: [&str; 6] =
            ["max_tokens", "max_completion_tokens", "temperature", "stream", "inferenceConfig", "anthropic_version"];
        const OF_TRANSCRIPTS: [&str; 3] = ["id", "meta", "usage"];
        match of_messages(&elements(self.get("messages")?)?)? {
            Shape::Messages if !self.has_any(&OF_REQUESTS) && self.has_any(&OF_TRANSCRIPTS) => Some(Shape::Transcript),
            Shape::Messages => Some(Shape::Request),
            shape if shape.is_foreign() => Some(shape),
            _ => None,
        }
    }
}
