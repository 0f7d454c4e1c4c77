//! A request body whose messages are decoded only on demand.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

use super::{DecodeError, Dialect, Preamble, Target, detect};
use crate::cache_marker;
use crate::message::{Message, PartRef};
use lookback_content::json::{self, Fields, SyntaxError};

/// The members of a body that may have the messages, in the order of the search.
const LISTS: [&str; 3] = ["messages", "input", "contents"];

/// A request body, or a bare list, whose messages are not decoded yet.
///
/// A client sends its whole history with each request. A server that recognizes most of it by its bytes needs to decode
/// only the new messages.
///
/// ```
/// use lookback_wire::dialect::{Dialect, RawRequest};
///
/// let body = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}"#;
/// let request = RawRequest::read(body, Some(Dialect::OpenAiChat))?;
/// assert_eq!(request.len(), 2);
/// assert_eq!(request.bytes(1), Some(r#"{"role":"assistant","content":"Hello"}"#));
/// assert_eq!(request.message(1)?.text(), "Hello");
/// # Ok::<(), lookback_wire::dialect::RequestError>(())
/// ```
#[derive(Clone)]
pub struct RawRequest<'a> {
    text: &'a str,
    dialect: Dialect,
    /// All members. A bare list has none.
    fields: Option<Fields<'a>>,
    /// The list of messages, or `None` if the body names stored content instead.
    list: Option<&'a RawValue>,
    /// The elements of the list.
    elements: Vec<Cow<'a, RawValue>>,
    /// The elements that form each message.
    spans: Vec<Range<usize>>,
    /// The messages that have been decoded.
    decoded: Vec<OnceLock<Arc<Message>>>,
}

/// An error from reading a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct RequestError(#[from] RequestFault);

impl RequestError {
    /// Creates the error of a list without a message at this index.
    #[doc(hidden)]
    pub fn no_message(list: &'static str, index: usize) -> Self {
        RequestFault::NoMessage { list, index }.into()
    }

    /// Returns the place of the message with the error, such as `messages[2]`. `None` if the whole request is wrong.
    pub fn place(&self) -> Option<String> {
        match &self.0 {
            RequestFault::Message { list, index, .. } | RequestFault::NoMessage { list, index } => {
                Some(format!("{list}[{index}]"))
            }
            RequestFault::Utf8 { .. } | RequestFault::Syntax(_) | RequestFault::NoMessages => None,
        }
    }
}

/// The reason of a [`RequestError`]. `list` is the member of a body that has the messages, such as `messages`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestFault {
    #[error("not valid UTF-8 at byte {at}")]
    Utf8 { at: usize },
    #[error("not valid JSON: {0}")]
    Syntax(SyntaxError),
    #[error("neither a list of messages nor a request body with `messages`, `input` or `contents`")]
    NoMessages,
    #[error("there is no {list}[{index}]")]
    NoMessage { list: &'static str, index: usize },
    #[error("{list}[{index}]: {fault}")]
    Message { list: &'static str, index: usize, fault: DecodeError },
}

impl<'a> RawRequest<'a> {
    /// Reads a request body, or a bare list of messages.
    ///
    /// If `dialect` is `None`, it is detected from the keys of the body, then from the shapes of the parts. If neither
    /// shows it, it is `openai-chat`.
    ///
    /// # Errors
    /// Returns an error if the text is not a request. The messages are not checked.
    pub fn read(text: &'a str, dialect: Option<Dialect>) -> Result<Self, RequestError> {
        let syntax = |error: serde_json::Error| RequestFault::Syntax(SyntaxError::from(error));
        // For any other value than an object, the parser would make an error that quotes all of its text.
        let is_object = text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('{');
        let fields: Option<Fields<'a>> =
            if is_object { Some(serde_json::from_str(text).map_err(syntax)?) } else { None };
        let member = |name: &str| fields.as_ref().and_then(|fields| fields.borrowed(name));
        let of_dialect = || dialect.and_then(|dialect| member(dialect.format().messages));
        let list: Option<&'a RawValue> = match &fields {
            Some(_) => of_dialect().or_else(|| LISTS.into_iter().find_map(member)).filter(|list| list.get() != "null"),
            None => Some(serde_json::from_str(text).map_err(syntax)?),
        };
        let elements: Vec<Cow<'a, RawValue>> = match list {
            // In OpenAI's Responses, a string is a user message.
            Some(list)
                if json::text(list).is_some() && member("input").is_some_and(|input| std::ptr::eq(input, list)) =>
            {
                vec![Cow::Owned(json::object([("role", json::string("user")), ("content", list.to_owned())]))]
            }
            Some(list) => json::array(list).ok_or(RequestFault::NoMessages)?.into_iter().map(Cow::Borrowed).collect(),
            None => Vec::new(),
        };
        let raw: Vec<&RawValue> = elements.iter().map(|element| &**element).collect();
        let found = || detect::first(detect::clues(fields.as_ref(), raw.iter().copied()));
        let dialect = dialect.or_else(|| found().map(|clue| clue.dialect)).unwrap_or_default();
        let is_named = |name: &&str| member(name).is_some_and(|value| !["null", "\"\""].contains(&value.get()));
        if list.is_none() && !dialect.format().instead.iter().any(is_named) {
            return Err(RequestFault::NoMessages.into());
        }
        let spans = dialect.spans(&raw);
        let decoded = std::iter::repeat_with(OnceLock::new).take(spans.len()).collect();
        Ok(RawRequest { text, dialect, fields, list, elements, spans, decoded })
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the bytes of a message: from its first element to its last.
    pub fn bytes(&self, index: usize) -> Option<&str> {
        let span = self.spans.get(index)?;
        match (self.elements.get(span.start)?, self.elements.get(span.end.checked_sub(1)?)?) {
            (Cow::Borrowed(first), Cow::Borrowed(last)) => self.text.get(self.range(first).start..self.range(last).end),
            (first, _) => Some(first.get()),
        }
    }

    /// Returns a message, which is decoded on first use.
    ///
    /// # Errors
    /// Returns an error if the message cannot be read, or if there is none with this index.
    pub fn message(&self, index: usize) -> Result<&Arc<Message>, RequestError> {
        let list = self.dialect.format().messages;
        let missing = || RequestFault::NoMessage { list, index };
        let (span, decoded) = self.spans.get(index).zip(self.decoded.get(index)).ok_or_else(missing)?;
        if let Some(message) = decoded.get() {
            return Ok(message);
        }
        let pieces: Vec<&RawValue> =
            self.elements.get(span.clone()).unwrap_or_default().iter().map(|element| &**element).collect();
        let message = self.dialect.decode_pieces(&pieces);
        let message = message.map_err(|(at, fault)| RequestFault::Message { list, index: span.start + at, fault })?;
        Ok(decoded.get_or_init(|| Arc::new(message)))
    }

    /// Returns whether the provider stores the answer, so that a later request may name it in place of its contents.
    #[doc(hidden)]
    pub fn is_answer_stored(&self) -> bool {
        self.dialect.format().reference.is_some() && !self.target().stateless
    }

    /// Decodes all messages.
    ///
    /// # Errors
    /// Returns an error if any message cannot be read.
    pub(crate) fn into_messages(self) -> Result<Vec<Message>, RequestError> {
        for index in 0..self.len() {
            self.message(index)?;
        }
        Ok(self.decoded.into_iter().filter_map(OnceLock::into_inner).map(Arc::unwrap_or_clone).collect())
    }

    /// Returns the system prompt and the tools, if they are outside the messages.
    pub fn preamble(&self) -> Preamble {
        Preamble::from_body(self.dialect, |key| self.member(key).map(ToOwned::to_owned))
    }

    /// Returns the model, if the body names one.
    pub(crate) fn model(&self) -> Option<String> {
        let name = |key| json::text(self.fields.as_ref()?.get(key)?).map(Cow::into_owned);
        name("model").or_else(|| name("modelId"))
    }

    /// Returns the target of the request, as far as the body shows it.
    pub fn target(&self) -> Target {
        let stateless = self.member("store").is_some_and(|store| store.get() == "false");
        let target = Target { stored: self.stored().is_some(), stateless, ..Target::from(self.dialect) };
        match self.model() {
            Some(model) => target.with_model(model),
            None => target,
        }
    }

    /// Returns a member of the body, or `None` if it is absent or null.
    pub fn member(&self, name: &str) -> Option<&RawValue> {
        self.fields.as_ref()?.get(name).filter(|value| value.get() != "null")
    }

    /// Returns an answer to this request as a later request can send it.
    ///
    /// In OpenAI's Responses, if `store` is false, reasoning without `encrypted_content` is left out, because the
    /// provider would look it up and not find it (rule OR3). The identifiers of the other items are then left out, too.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, RawRequest};
    ///
    /// let body = r#"{"store":false,"input":[{"role":"user","content":"Hi"}]}"#;
    /// let request = RawRequest::read(body, Some(Dialect::OpenAiResponses))?;
    /// let answer = r#"[{"type":"reasoning","id":"rs_1","summary":[]},{"role":"assistant","content":"Hello"}]"#;
    /// let answer = request.resendable(Dialect::OpenAiResponses.decode(answer)?);
    /// assert_eq!(answer.wire().unwrap().raw.get(), r#"[{"role":"assistant","content":"Hello"}]"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn resendable(&self, answer: Message) -> Message {
        (self.dialect.format().resendable)(self, answer)
    }

    /// Returns the member that names stored content, or the type of an item that refers to it (see
    /// [`Request::stored`](super::Request::stored)).
    pub fn stored(&self) -> Option<&'static str> {
        let format = self.dialect.format();
        let is_named = |name: &&&str| self.member(name).is_some_and(|value| value.get() != "\"\"");
        // Most messages do not contain the word, and need not be decoded.
        let refers = |index: usize, word: &str| {
            let is_reference = |part| matches!(part, PartRef::Opaque(opaque) if opaque.kind == word);
            self.bytes(index).is_some_and(|bytes| bytes.contains(word))
                && self.message(index).is_ok_and(|message| message.parts().any(is_reference))
        };
        let refers = || format.reference.filter(|word| (0..self.len()).any(|index| refers(index, word)));
        format.stored.iter().find(is_named).copied().or_else(refers)
    }

    /// Returns whether the answer must have a given format, such as a JSON schema. Agents rarely ask their main
    /// questions this way. They use it for titles, routes and facts.
    ///
    /// ```
    /// use lookback_wire::dialect::RawRequest;
    ///
    /// let body = r#"{"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}}"#;
    /// assert!(RawRequest::read(body, None)?.demands_form());
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn demands_form(&self) -> bool {
        self.says(self.dialect.format().answer_forms)
    }

    /// Returns whether the request asks the provider to shorten a long conversation itself. The client still sends the
    /// whole conversation.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, RawRequest};
    ///
    /// let body = r#"{"input":"Hi","context_management":[{"type":"compaction","compact_threshold":100000}]}"#;
    /// assert!(RawRequest::read(body, Some(Dialect::OpenAiResponses))?.is_shortened_by_provider());
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn is_shortened_by_provider(&self) -> bool {
        self.says(self.dialect.format().shorteners)
    }

    /// Returns whether the request forbids the model to call tools.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, RawRequest};
    ///
    /// for (dialect, body) in [
    ///     (Dialect::OpenAiChat, r#"{"messages":[],"tool_choice":"none"}"#),
    ///     (Dialect::OpenAiResponses, r#"{"input":[],"tool_choice":"none"}"#),
    ///     (Dialect::Anthropic, r#"{"messages":[],"tool_choice":{"type":"none"}}"#),
    ///     (Dialect::Gemini, r#"{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}"#),
    /// ] {
    ///     assert!(RawRequest::read(body, Some(dialect))?.forbids_calls());
    /// }
    /// let body = r#"{"messages":[],"tool_choice":"auto"}"#;
    /// assert!(!RawRequest::read(body, Some(Dialect::OpenAiChat))?.forbids_calls());
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    #[doc(hidden)]
    pub fn forbids_calls(&self) -> bool {
        self.says(self.dialect.format().call_bans)
    }

    /// Returns the seconds for which the provider's cache keeps the request after its last use, if the request says so.
    #[doc(hidden)]
    pub fn cache_lifetime(&self) -> Option<u64> {
        cache_marker::lifetime(self.text, |name| self.member(name))
    }

    /// Returns whether the value of one of these members contains one of its words.
    fn says(&self, members: &[(&str, &[&str])]) -> bool {
        let says = |(member, words): &(&str, &[&str])| {
            self.member(member).is_some_and(|value| words.iter().any(|word| value.get().contains(word)))
        };
        members.iter().any(says)
    }

    /// Returns whether this is a body, and not a bare list.
    #[doc(hidden)]
    pub fn is_body(&self) -> bool {
        self.fields.is_some()
    }

    /// Returns the members with their ranges in the text.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.fields.iter().flat_map(Fields::iter).map(|(name, value)| (name, self.range(value)))
    }

    /// Returns the text that the request was read from.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the range of a member's value in the text, if the body has the member.
    pub(super) fn range_of(&self, name: &str) -> Option<Range<usize>> {
        Some(self.range(self.fields.as_ref()?.get(name)?))
    }

    /// Returns the ranges of the list's elements in the text. If the input is a string, there are none.
    pub(super) fn places(&self) -> Vec<Range<usize>> {
        let place = |element: &Cow<'a, RawValue>| match element {
            Cow::Borrowed(element) => Some(self.range(element)),
            Cow::Owned(_) => None,
        };
        self.elements.iter().filter_map(place).collect()
    }

    /// Returns whether the input is a string, and these messages are its decoded form.
    pub(super) fn is_text(&self, messages: &[&RawValue]) -> bool {
        match (self.elements.as_slice(), messages) {
            ([Cow::Owned(own)], [only]) => own.get() == only.get(),
            _ => false,
        }
    }

    /// Returns the range of the list of messages in the text.
    pub(super) fn list_range(&self) -> Option<Range<usize>> {
        self.list.map(|list| self.range(list))
    }

    /// Returns the range of a value in the text. Raw values are slices of the text, so it follows from their addresses.
    pub(super) fn range(&self, value: &RawValue) -> Range<usize> {
        let start = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + value.get().len()
    }
}

impl fmt::Debug for RawRequest<'_> {
    /// Prints lengths without contents, because debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRequest")
            .field("dialect", &self.dialect)
            .field("messages", &self.len())
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}
