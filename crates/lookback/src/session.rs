//! A session: one conversation in a store, pushed message by message, and a window of it for each model call.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lookback_core::dialect::Shown;
use lookback_core::engine::{Engine, Refusal, Settings};
use lookback_core::plan::Plan;
use lookback_core::policy::Totals;
use lookback_core::transcript::{Arrival, Checkpoint, Entry, Millis, Origin, Position};
use lookback_core::view::{self, View};
use lookback_core::{Dialect, Frame, Loss, Message};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::store::{BadName, LogName, Record, Store, StoreError, folded, split, words};

/// One conversation in a store.
///
/// Several sessions, in any processes, may have the same name: each sees what the others wrote when it next writes itself,
/// and nothing is lost or doubled.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::{MemoryStore, Message, Session, Settings};
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
/// session.push(Message::user("What is the capital of France?")).await?;
/// let window = session.window().await?;
/// assert_eq!(window.to_json()?, r#"[{"role":"user","content":"What is the capital of France?"}]"#);
/// # Ok::<(), lookback::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Session {
    store: Arc<dyn Store>,
    name: LogName,
    engine: Engine,
    /// The engine may be ahead of the store, since a write failed or its future was dropped: the store is read again first.
    stale: bool,
    /// Tokens of the last window, by our own count: what a usage report is compared with.
    sent: u64,
}

/// Why a session did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is none that a session may have.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message came in another dialect, and something of it cannot be said in the session's.
    #[error(transparent)]
    Loss(#[from] Loss),
    /// The window exceeds a hard limit, and nothing that may be dropped is left.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What [`Session::sync`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Synced {
    /// Messages that were there already.
    pub known: u64,
    /// Messages that were new.
    pub new: u64,
    /// Messages of the old branch that the client's history does not have.
    pub left: u64,
}

/// One message of a history, with where it stands.
#[derive(Debug, Clone)]
pub struct Past {
    /// Its position in the log.
    pub position: Position,
    /// The message, and how it arrived.
    pub arrival: Arrival,
    /// Whether the window still shows it.
    pub shown: bool,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The session.
    pub session: LogName,
    /// The message's position in its log.
    pub position: Position,
    /// A piece of its text around the first word found.
    pub excerpt: String,
}

/// What a session amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Messages of the conversation.
    pub messages: u64,
    /// Entries of the log.
    pub entries: u64,
    /// The window as it is.
    pub window: Totals,
}

/// How often a write is tried that other writers keep overtaking.
const TRIES: usize = 100;
/// Entries that are read at a time where a whole history is gone through.
const PAGE: u64 = 1_024;

impl Session {
    /// Opens a session, and begins one where there is none. It costs what the window costs, however long the history.
    ///
    /// # Errors
    /// Where the name is none, or the store fails.
    pub async fn open(store: impl Store + 'static, name: &str, settings: Settings) -> Result<Self, Error> {
        let name: LogName = name.parse()?;
        let store: Arc<dyn Store> = Arc::new(store);
        let engine = load(&*store, &name, settings).await?;
        Ok(Session { store, name, engine, stale: false, sent: 0 })
    }

    /// Its name.
    pub fn name(&self) -> &LogName {
        &self.name
    }

    /// What the model would see now, by what this session has read.
    pub fn view(&self) -> &View {
        self.engine.view()
    }

    /// A message of the client's arrives now.
    ///
    /// # Errors
    /// Where the message cannot be said in the session's dialect, or the store fails.
    pub async fn push(&mut self, message: Message) -> Result<(), Error> {
        self.receive(message, Origin::Client, now()).await
    }

    /// Several messages arrive now, all or none: one write for all of them.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn extend(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        let time = now();
        self.commit(|engine| {
            let mut entries = Vec::new();
            for message in &messages {
                entries.extend(engine.receive(message.clone(), Origin::Client, time)?);
            }
            Ok(entries)
        })
        .await
    }

    /// A message arrives.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn receive(&mut self, message: Message, origin: Origin, time: Option<Millis>) -> Result<(), Error> {
        self.commit(|engine| Ok(engine.receive(message.clone(), origin, time)?)).await
    }

    /// The client's whole history: what matches is recognised, the rest appended. Where the client has changed a message, or
    /// has fewer than the session, the session goes back to the last message that both have, and takes another branch from
    /// there; the old one stays in the log. The same history again changes nothing.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn sync(&mut self, history: Vec<Message>) -> Result<Synced, Error> {
        self.refresh().await?;
        let dialect = self.engine.settings().dialect;
        let mut messages = Vec::with_capacity(history.len());
        for message in history {
            messages.extend(dialect.convert(&message)?);
        }
        let digests: Vec<u128> = messages.iter().map(Message::digest).collect();
        for _ in 0..TRIES {
            let known = self.common(&digests).await?;
            let length = self.view().history_len();
            let fork = if known < length { Some(self.view_after(known).await?) } else { None };
            let new = messages.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or_default();
            let time = now();
            let mut change = |engine: &mut Engine| {
                let mut entries = Vec::new();
                if let Some((view, at)) = &fork {
                    let mut view = view.clone();
                    entries.push(Entry::Branch { at: *at });
                    view.branch(engine.view(), engine.end() + 1);
                    *engine = Engine::resume(engine.settings().clone(), view, engine.end() + 1, 0);
                    engine.checkpoint(&mut entries);
                }
                for message in new {
                    entries.extend(engine.receive(message.clone(), Origin::Client, time)?);
                }
                Ok(entries)
            };
            if self.try_commit(&mut change).await? {
                return Ok(Synced { known, new: new.len() as u64, left: length.saturating_sub(known) });
            }
        }
        Err(self.overtaken())
    }

    /// The system prompt and tools that stand outside the messages.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn frame(&mut self, frame: &Frame) -> Result<(), Error> {
        self.commit(|engine| Ok(engine.frame(frame))).await
    }

    /// The provider reported the input tokens of the last window, cached ones included: our counts for this model are corrected.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn usage(&mut self, model: &str, reported: u64) -> Result<(), Error> {
        let sent = self.sent;
        self.commit(|engine| Ok(engine.usage(model, sent, reported))).await
    }

    /// The window for the next model call: always one that the provider accepts, and that is recorded before it is given.
    ///
    /// # Errors
    /// Where a hard limit is exceeded by what is pinned, or the store fails.
    pub async fn window(&mut self) -> Result<Window<'_>, Error> {
        let mut decided = None;
        self.commit(|engine| {
            let mut made = engine.window();
            let entries = std::mem::take(&mut made.entries);
            decided = Some((made, entries.clone()));
            Ok(entries)
        })
        .await?;
        let (decided, entries) = decided.unwrap_or_default();
        if let Some(refusal) = decided.refusal {
            return Err(refusal.into());
        }
        let view = decided.on_read.map_or(Cow::Borrowed(self.engine.view()), |view| Cow::Owned(*view));
        self.sent = view.totals().size.tokens;
        Ok(Window {
            tokens: self.engine.tokens(&view),
            dialect: self.engine.settings().dialect,
            plan: decided.plan,
            view,
            entries,
        })
    }

    /// Why each group of the window is where it is, whether or not a limit is exceeded, with the entries of each.
    pub fn explain(&self) -> (Plan, Vec<Vec<Range<Position>>>) {
        self.engine.explain()
    }

    /// The messages of the conversation, those that have left the window too.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn history(&mut self) -> Result<Vec<Past>, Error> {
        self.refresh().await?;
        let shown: std::collections::HashSet<_> = self.view().messages().map(|item| item.position()).collect();
        let mut history = Vec::new();
        self.walk(&mut |position, entry| {
            if let Entry::Message(arrival) = entry {
                history.push(Past { position, arrival, shown: shown.contains(&position) });
            }
            true
        })
        .await?;
        Ok(history)
    }

    /// Every entry of the log, those of branches that were left too.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn entries(&mut self) -> Result<Vec<Entry>, Error> {
        self.refresh().await?;
        Ok(read(&*self.store, &self.name, 0..self.engine.end()).await?)
    }

    /// The messages of this session that hold every word of a query, the best first.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<Found>, Error> {
        Ok(search(&*self.store, Some(&self.name), query, most).await?)
    }

    /// What the session amounts to.
    pub fn stats(&self) -> Stats {
        Stats { messages: self.view().history_len(), entries: self.engine.end(), window: self.view().totals() }
    }

    /// Reads again what other writers may have written, where this session is not sure of what it has.
    async fn refresh(&mut self) -> Result<(), Error> {
        if self.stale {
            self.engine = load(&*self.store, &self.name, self.engine.settings().clone()).await?;
            self.stale = false;
        }
        Ok(())
    }

    /// Lets the engine change, and writes down what it says; anew after what another writer wrote in between.
    async fn commit(&mut self, mut change: impl FnMut(&mut Engine) -> Result<Vec<Entry>, Error>) -> Result<(), Error> {
        for _ in 0..TRIES {
            if self.try_commit(&mut change).await? {
                return Ok(());
            }
        }
        Err(self.overtaken())
    }

    async fn try_commit(
        &mut self,
        change: &mut dyn FnMut(&mut Engine) -> Result<Vec<Entry>, Error>,
    ) -> Result<bool, Error> {
        self.refresh().await?;
        let at = self.engine.end();
        self.stale = true;
        let entries = change(&mut self.engine)?;
        if entries.is_empty() {
            self.stale = false;
            return Ok(true);
        }
        let records = entries.iter().enumerate().map(|(index, entry)| record(&self.name, at + index as u64, entry));
        let records = records.collect::<Result<_, _>>()?;
        match self.store.append(&self.name, at, records, now()).await {
            Ok(()) => {
                self.stale = false;
                Ok(true)
            }
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn overtaken(&self) -> Error {
        StoreError::Overtaken { log: self.name.to_string(), tries: TRIES }.into()
    }

    /// How many messages, from the first, a history has in common with this session.
    async fn common(&mut self, digests: &[u128]) -> Result<u64, Error> {
        self.refresh().await?;
        let length = usize::try_from(self.view().history_len()).unwrap_or(usize::MAX);
        if let Some(begin) = digests.get(..length)
            && begin.iter().fold(0, |chain, digest| view::chain(chain, *digest)) == self.view().chain()
        {
            return Ok(length as u64);
        }
        let mut common = 0;
        self.walk(&mut |_, entry| match entry {
            Entry::Message(arrival) if arrival.origin != Origin::Lookback => {
                let same = digests.get(common) == Some(&arrival.digest);
                common += usize::from(same);
                same
            }
            _ => true,
        })
        .await?;
        Ok(common as u64)
    }

    /// What the view was after so many messages of the branch, and the position that it ends at.
    async fn view_after(&self, messages: u64) -> Result<(View, Position), Error> {
        let mut seen = 0;
        let mut end = 0;
        self.walk(&mut |position, entry| {
            if seen < messages {
                end = position + 1;
            }
            if matches!(&entry, Entry::Message(arrival) if arrival.origin != Origin::Lookback) {
                seen += 1;
            }
            seen < messages
        })
        .await?;
        let checkpoint = self.store.head(&self.name, Some(end)).await?.and_then(|head| head.checkpoint);
        Ok((fold(&*self.store, &self.name, checkpoint, end).await?, end))
    }

    /// Goes through the entries of the branch until `visit` says that it has seen enough.
    async fn walk(&self, visit: &mut (dyn FnMut(Position, Entry) -> bool + Send)) -> Result<(), Error> {
        for span in self.view().path() {
            let mut at = span.start;
            while at < span.end {
                let page = at..span.end.min(at + PAGE);
                let entries = read(&*self.store, &self.name, page.clone()).await?;
                for (position, entry) in page.clone().zip(entries) {
                    if !visit(position, entry) {
                        return Ok(());
                    }
                }
                at = page.end;
            }
        }
        Ok(())
    }
}

/// What is to be sent.
#[derive(Debug)]
pub struct Window<'a> {
    view: Cow<'a, View>,
    dialect: Dialect,
    tokens: u64,
    plan: Option<Plan>,
    entries: Vec<Entry>,
}

impl Window<'_> {
    /// The messages, in the session's dialect.
    ///
    /// # Errors
    /// None in practice: what the dialect cannot say was refused when it was pushed.
    pub fn messages(&self) -> Result<Vec<Cow<'_, RawValue>>, Loss> {
        self.view.encode(self.dialect)
    }

    /// The messages, as the JSON list that a request body takes.
    ///
    /// # Errors
    /// As [`Window::messages`].
    pub fn to_json(&self) -> Result<String, Loss> {
        let messages = self.messages()?;
        let length = messages.iter().map(|raw| raw.get().len() + 1).sum::<usize>();
        let mut out = String::with_capacity(length + 2);
        out.push('[');
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(message.get());
        }
        out.push(']');
        Ok(out)
    }

    /// Its tokens, system prompt and tools included, corrected by what the provider has reported.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// What is shown.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The messages with their edits, as an encoder takes them.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.view.shown()
    }

    /// The plan, where a limit was exceeded.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// What this call added to the log: repairs, and a compaction.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The messages, in one session or in all of a store, that hold every word of a query, the best first.
///
/// # Errors
/// Where the store fails.
pub async fn search(
    store: &dyn Store,
    log: Option<&LogName>,
    query: &str,
    most: usize,
) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    for hit in store.search(log, query, most).await? {
        let entries = read(store, &hit.log, hit.position..hit.position + 1).await?;
        if let Some(Entry::Message(arrival)) = entries.first() {
            let excerpt = excerpt(&arrival.message.text(), query);
            found.push(Found { session: hit.log, position: hit.position, excerpt });
        }
    }
    Ok(found)
}

/// A line of a text, around the first word of a query in it.
fn excerpt(text: &str, query: &str) -> String {
    const BEFORE: usize = 60;
    const LENGTH: usize = 160;
    let wanted = words(query);
    let at = split(text).find(|word| wanted.contains(&folded(word)));
    // The word is a slice of the text, so its address tells where it stands.
    let at = at.map_or(0, |word| word.as_ptr() as usize - text.as_ptr() as usize);
    let start = text.get(..at).unwrap_or_default().char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
    let piece: String = text.get(start..).unwrap_or_default().chars().take(LENGTH).collect();
    piece.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn now() -> Option<Millis> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

fn record(log: &LogName, position: Position, entry: &Entry) -> Result<Record, StoreError> {
    let damaged =
        |error: serde_json::Error| StoreError::Damaged { log: log.to_string(), position, reason: error.to_string() };
    let body = serde_json::to_string(entry).map_err(damaged)?;
    let text = match entry {
        Entry::Message(arrival) => arrival.message.text(),
        _ => String::new(),
    };
    Ok(Record { body, text, checkpoint: matches!(entry, Entry::Checkpoint(_)) })
}

async fn read(store: &dyn Store, log: &LogName, span: Range<Position>) -> Result<Vec<Entry>, StoreError> {
    let bodies = store.read(log, span.clone()).await?;
    let parse = |(position, body): (Position, String)| {
        let category = |error: serde_json::Error| format!("{:?} error in its JSON", error.classify()).to_lowercase();
        let damaged = |error| StoreError::Damaged { log: log.to_string(), position, reason: category(error) };
        serde_json::from_str(&body).map_err(damaged)
    };
    span.zip(bodies).map(parse).collect()
}

async fn load(store: &dyn Store, log: &LogName, settings: Settings) -> Result<Engine, StoreError> {
    let Some(head) = store.head(log, None).await? else { return Ok(Engine::new(settings)) };
    let view = fold(store, log, head.checkpoint, head.end).await?;
    let since = head.end - head.checkpoint.map_or(0, |checkpoint| checkpoint + 1);
    Ok(Engine::resume(settings, view, head.end, since))
}

/// The view of a log that ends at `end`, from a checkpoint on.
///
/// No branch lies between the two: each branch entry has its own checkpoint right behind it.
async fn fold(
    store: &dyn Store,
    log: &LogName,
    checkpoint: Option<Position>,
    end: Position,
) -> Result<View, StoreError> {
    let start = checkpoint.unwrap_or(0);
    let entries = read(store, log, start..end).await?;
    let mut view = match (checkpoint, entries.first()) {
        (Some(position), Some(Entry::Checkpoint(checkpoint))) => restore(store, log, position, checkpoint).await?,
        _ => View::default(),
    };
    for (position, entry) in (start..).zip(&entries) {
        view.apply(position, entry);
    }
    Ok(view)
}

async fn restore(
    store: &dyn Store,
    log: &LogName,
    position: Position,
    checkpoint: &Checkpoint,
) -> Result<View, StoreError> {
    let mut entries = std::collections::HashMap::new();
    for span in checkpoint.spans() {
        entries.extend(span.clone().zip(read(store, log, span).await?));
    }
    View::restore(checkpoint, |position| entries.get(&position)).ok_or_else(|| StoreError::Damaged {
        log: log.to_string(),
        position,
        reason: "it refers to entries that are not there".to_owned(),
    })
}
