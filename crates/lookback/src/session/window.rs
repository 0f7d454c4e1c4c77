//! A window: the messages for one model call.

use std::borrow::Cow;

use lookback_core::dialect::{self, Shown};
use lookback_core::plan::Plan;
use lookback_core::policy::Excess;
use lookback_core::transcript::Entry;
use lookback_core::view::View;
use lookback_core::{ConversionError, Dialect};
use serde_json::value::RawValue;

use super::source::{MessageSource, sources};

/// The messages that are sent in one model call.
#[derive(Debug)]
pub struct Window<'a> {
    pub(super) view: Cow<'a, View>,
    pub(super) dialect: Dialect,
    pub(super) tokens: u64,
    pub(super) plan: Option<Plan>,
    pub(super) over: Vec<Excess>,
    pub(super) entries: Vec<Entry>,
}

impl Window<'_> {
    /// Returns the messages, in the session's dialect.
    ///
    /// # Errors
    /// Returns an error if the dialect cannot express a message. That happens only if the session was written in
    /// another dialect: [`Session::push`](super::Session::push) refuses such messages.
    pub fn messages(&self) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        self.view.encode(self.dialect)
    }

    /// Returns where each of [`Window::messages`] comes from, in the same order: the log entries that it was made of,
    /// and whether they are sent as they were pushed. An adapter for a framework can then return the framework's own
    /// objects for unchanged messages. It costs less than encoding, because no JSON is written for unchanged messages.
    ///
    /// # Errors
    /// The same as [`Window::messages`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::session::SourceKind;
    /// use lookback::{Dialect, MemoryStore, Message, Session, Settings, ToolCall};
    ///
    /// let settings = Settings::default().dialect(Dialect::Anthropic);
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// let question = session.push(Message::user("What is in notes.txt?")).await?;
    /// session.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")])).await?;
    /// let other = session.push(Message::user("Never mind.")).await?;
    /// let window = session.window().await?;
    /// let sources = window.sources()?;
    /// assert_eq!(sources.len(), window.messages()?.len());
    /// assert_eq!((&sources[0].positions, sources[0].kind), (&question, SourceKind::Unchanged));
    /// // Anthropic wants the stand-in for the missing result and the user's words in one message.
    /// assert_eq!(sources[2].kind, SourceKind::Changed);
    /// assert!(sources[2].positions.ends_with(&other));
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn sources(&self) -> Result<Vec<MessageSource>, ConversionError> {
        sources(&self.view, self.dialect)
    }

    /// Returns the messages as a JSON list, for the body of a request.
    ///
    /// # Errors
    /// The same as [`Window::messages`].
    pub fn to_json(&self) -> Result<String, ConversionError> {
        Ok(dialect::list(&self.messages()?))
    }

    /// Returns its tokens, including the preamble, corrected by the provider's usage reports.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the view that it shows.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the messages with their edits, as an encoder takes them.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.view.shown()
    }

    /// Returns the plan, if a limit was exceeded.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Returns the limits of the policy that the window exceeds, because what is left is pinned or has to wait.
    pub fn over(&self) -> &[Excess] {
        &self.over
    }

    /// Returns what this call added to the log: repairs, compactions and checkpoints.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
