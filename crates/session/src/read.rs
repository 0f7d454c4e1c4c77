//! Reading a session: information about it, and the messages of its history by number, tag and text.

use lookback_content::Redacted;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use lookback_engine::totals::Totals;
use lookback_engine::transcript::{Arrival, Entry, Label, Millis, Origin, Position};
use lookback_wire::dialect::Preamble;
use lookback_wire::message::Message;
use serde::Serialize;

use super::{Error, PAGE, Session};
use lookback_store::LogName;
use lookback_store::entries::read;
use lookback_store::now;
use lookback_store::search::Query;

/// A message of a session's history.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Its position in the log.
    pub position: Position,
    /// The message, with its origin, time and size in tokens.
    pub arrival: Arrival,
    /// Whether the window still shows it.
    pub shown: bool,
}

/// An earlier branch of a conversation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LeftBranch {
    /// All its messages, from the beginning of the conversation on.
    pub messages: Vec<HistoryEntry>,
    /// The system prompt and the tools that its last message was sent with.
    pub preamble: Arc<Preamble>,
}

/// Selects messages of a session. The default selects the whole conversation.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HistoryQuery {
    /// The most messages to return: the newest ones. There may be fewer, because a tool call is never returned without
    /// its results.
    pub(crate) limit: Option<usize>,
    /// Only messages that were written under all of these tags.
    pub tags: Vec<String>,
    /// Only messages with every word of this text in any form, and the rest of their tool exchanges. The search covers
    /// everything that was ever in the session, including earlier branches.
    #[debug("{:?}", Redacted(query))]
    pub query: Option<String>,
}

impl HistoryQuery {
    /// Sets the most messages to return.
    #[must_use]
    pub fn limit(mut self, messages: usize) -> Self {
        self.limit = Some(messages);
        self
    }

    /// Adds a tag under which the messages must have been written.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the text whose words the messages must have.
    #[must_use]
    pub fn query(mut self, text: impl Into<String>) -> Self {
        self.query = Some(text.into());
        self
    }
}

/// Information about a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its name.
    pub session: LogName,
    /// The agent that wrote last, if it gave a name.
    pub agent: Option<String>,
    /// The tags of that agent's last messages.
    pub tags: Vec<String>,
    /// When the session was created, in milliseconds since 1970.
    pub created: Option<Millis>,
    /// When it was last written or read, in milliseconds since 1970.
    pub used: Option<Millis>,
    /// Messages of the conversation, without Lookback's own.
    pub messages: u64,
    /// Entries of the log.
    pub entries: u64,
    /// The totals of the current window. Its tokens are Lookback's own count.
    pub window: Totals,
    /// Tokens of the running summary in the window.
    pub summary_tokens: u64,
}

impl Session {
    /// Returns information about the session; `None` if nothing was ever written.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn info(&mut self) -> Result<Option<SessionInfo>, Error> {
        self.reload_if_stale().await?;
        let Some(info) = self.store.info(&self.name).await? else { return Ok(None) };
        let Label { agent, tags, .. } = self.view().label().clone();
        Ok(Some(SessionInfo {
            session: self.name.clone(),
            agent,
            tags,
            created: info.created,
            used: info.used,
            messages: self.view().history_len(),
            entries: self.engine.end(),
            window: self.view().totals(),
            summary_tokens: self.view().summary().map_or(0, |summary| summary.size.tokens),
        }))
    }

    /// Returns the messages of the conversation, including those that have left the window.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn history(&mut self) -> Result<Vec<HistoryEntry>, Error> {
        self.reload_if_stale().await?;
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

    /// Returns the selected messages in the order of the conversation, and records that the session was used. The cost
    /// grows with the whole history.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_session::{Session, HistoryQuery};
    /// use lookback_engine::Settings;
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// session.push(Message::user("The port is 5050.")).await?;
    /// session.push(Message::user("The host is green.")).await?;
    /// let found = session.read(&HistoryQuery::default().query("port")).await?;
    /// assert_eq!(found[0].arrival.message.text(), "The port is 5050.");
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn read(&mut self, selection: &HistoryQuery) -> Result<Vec<HistoryEntry>, Error> {
        self.reload_if_stale().await?;
        if let Some(time) = now() {
            self.store.touch(&self.name, time).await?;
        }
        let found = match &selection.query {
            Some(query) => {
                let query = Query::every_word(query);
                let hits = self.store.search(Some(&self.name), &query, usize::MAX).await?;
                Some((hits.into_iter().map(|hit| hit.position).collect::<HashSet<_>>(), query))
            }
            None => None,
        };
        let (mut history, mut selected) = (Vec::new(), Vec::new());
        let has_all = |label: &Label| selection.tags.iter().all(|tag| label.tags.contains(tag));
        let mut tagged = selection.tags.is_empty();
        let shown: HashSet<_> = self.view().messages().map(|item| item.position()).collect();
        let mut visit = |position: Position, entry: Entry| {
            match entry {
                Entry::Label(label) => tagged = has_all(&label),
                // A label also applies to a new branch. The checkpoint at the beginning of the branch has it.
                Entry::Checkpoint(checkpoint) => tagged = has_all(&checkpoint.label),
                Entry::Message(arrival) => {
                    let fits = found.as_ref().is_none_or(|(found, query)| {
                        found.contains(&position) && query.has_phrases(&arrival.message.text())
                    });
                    selected.push(tagged && fits);
                    history.push(HistoryEntry { position, arrival, shown: shown.contains(&position) });
                }
                _ => {}
            }
            true
        };
        match found {
            // A search includes earlier branches.
            Some(_) => self.walk_all(&mut visit).await?,
            None => self.walk(&mut visit).await?,
        }
        if found_some(&selected) {
            widen(&history, &mut selected);
        }
        let mut history: Vec<_> =
            history.into_iter().zip(selected).filter_map(|(entry, selected)| selected.then_some(entry)).collect();
        if let Some(limit) = selection.limit {
            history.drain(..cut(&history, limit));
        }
        Ok(history)
    }

    /// Visits the whole log, including earlier branches.
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

/// Returns the entries of the branch on which the log was when it ended at `end`. `begun` has the start of each branch,
/// and the spans that it shares with earlier branches.
fn path_at(begun: &[(Position, Vec<Range<Position>>)], end: Position) -> Vec<Range<Position>> {
    let Some((start, shared)) = begun.iter().rev().find(|(start, _)| *start <= end) else { return Vec::new() };
    let own = (*start < end).then_some(*start..end);
    shared.iter().cloned().chain(own).collect()
}

/// Returns the messages of one branch, among all messages of the log.
fn on_path<'a>(all: &'a [HistoryEntry], path: &'a [Range<Position>]) -> impl Iterator<Item = &'a HistoryEntry> {
    path.iter().flat_map(move |span| {
        let at = |position: Position| all.partition_point(|entry| entry.position < position);
        all.get(at(span.start)..at(span.end)).unwrap_or_default()
    })
}

fn found_some(selected: &[bool]) -> bool {
    selected.contains(&true) && selected.contains(&false)
}

/// For each message, the number of its tool exchange: a message with calls, and the messages with their results.
fn exchanges(history: &[HistoryEntry]) -> Vec<Option<usize>> {
    let mut calls = std::collections::HashMap::new();
    let of = |(index, entry): (usize, &HistoryEntry)| {
        let message: &Message = &entry.arrival.message;
        let mut own = None;
        for (_, call) in message.tool_calls() {
            calls.insert(call.id.clone(), index);
            own = Some(index);
        }
        own.or_else(|| message.tool_results().find_map(|(_, result)| calls.get(&result.call_id).copied()))
    };
    history.iter().enumerate().map(of).collect()
}

/// Extends the selection to whole tool exchanges.
fn widen(history: &[HistoryEntry], selected: &mut [bool]) {
    let exchanges = exchanges(history);
    let hit: HashSet<usize> = exchanges
        .iter()
        .zip(&*selected)
        .filter(|(_, selected)| **selected)
        .filter_map(|(exchange, _)| *exchange)
        .collect();
    for (selected, exchange) in selected.iter_mut().zip(exchanges) {
        *selected |= exchange.is_some_and(|exchange| hit.contains(&exchange));
    }
}

/// Returns the number of messages to leave out at the front, so that at most `limit` are left and no tool exchange is
/// split.
fn cut(history: &[HistoryEntry], limit: usize) -> usize {
    let least = history.len().saturating_sub(limit);
    let exchanges = exchanges(history);
    let mut ends = vec![0; history.len()];
    for (at, exchange) in exchanges.iter().enumerate() {
        if let Some(end) = exchange.and_then(|exchange| ends.get_mut(exchange)) {
            *end = at;
        }
    }
    // The end of all exchanges that lose a message.
    let mut reach = 0;
    for (at, exchange) in exchanges.iter().enumerate() {
        if at >= least && reach < at.max(1) {
            return at;
        }
        reach = exchange.and_then(|exchange| ends.get(exchange)).map_or(reach, |end| reach.max(*end));
    }
    history.len()
}

/// Returns the earlier branches of the conversation, the oldest first. A branch without a message that only it has is
/// left out. The cost grows with the whole log.
///
/// # Errors
/// Returns an error if the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
/// use lookback_session::adapter;
/// use lookback_session::Session;
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Default::default()).await?;
/// session.sync(vec![Message::user("Hi"), Message::assistant("Hello")]).await?;
/// session.sync(vec![Message::user("Hi"), Message::assistant("Good day")]).await?;
/// let left = adapter::left_branches(&mut session).await?;
/// assert_eq!(left.len(), 1);
/// assert_eq!(left[0].messages[1].arrival.message.text(), "Hello");
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
pub async fn left_branches(session: &mut Session) -> Result<Vec<LeftBranch>, Error> {
    session.reload_if_stale().await?;
    let shown: HashSet<_> = session.view().messages().map(|item| item.position()).collect();
    let (mut all, mut forks, mut preambles) = (Vec::new(), Vec::new(), Vec::new());
    session
        .walk_all(&mut |position, entry| {
            match entry {
                Entry::Message(arrival) => {
                    all.push(HistoryEntry { position, arrival, shown: shown.contains(&position) });
                }
                Entry::Branch { at } => forks.push((position, at)),
                Entry::Preamble { preamble, .. } => preambles.push((position, preamble)),
                _ => {}
            }
            true
        })
        .await?;
    // The start of each branch, and the spans that it shares with earlier branches.
    let mut begun: Vec<(Position, Vec<Range<Position>>)> = vec![(0, Vec::new())];
    let mut ends = Vec::with_capacity(forks.len());
    for (position, at) in forks {
        ends.push(path_at(&begun, position));
        let shared = path_at(&begun, at);
        begun.push((position + 1, shared));
    }
    let mut known: HashSet<Position> = on_path(&all, session.view().path()).map(|entry| entry.position).collect();
    let mut left = Vec::new();
    for path in ends.iter().rev() {
        let is_own =
            |entry: &HistoryEntry| entry.arrival.origin != Origin::Lookback && !known.contains(&entry.position);
        if on_path(&all, path).any(is_own) {
            known.extend(on_path(&all, path).map(|entry| entry.position));
            let messages: Vec<HistoryEntry> = on_path(&all, path).cloned().collect();
            let end = messages.last().map_or(0, |entry| entry.position);
            let before = preambles.partition_point(|(position, _)| *position < end);
            let sent = before.checked_sub(1).and_then(|last| preambles.get(last));
            let preamble = sent.map(|(_, preamble)| Arc::clone(preamble)).unwrap_or_default();
            left.push(LeftBranch { messages, preamble });
        }
    }
    left.reverse();
    Ok(left)
}

/// Returns the newest messages of the conversation within this span of the log, at most `most` of them, in their
/// order. The cost does not depend on the length of the history.
///
/// # Errors
/// Returns an error if the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
/// use lookback_session::adapter;
/// use lookback_session::Session;
/// use lookback_engine::Settings;
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
/// session.append(["one", "two", "three"].map(Message::user).to_vec()).await?;
/// let newest = adapter::newest(&mut session, 0..u64::MAX, 2).await?;
/// assert_eq!(newest[0].arrival.message.text(), "two");
/// assert_eq!(adapter::newest(&mut session, 0..newest[0].position, 2).await?.len(), 1);
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
pub async fn newest(session: &mut Session, span: Range<Position>, most: usize) -> Result<Vec<HistoryEntry>, Error> {
    session.reload_if_stale().await?;
    let shown: HashSet<_> = session.view().messages().map(|item| item.position()).collect();
    let mut newest = Vec::new();
    for own in session.view().path().iter().rev() {
        let (start, mut end) = (own.start.max(span.start), own.end.min(span.end));
        while start < end && newest.len() < most {
            let page = start.max(end.saturating_sub(PAGE.min(most as u64)))..end;
            let entries = read(&*session.store, &session.name, page.clone()).await?;
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

/// Returns the first messages of the conversation, at most this many.
///
/// # Errors
/// Returns an error if the store fails.
#[doc(hidden)]
pub async fn oldest(session: &mut Session, most: usize) -> Result<Vec<HistoryEntry>, Error> {
    session.reload_if_stale().await?;
    let shown: HashSet<_> = session.view().messages().map(|item| item.position()).collect();
    let mut oldest = Vec::new();
    let mut visit = |position, entry| {
        if let Entry::Message(arrival) = entry {
            oldest.push(HistoryEntry { position, arrival, shown: shown.contains(&position) });
        }
        oldest.len() < most
    };
    session.walk(&mut visit).await?;
    Ok(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_wire::message::ToolCall;

    fn history(messages: Vec<Message>) -> Vec<HistoryEntry> {
        let mut engine = lookback_engine::Engine::new(lookback_engine::Settings::default());
        let entries = messages.into_iter().flat_map(|message| engine.push(Arc::new(message)).unwrap());
        let arrivals =
            entries.filter_map(|entry| if let Entry::Message(arrival) = entry { Some(arrival) } else { None });
        (0..).zip(arrivals).map(|(position, arrival)| HistoryEntry { position, arrival, shown: true }).collect()
    }

    #[test]
    fn a_cut_splits_no_exchange_wherever_its_results_are() {
        let call = |id: &str| Message::assistant_with_calls("", [ToolCall::new(id, "read", "{}")]);
        let (said, result) = (|| Message::user("hi"), |id: &str| Message::tool_result(id, "text"));
        let history = history(vec![said(), call("a"), result("a"), call("b"), said(), result("b"), said()]);
        let cuts: Vec<_> = (0..=history.len()).map(|limit| cut(&history, limit)).collect();
        assert_eq!(cuts, [7, 6, 6, 6, 3, 3, 1, 0]);
    }
}
