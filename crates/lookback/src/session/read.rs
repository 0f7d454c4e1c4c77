//! Reading a session: its record, and the messages of its history by number, tag and text.

use std::collections::HashSet;
use std::ops::Range;

use lookback_core::message::Message;
use lookback_core::policy::Totals;
use lookback_core::transcript::{Arrival, Entry, Label, Millis, Origin, Position};
use serde::Serialize;

use super::log::read;
use super::{Error, PAGE, Session, now};
use crate::store::LogName;

/// One message of a history, with where it stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Its position in the log.
    pub position: Position,
    /// The message, and how it arrived: its tokens are those of its size.
    pub arrival: Arrival,
    /// Whether the window still shows it.
    pub shown: bool,
}

/// Which messages of a session are read. By default, all of the conversation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HistoryQuery {
    /// The newest so many messages. A tool call is read with its results, so there may be fewer: never an exchange in
    /// part.
    pub limit: Option<usize>,
    /// Those that were written under all of these tags.
    pub tags: Vec<String>,
    /// Those that hold every word of this, and what belongs to them: over everything that was ever in the session,
    /// branches that were left included.
    pub query: Option<String>,
}

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Its name.
    pub session: LogName,
    /// The agent that wrote last, where it gave a name.
    pub agent: Option<String>,
    /// The tags that it wrote under.
    pub tags: Vec<String>,
    /// When the session began, in milliseconds since 1970.
    pub created: Option<Millis>,
    /// When it was last written or read.
    pub used: Option<Millis>,
    /// Messages of the conversation.
    pub messages: u64,
    /// Entries of the log.
    pub entries: u64,
    /// The window as it is, its tokens by our own count.
    pub window: Totals,
    /// Tokens of the running summary in it.
    pub summary_tokens: u64,
}

impl Session {
    /// What follows is written by this agent, under these tags, until it is said otherwise.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn label(&mut self, label: Label) -> Result<(), Error> {
        self.commit(|engine| Ok(engine.label(label.clone()))).await?;
        Ok(())
    }

    /// Several messages arrive now under this label, all or none: one write for all of it, so that no other writer's
    /// label comes between.
    pub(crate) async fn extend_under(&mut self, label: &Label, messages: Vec<Message>) -> Result<(), Error> {
        self.follow_policy();
        if !messages.is_empty() {
            self.reductions = 0;
        }
        let time = now();
        self.commit(|engine| {
            let mut entries = engine.label(label.clone());
            for message in &messages {
                entries.extend(engine.receive(message.clone(), Origin::Client, time)?);
            }
            Ok(entries)
        })
        .await?;
        Ok(())
    }

    /// What is known of the session; `None` where nothing was ever written.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn record(&mut self) -> Result<Option<SessionRecord>, Error> {
        self.refresh().await?;
        let Some(info) = self.store.info(&self.name).await? else { return Ok(None) };
        let Label { agent, tags } = self.view().label().clone();
        Ok(Some(SessionRecord {
            session: self.name.clone(),
            agent,
            tags,
            created: info.created,
            used: info.used,
            messages: self.view().history_len(),
            entries: self.engine.end(),
            window: self.view().totals(),
            summary_tokens: self.view().summary().map_or(0, |(_, summary)| summary.size.tokens),
        }))
    }

    /// The messages of the conversation, those that have left the window too.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn history(&mut self) -> Result<Vec<HistoryEntry>, Error> {
        self.refresh().await?;
        let shown: HashSet<_> = self.view().messages().map(|item| item.position()).collect();
        let mut history = Vec::new();
        self.walk(&mut |position, entry| {
            if let Entry::Message(arrival) = entry {
                history.push(HistoryEntry { position, arrival, shown: shown.contains(&position) });
            }
            true
        })
        .await?;
        Ok(history)
    }

    /// Messages of the session, in the order of the conversation, and says that the session was used. It costs what the
    /// history costs.
    ///
    /// # Errors
    /// Where the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{MemoryStore, Message, Session, Settings, session::HistoryQuery};
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// session.push(Message::user("The port is 5050.")).await?;
    /// session.push(Message::user("The host is green.")).await?;
    /// let found = session.read(&HistoryQuery { query: Some("port".into()), ..HistoryQuery::default() }).await?;
    /// assert_eq!(found[0].arrival.message.text(), "The port is 5050.");
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn read(&mut self, reading: &HistoryQuery) -> Result<Vec<HistoryEntry>, Error> {
        self.refresh().await?;
        if let Some(time) = now() {
            self.store.touch(&self.name, time).await?;
        }
        let found = match &reading.query {
            Some(query) => {
                let hits = self.store.search(Some(&self.name), query, usize::MAX).await?;
                Some(hits.into_iter().map(|hit| hit.position).collect::<HashSet<_>>())
            }
            None => None,
        };
        let (mut past, mut wanted) = (Vec::new(), Vec::new());
        let has_all = |label: &Label| reading.tags.iter().all(|tag| label.tags.contains(tag));
        let mut tagged = reading.tags.is_empty();
        let shown: HashSet<_> = self.view().messages().map(|item| item.position()).collect();
        let mut visit = |position: Position, entry: Entry| {
            match entry {
                Entry::Label(label) => tagged = has_all(&label),
                // A label goes along to another branch, and the checkpoint that each begins with says which.
                Entry::Checkpoint(checkpoint) => tagged = has_all(&checkpoint.label),
                Entry::Message(arrival) => {
                    wanted.push(tagged && found.as_ref().is_none_or(|found| found.contains(&position)));
                    past.push(HistoryEntry { position, arrival, shown: shown.contains(&position) });
                }
                _ => {}
            }
            true
        };
        match found {
            // What was left is searched too.
            Some(_) => self.walk_all(&mut visit).await?,
            None => self.walk(&mut visit).await?,
        }
        if found_some(&wanted) {
            widen(&past, &mut wanted);
        }
        let mut past: Vec<_> =
            past.into_iter().zip(wanted).filter_map(|(past, wanted)| wanted.then_some(past)).collect();
        if let Some(limit) = reading.limit {
            past.drain(..cut(&past, limit));
        }
        Ok(past)
    }

    /// The newest messages of the conversation that stand in this span of the log, at most so many, in their order. It
    /// costs what it reads, however long the history.
    ///
    /// # Errors
    /// Where the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{MemoryStore, Message, Session, Settings};
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// session.extend(["one", "two", "three"].map(Message::user).to_vec()).await?;
    /// let newest = session.newest(0..u64::MAX, 2).await?;
    /// assert_eq!(newest[0].arrival.message.text(), "two");
    /// assert_eq!(session.newest(0..newest[0].position, 2).await?.len(), 1);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn newest(&mut self, span: Range<Position>, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        self.refresh().await?;
        let shown: HashSet<_> = self.view().messages().map(|item| item.position()).collect();
        let mut newest = Vec::new();
        for own in self.view().path().iter().rev() {
            let (start, mut end) = (own.start.max(span.start), own.end.min(span.end));
            while start < end && newest.len() < most {
                let page = start.max(end.saturating_sub(PAGE.min(most as u64)))..end;
                let entries = read(&*self.store, &self.name, page.clone()).await?;
                let entries: Vec<_> = page.clone().zip(entries).collect();
                for (position, entry) in entries.into_iter().rev() {
                    if let Entry::Message(arrival) = entry {
                        newest.push(HistoryEntry { position, arrival, shown: shown.contains(&position) });
                    }
                }
                end = page.start;
            }
        }
        newest.truncate(most);
        newest.reverse();
        Ok(newest)
    }

    /// Goes through the whole log, branches that were left included.
    async fn walk_all(&self, visit: &mut (dyn FnMut(Position, Entry) -> bool + Send)) -> Result<(), Error> {
        let mut at = 0;
        while at < self.engine.end() {
            let page = at..self.engine.end().min(at + PAGE);
            for (position, entry) in page.clone().zip(read(&*self.store, &self.name, page.clone()).await?) {
                visit(position, entry);
            }
            at = page.end;
        }
        Ok(())
    }
}

fn found_some(wanted: &[bool]) -> bool {
    wanted.contains(&true) && wanted.contains(&false)
}

/// For each message, the number of the tool exchange that it is part of: calls, and what answers them.
fn exchanges(past: &[HistoryEntry]) -> Vec<Option<usize>> {
    let mut calls = std::collections::HashMap::new();
    let of = |(index, past): (usize, &HistoryEntry)| {
        let message: &Message = &past.arrival.message;
        let mut own = None;
        for (_, call) in message.tool_calls() {
            calls.insert(call.id.clone(), index);
            own = Some(index);
        }
        own.or_else(|| message.tool_results().find_map(|(_, result)| calls.get(&result.call_id).copied()))
    };
    past.iter().enumerate().map(of).collect()
}

/// Whoever wants a part of a tool exchange wants all of it.
fn widen(past: &[HistoryEntry], wanted: &mut [bool]) {
    let exchanges = exchanges(past);
    let hit: HashSet<usize> =
        exchanges.iter().zip(&*wanted).filter_map(|(exchange, wanted)| exchange.filter(|_| *wanted)).collect();
    for (wanted, exchange) in wanted.iter_mut().zip(exchanges) {
        *wanted |= exchange.is_some_and(|exchange| hit.contains(&exchange));
    }
}

/// How many messages to leave out from the front, so that at most `limit` are left and no exchange is in part.
fn cut(past: &[HistoryEntry], limit: usize) -> usize {
    let least = past.len().saturating_sub(limit);
    let exchanges = exchanges(past);
    let torn = |at: usize| {
        let (before, after) = exchanges.split_at_checked(at).unwrap_or_default();
        let before: HashSet<_> = before.iter().flatten().collect();
        after.iter().flatten().any(|exchange| before.contains(exchange))
    };
    (least..past.len()).find(|at| !torn(*at)).unwrap_or(past.len())
}
