//! Appending messages: one, or a batch in one write; and setting the preamble.

use std::sync::Arc;

use lookback_engine::Engine;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::{Entry, Label, Millis, Origin, Position};
use lookback_store::now;
use lookback_wire::dialect::{Preamble, Target};
use lookback_wire::message::Message;

use super::attempt::Attempt;
use super::{Error, Session};
use lookback_store::{Append, StoreError};

/// A message with its time of arrival.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedMessage {
    /// The message.
    pub message: Message,
    /// The time of its arrival, if known.
    pub time: Option<Millis>,
}

impl RecordedMessage {
    /// Creates a message with the time at which it arrived.
    pub fn new(message: Message, time: Option<Millis>) -> Self {
        RecordedMessage { message, time }
    }
}

/// Messages that are appended together: all or none, in one write (see [`Session::append`]).
///
/// A batch made from messages comes from the client and arrives now. A batch of [`RecordedMessage`]s keeps their times.
///
/// ```
/// use lookback_engine::transcript::Origin;
/// use lookback_session::Batch;
/// use lookback_wire::message::Message;
///
/// let batch = Batch::from(Message::user("Hi")).origin(Origin::Lookback).at(Some(1_700_000_000_000));
/// # let _ = batch;
/// ```
#[derive(derive_more::Debug, Clone, Default)]
#[must_use = "a batch does nothing until it is appended"]
pub struct Batch {
    #[debug("{}", messages.len())]
    pub(super) messages: Vec<(Arc<Message>, Option<Millis>)>,
    pub(super) origin: Origin,
    label: Option<Label>,
    unshortened: bool,
    pub(super) enforces: bool,
}

impl Batch {
    /// Sets the origin of the messages. The default is the client.
    pub fn origin(self, origin: Origin) -> Self {
        Batch { origin, ..self }
    }

    /// Sets when the messages arrived; `None` if that is not known.
    pub fn at(mut self, time: Option<Millis>) -> Self {
        self.messages.iter_mut().for_each(|(_, arrived)| *arrived = time);
        self
    }

    /// Sets the agent and the tags of these and all later messages. The label is part of the same write, so no other
    /// writer's label can come between.
    pub fn label(self, label: Label) -> Self {
        Batch { label: Some(label), ..self }
    }

    /// Shows the messages unshortened, even if the policy shortens results on arrival.
    pub fn unshortened(self) -> Self {
        Batch { unshortened: true, ..self }
    }

    /// Enforces the limits after each message, as [`Session::enforce_limits`] does, in the same write. If the batch
    /// replaces the session's messages, it does so once, after the last message. Summaries wait for the next window.
    pub fn enforcing_limits(self) -> Self {
        Batch { enforces: true, ..self }
    }

    /// Returns whether another batch has the same messages and settings. The messages' JSON counts, too, because a
    /// digest ignores the parts that clients may change.
    pub(super) fn is_same(&self, other: &Batch) -> bool {
        let json = |message: &Message| message.wire().map(|wire| wire.raw.get().to_owned());
        let is_same = |a: &Message, b: &Message| a.digest() == b.digest() && json(a) == json(b);
        let pairs = self.messages.iter().zip(&other.messages);
        let settings = |batch: &Batch| (batch.origin, batch.label.clone(), batch.unshortened, batch.enforces);
        settings(self) == settings(other)
            && self.messages.len() == other.messages.len()
            && pairs.into_iter().all(|((a, _), (b, _))| is_same(a, b))
    }

    /// Passes the messages to the engine, and returns the entries. Enforces limits after each message if `each` is set.
    pub(super) fn receive(&self, engine: &mut Engine, each: bool) -> Result<Vec<Entry>, Error> {
        let own = self.unshortened.then(|| engine.settings().policy.clone());
        if let Some(own) = &own {
            engine.set_policy(Policy { arrival: None, caps: None, repeats: None, ..own.clone() });
        }
        let received = self.receive_under_policy(engine, each);
        if let Some(own) = own {
            engine.set_policy(own);
        }
        received
    }

    fn receive_under_policy(&self, engine: &mut Engine, each: bool) -> Result<Vec<Entry>, Error> {
        let mut entries = self.label.clone().map(|label| engine.label(label)).unwrap_or_default();
        for (message, time) in &self.messages {
            let arrived = engine.receive(message.clone(), self.origin, *time)?;
            // For an ignored message, nothing is recorded, so the limits are not enforced either.
            if !arrived.is_empty() {
                entries.extend(arrived);
                if each && self.enforces {
                    entries.extend(engine.enforce_limits().entries);
                }
            }
        }
        Ok(entries)
    }
}

impl FromIterator<RecordedMessage> for Batch {
    fn from_iter<I: IntoIterator<Item = RecordedMessage>>(recorded: I) -> Self {
        let messages = recorded.into_iter().map(|recorded| (Arc::new(recorded.message), recorded.time)).collect();
        Batch { messages, ..Batch::default() }
    }
}

impl From<Arc<Message>> for Batch {
    fn from(message: Arc<Message>) -> Self {
        Batch { messages: vec![(message, now())], ..Batch::default() }
    }
}

impl From<Message> for Batch {
    fn from(message: Message) -> Self {
        Arc::new(message).into()
    }
}

impl From<Vec<Message>> for Batch {
    fn from(messages: Vec<Message>) -> Self {
        let time = now();
        messages.into_iter().map(|message| RecordedMessage::new(message, time)).collect()
    }
}

/// The history of a batch that is about to be appended.
enum Push {
    /// The last append wrote it, although its answer was lost.
    Written(Vec<Position>),
    /// The last append may still write it.
    Lost(Attempt),
    New,
}

impl Session {
    /// Appends a message from the client, with the current time. Returns the positions of its entries in the log: one,
    /// or several if the session's dialect needs several messages for it. Returns no position if the message was
    /// ignored because it repeats the only system message.
    ///
    /// # Errors
    /// Returns an error if the session's dialect cannot express the message, or if the store fails. If a server did not
    /// answer, it may still have written the message (see [`StoreError::is_unclear`]). In that case, push the same
    /// message again before any other call: the session finds it if it was written, and does not write it twice.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_engine::Settings;
    /// use lookback_session::Session;
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// assert_eq!(session.push(Message::user("What is in notes.txt?")).await?, [0]);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn push(&mut self, message: impl Into<Arc<Message>>) -> Result<Vec<Position>, Error> {
        self.append(message.into()).await
    }

    /// Appends several messages: all or none, in one write. Returns their positions. A [`Batch`] also sets their
    /// origin, times and label.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_engine::{Settings, policy::{Limits, Policy}};
    /// use lookback_session::{Batch, Session};
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    ///
    /// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
    /// let settings = Settings::default().policy(policy);
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// session.append(vec![Message::user("one"), Message::user("two"), Message::user("three")]).await?;
    /// assert_eq!(session.view().messages().count(), 3);
    /// session.append(Batch::from(Message::user("four")).enforcing_limits()).await?;
    /// assert_eq!(session.view().messages().count(), 2);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn append(&mut self, batch: impl Into<Batch>) -> Result<Vec<Position>, Error> {
        let batch = batch.into();
        // Lookback's own notes must not reset the count: if each try added a note, the tries would never end.
        if batch.origin != Origin::Lookback && !batch.messages.is_empty() {
            self.reductions = 0;
        }
        let lost = match self.find_push(&batch).await? {
            Push::Written(positions) => return Ok(positions),
            Push::Lost(attempt) => Some(attempt),
            Push::New => None,
        };
        let written = match self.commit_again(lost, |engine| batch.receive(engine, true)).await {
            Ok(written) => written,
            Err(error) => {
                if let Some(unclear) = &mut self.unclear {
                    unclear.batch = Some(batch);
                }
                return Err(error);
            }
        };
        self.report(&written);
        Ok(written.messages())
    }

    /// Returns whether the last append pushed the same batch and its answer was lost, and whether it was written.
    async fn find_push(&mut self, batch: &Batch) -> Result<Push, Error> {
        let Some(unclear) = self.unclear.take().filter(|unclear| unclear.is_push_of(batch)) else {
            return Ok(Push::New);
        };
        let (attempt, messages) = (unclear.attempt, unclear.messages.clone());
        self.unclear = Some(unclear);
        self.reload_if_stale().await?;
        // At the end of the log, the next append finds out by itself.
        if self.engine.end() > attempt.at {
            match self.store.append(&self.name, Append::new(attempt.at, []).key(attempt.key)).await {
                Ok(()) => {
                    self.unclear = None;
                    return Ok(Push::Written(messages));
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Push::Lost(attempt))
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

/// Sets the provider and model that requests go to, where the settings leave them open (see [`Engine::set_target`]). It
/// records nothing.
pub fn set_target(session: &mut Session, target: &Target) {
    session.engine.set_target(target);
}
