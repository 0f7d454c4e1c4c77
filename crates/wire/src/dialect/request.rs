//! Request bodies and bare lists of messages, whose bytes outside the messages are kept.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::value::RawValue;

use super::raw_request::RequestFault;
use super::reasoning_prefix::{self, Signed};
use super::{Dialect, Finding, Place, Preamble, RawRequest, RequestError, Rule, Target};
use crate::message::Message;
use lookback_content::json;
use lookback_models::Provider;

/// A decoded request body, or a decoded list of messages.
///
/// ```
/// use lookback_wire::dialect::Request;
///
/// let body = r#"{"model": "gpt-4o", "messages": [{"role":"user","content":"Hi"}], "temperature": 0.70}"#;
/// let request = Request::decode(body.as_bytes(), None)?;
/// assert_eq!(request.messages().len(), 1);
/// let none: [Box<serde_json::value::RawValue>; 0] = [];
/// assert_eq!(request.with_messages(&none), r#"{"model": "gpt-4o", "messages": [], "temperature": 0.70}"#);
/// # Ok::<(), lookback_wire::dialect::RequestError>(())
/// ```
#[derive(Clone)]
pub struct Request {
    text: String,
    dialect: Dialect,
    messages: Vec<Message>,
    /// The range of the list of messages in `text`, if there is one.
    list: Option<Range<usize>>,
    /// The ranges of all members in `text`, by name. A bare list has none.
    members: Vec<(String, Range<usize>)>,
    body: bool,
    preamble: Preamble,
    target: Target,
    stored: Option<&'static str>,
    version: Option<String>,
    /// The signed reasoning of the previous request.
    previous: Vec<Signed>,
}

impl Request {
    /// Reads a request body, or a bare list of messages.
    ///
    /// If `dialect` is `None`, it is detected from the keys of the body, then from the shapes of the parts. If neither
    /// shows it, it is `openai-chat`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a request, or if any message in it cannot be read. Nothing is skipped.
    pub fn decode(bytes: impl Into<Vec<u8>>, dialect: Option<Dialect>) -> Result<Self, RequestError> {
        let text =
            String::from_utf8(bytes.into()).map_err(|e| RequestFault::Utf8 { at: e.utf8_error().valid_up_to() })?;
        let raw = RawRequest::read(&text, dialect)?;
        let (dialect, list, body) = (raw.dialect(), raw.list_range(), raw.is_body());
        let members = raw.members().map(|(name, range)| (name.to_owned(), range)).collect();
        let (preamble, stored, target) = (raw.preamble(), raw.stored(), raw.target());
        let version = raw.member("anthropic_version").and_then(json::text).map(Cow::into_owned);
        let messages = raw.into_messages()?;
        Ok(Request {
            dialect,
            messages,
            list,
            members,
            body,
            preamble,
            target,
            stored,
            version,
            text,
            previous: Vec::new(),
        })
    }

    /// Sets the version of the API, which clients send in a header. Some rules depend on it.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, Request};
    ///
    /// let body = r#"{"temperature": 0.5, "max_tokens": 9, "messages": [{"role":"user","content":"Hi"}]}"#;
    /// let request = Request::decode(body, Some(Dialect::Anthropic))?;
    /// assert!(Dialect::Anthropic.check(&request).is_empty());
    /// let findings = Dialect::Anthropic.check(&request.with_version("2026-10-21"));
    /// assert_eq!((findings[0].rule, findings[0].path.as_str()), ("AM12", "temperature"));
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    #[must_use]
    pub fn with_version(self, version: impl Into<String>) -> Self {
        Request { version: Some(version.into()), ..self }
    }

    /// Sets the provider and the model from the path of the request's URL. For Gemini and Bedrock, the path has the
    /// model.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, Request};
    ///
    /// let body = r#"{"contents": [{"role":"user","parts":[{"text":" "}]}]}"#;
    /// let request = Request::decode(body, None)?;
    /// // Only Vertex AI refuses a blank text.
    /// let path = "/v1/projects/p/locations/global/publishers/google/models/gemini-3-flash:generateContent";
    /// assert_eq!(Dialect::Gemini.check(&request.with_path(path))[0].rule, "GM6");
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    #[must_use]
    pub fn with_path(self, path: &str) -> Self {
        Request { target: self.target.with_path(path), ..self }
    }

    /// Sets the provider of the request. Some rules apply only to one provider.
    #[must_use]
    pub fn with_provider(self, provider: Provider) -> Self {
        Request { target: self.target.with_provider(provider), ..self }
    }

    /// Sets the model, if it is not in the body.
    #[must_use]
    pub fn with_model(self, model: impl Into<String>) -> Self {
        Request { target: self.target.with_model(model), ..self }
    }

    /// Returns the target of the request, as far as it is known.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sets the previous request of the same conversation. Some rules forbid changes between the two.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, Request};
    ///
    /// let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"Yes."}]}"#;
    /// let one = format!(r#"{{"messages": [{{"role":"user","content":"Is it?"}}, {thought}, {{"role":"user","content":"Why?"}}]}}"#);
    /// let previous = Request::decode(one.clone(), Some(Dialect::Anthropic))?;
    /// let same = Request::decode(one.clone(), Some(Dialect::Anthropic))?.after(&previous);
    /// assert!(Dialect::Anthropic.check(&same).is_empty());
    /// let changed = Request::decode(one.replace("Is it?", "Was it?"), Some(Dialect::Anthropic))?.after(&previous);
    /// assert_eq!(Dialect::Anthropic.check(&changed)[0].rule, "AM6");
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    #[must_use]
    pub fn after(self, previous: &Request) -> Self {
        let previous = previous.signed_reasoning().into_iter().map(|(_, _, signed)| signed).collect();
        Request { previous, ..self }
    }

    fn signed_reasoning(&self) -> Vec<(Place<'_>, usize, Signed)> {
        reasoning_prefix::all(self.dialect, &self.preamble, &self.messages)
    }

    /// Finds the reasoning whose prefix has changed since the previous request, if that was set.
    pub(super) fn changed_reasoning(&self, rule: Rule) -> Vec<Finding> {
        if self.previous.is_empty() {
            return Vec::new();
        }
        reasoning_prefix::check(rule, self.dialect, self.signed_reasoning(), &self.previous)
    }

    /// Returns the version of the API, if it was set or the body names it.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Creates a request that is a bare list of messages.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read in this dialect.
    pub fn from_raw(dialect: Dialect, messages: &[impl AsRef<RawValue>]) -> Result<Self, RequestError> {
        let list = json::write_array(json::elements(messages));
        Request::decode(list.get(), Some(dialect))
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Consumes the request and returns its messages.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Returns the messages in the bytes that were received.
    pub(crate) fn raw_messages(&self) -> impl Iterator<Item = &RawValue> {
        self.messages.iter().filter_map(|message| message.wire().map(|wire| &*wire.raw))
    }

    /// Returns the system prompt and the tools, if they are outside the messages.
    pub fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// Returns the model, if the body or the path names one.
    pub fn model(&self) -> Option<&str> {
        self.target.model.as_deref()
    }

    /// Returns a member of the body, or `None` if it is absent or null.
    pub fn member(&self, name: &str) -> Option<&RawValue> {
        let (_, range) = self.members.iter().rev().find(|(known, _)| known == name)?;
        let value: &RawValue = serde_json::from_str(self.text.get(range.clone())?).ok()?;
        (value.get() != "null").then_some(value)
    }

    /// Returns the member that names content stored by the provider, such as `previous_response_id`.
    ///
    /// The model then sees more than these messages. Only the provider knows the rest, so such a request cannot be
    /// measured, and no window can be made from it.
    ///
    /// ```
    /// use lookback_wire::dialect::Request;
    ///
    /// let body = r#"{"previous_response_id": "resp_1", "input": "And then?"}"#;
    /// assert_eq!(Request::decode(body, None)?.stored(), Some("previous_response_id"));
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn stored(&self) -> Option<&'static str> {
        self.stored
    }

    /// Returns whether this is a body, and not a bare list.
    pub fn is_body(&self) -> bool {
        self.body
    }

    /// Returns the length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the text of this request with other messages. Every byte outside the list is kept.
    pub fn with_messages(&self, messages: &[impl AsRef<RawValue>]) -> String {
        self.list.as_ref().map_or_else(|| self.text.clone(), |list| json::spliced(&self.text, list, messages))
    }
}

impl fmt::Debug for Request {
    /// Prints lengths without contents, because debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("dialect", &self.dialect)
            .field("messages", &self.messages.len())
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}
