//! Appending what arrives: messages, one or several in one write, and the preamble.

use std::sync::Arc;

use lookback_engine::Engine;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::{Entry, Millis, Origin, Position};
use lookback_wire::dialect::Target;
use lookback_wire::{dialect::Preamble, message::Message};

use super::unclear::Pushed;
use super::{Error, Session, shared};
#[cfg(doc)]
use lookback_store::StoreError;
use lookback_store::now;

/// A message, and when it arrived.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedMessage {
    /// The message.
    pub message: Message,
    /// When it arrived, if that is known.
    pub time: Option<Millis>,
}

impl RecordedMessage {
    /// Creates a message with the time at which it arrived.
    pub fn new(message: Message, time: Option<Millis>) -> Self {
        RecordedMessage { message, time }
    }
}

impl Session {
    /// Appends a message from the client, with the current time. Returns the positions of its entries in the log: one,
    /// or several if the session's dialect needs several messages for it, or none if it was ignored because it repeats
    /// the only system message.
    ///
    /// # Errors
    /// Returns an error if the session's dialect cannot express the message, or if the store fails. If a server did not
    /// answer, it may have written the message all the same (see [`StoreError::is_unclear`]). Push the message again, before
    /// anything else: if it was written, it is found, and not written twice.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_wire::{dialect::Dialect, message::Message};
    /// use lookback_store::MemoryStore;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// assert_eq!(session.push(Message::user("What is in notes.txt?")).await?, [0]);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn push(&mut self, message: impl Into<Arc<Message>>) -> Result<Vec<Position>, Error> {
        self.receive(message, Origin::Client, now()).await
    }

    /// Appends several messages from the client, with the current time: all or none, in one write. Returns their
    /// positions.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn extend(&mut self, messages: Vec<Message>) -> Result<Vec<Position>, Error> {
        let time = now();
        let messages = messages.into_iter().map(|message| RecordedMessage::new(message, time));
        self.receive_all(messages.collect(), Origin::Client).await
    }

    /// Appends several messages from the client, and enforces the limits after each, as [`Session::enforce_limits`]
    /// does: all or none, in one write. Returns the positions of the messages. Summaries wait for the next window.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_engine::{Settings, policy::{Limits, Policy}};
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_session::Session;
    ///
    /// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
    /// let settings = Settings::default().policy(policy);
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// session.extend_enforcing_limits(["one", "two", "three"].map(Message::user).to_vec()).await?;
    /// assert_eq!(session.view().messages().count(), 2);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn extend_enforcing_limits(&mut self, messages: Vec<Message>) -> Result<Vec<Position>, Error> {
        let messages = shared(messages);
        self.follow_policy();
        self.reductions = 0;
        let time = now();
        let change = |engine: &mut Engine| {
            let mut entries = Vec::new();
            for message in &messages {
                let arrived = engine.receive(message.clone(), Origin::Client, time)?;
                // A message that is ignored changes nothing, so nothing else does either.
                if !arrived.is_empty() {
                    entries.extend(arrived);
                    entries.extend(engine.enforce_limits().entries);
                }
            }
            Ok(entries)
        };
        let written = self.commit(change).await?;
        self.tell(&written);
        Ok(written.messages())
    }

    /// Appends a message of any origin, with a time of its own. Returns its positions, as [`Session::push`] does.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn receive(
        &mut self,
        message: impl Into<Arc<Message>>,
        origin: Origin,
        time: Option<Millis>,
    ) -> Result<Vec<Position>, Error> {
        let message = message.into();
        self.follow_policy();
        // A note of Lookback's must not reset the count: with a note at each try, the tries would never end.
        if origin != Origin::Lookback {
            self.reductions = 0;
        }
        let pushed = Pushed::new(origin, [&message]);
        self.once(pushed, |engine| Ok(engine.receive(message.clone(), origin, time)?)).await
    }

    /// Makes a change that pushes something, unless it was made before and its answer was lost.
    async fn once(
        &mut self,
        pushed: Pushed,
        change: impl FnMut(&mut Engine) -> Result<Vec<Entry>, Error> + Send,
    ) -> Result<Vec<Position>, Error> {
        if let Some(positions) = self.finish_push(&pushed).await? {
            return Ok(positions);
        }
        self.pushing = Some(pushed);
        let written = self.commit(change).await;
        self.pushing = None;
        Ok(written?.messages())
    }

    /// Appends several messages of one origin, each with a time of its own: all or none, in one write. Returns their
    /// positions.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn receive_all(
        &mut self,
        messages: Vec<RecordedMessage>,
        origin: Origin,
    ) -> Result<Vec<Position>, Error> {
        let messages: Vec<_> =
            messages.into_iter().map(|recorded| (Arc::new(recorded.message), recorded.time)).collect();
        self.follow_policy();
        self.reductions = 0;
        let change = |engine: &mut Engine| {
            let mut entries = Vec::new();
            for (message, time) in &messages {
                entries.extend(engine.receive(message.clone(), origin, *time)?);
            }
            Ok(entries)
        };
        let pushed = Pushed::new(origin, messages.iter().map(|(message, _)| message));
        self.once(pushed, change).await
    }

    /// Appends a message from the client that is shown whole, even if the policy shortens results on arrival.
    pub async fn receive_whole(&mut self, message: Message) -> Result<Vec<Position>, Error> {
        let message = Arc::new(message);
        self.follow_policy();
        self.reductions = 0;
        let time = now();
        let change = |engine: &mut Engine| {
            let own = engine.settings().policy.clone();
            engine.set_policy(Policy { arrival: None, caps: None, repeats: None, ..own.clone() });
            let entries = engine.receive(message.clone(), Origin::Client, time);
            engine.set_policy(own);
            Ok(entries?)
        };
        Ok(self.commit(change).await?.messages())
    }

    /// Sets where requests go, as far as the settings do not say it (see [`Engine::set_target`]). Nothing is recorded.
    pub fn set_target(&mut self, target: &Target) {
        self.engine.set_target(target);
    }

    /// Sets the preamble: the system prompt and the tools, if they are sent outside the messages.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn set_preamble(&mut self, preamble: &Preamble) -> Result<(), Error> {
        self.commit(|engine| Ok(engine.set_preamble(preamble))).await?;
        Ok(())
    }
}
