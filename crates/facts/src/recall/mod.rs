//! Recall: reads messages that have left the window from the session's log, as data for a model.
//!
//! It reads only this log, and the session need not be open. Every answer is bounded, and contains the request for the
//! rest.

mod below;
mod display;
mod words;

pub use self::below::recall_below;
use lookback_content::Redacted;
use lookback_engine::transcript::{Arrival, Entry, Origin, Position, spans};
use lookback_wire::message::{PartRef, ToolResult};
use serde::Serialize;

use self::words::{is_all_results, short, who, written};
use lookback_store::entries;
use lookback_store::messages::messages;
use lookback_store::search::{Query, Within, excerpt};
use lookback_store::{Hit, LogName, Store, StoreError};

/// The name of the tool that recalls messages. Servers of the Model Context Protocol put theirs before it.
pub(crate) const TOOL: &str = "recall";

/// A request to recall messages. In JSON it is the arguments of the tool `recall`.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Recall {
    /// One message in full, page by page, or the page around the best match of a query.
    Entry {
        /// The message's position in the log.
        entry: Position,
        /// The words to look for in the message.
        #[debug("{:?}", query.as_deref().map(Redacted))]
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// How many characters to skip.
        #[serde(skip_serializing_if = "is_zero")]
        offset: u64,
        /// The most characters, up to [`Recall::LONGEST`], which is the default. With a query, the default is 4,000.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// The messages in a range of the log. Long ones are shortened.
    Range {
        /// The first position.
        from: Position,
        /// The last position, inclusive.
        to: Position,
        /// The most messages, up to 50; the default is 20.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// The best lines of each message that matches a query, the best message first (see
    /// [`search`](lookback_store::search)). Abandoned branches are searched, too.
    Query {
        /// The words.
        #[debug("{:?}", Redacted(query))]
        query: String,
        /// The limits of the search.
        #[serde(flatten)]
        within: Within,
        /// How many messages to skip.
        #[serde(skip_serializing_if = "is_zero")]
        offset: u64,
        /// The most messages, up to 50; the default is 5.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Recall {
    /// The most characters of one message at a time.
    pub const LONGEST: u64 = 8_000;
    /// The most messages at a time.
    const MOST: u64 = 50;

    /// Creates a request for one message in full.
    pub fn entry(entry: Position) -> Self {
        Recall::Entry { entry, query: None, offset: 0, limit: None }
    }

    /// Creates a request for the messages in a range of the log.
    pub fn range(from: Position, to: Position) -> Self {
        Recall::Range { from, to, limit: None }
    }

    /// Creates a request for the messages that match a query.
    pub fn query(query: impl Into<String>) -> Self {
        Recall::Query { query: query.into(), within: Within::default(), offset: 0, limit: None }
    }
}

/// The default numbers of messages, for a range and for a query.
const IN_RANGE: u64 = 20;
const FOUND: u64 = 5;
/// The most characters of a message that a search finds, and of the page around a match in one message.
const EXCERPT: usize = 300;
const AROUND: u64 = 4_000;
/// The most characters of one message in a range, and of all messages of a range together.
const OF_EACH: usize = 1_000;
const OF_ALL: usize = 16_000;
/// The most messages that a search returns, over all of its pages.
const MOST_FOUND: usize = 500;
/// How many entries are read at a time.
const PAGE: u64 = 64;
/// The most pages that one request for a range reads. Most entries of a long range may be erased, or not be messages.
const MOST_PAGES: u32 = 100;
/// How many entries before a result are searched for its call.
const BACK: u64 = 256;

/// The messages that were recalled. Its `Display` is the text that a model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recalled {
    /// The request.
    pub asked: Recall,
    /// The messages, or excerpts of them.
    pub passages: Vec<RecalledPassage>,
    /// The next request, if there are more messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<Recall>,
    /// The requested messages that were erased, as spans of the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<std::ops::Range<Position>>,
    /// The length of the log: 0 if the session never had entries, or was erased.
    pub end: Position,
}

/// A message, or an excerpt of one.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecalledPassage {
    /// Its position in the log, named `entry` in JSON and in requests.
    #[serde(rename = "entry")]
    pub position: Position,
    /// The speaker: `user`, `assistant`, `system`, `lookback`, or `tool result of NAME`.
    #[debug("{:?}", Redacted(who))]
    pub who: String,
    /// Whether it is on an abandoned branch, for example because a person changed an earlier message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// The text that is shown.
    #[debug("{:?}", Redacted(text))]
    pub text: String,
    /// The length of the whole message in characters.
    pub length: u64,
    /// The request for the rest, if something is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Recall>,
}

/// Reads messages from a session's log. Logs that are derived from a session, such as its facts, contain no messages,
/// so the result is empty.
///
/// # Errors
/// Returns an error if the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_engine::{Engine, Settings};
/// use lookback_facts::{Recall, recall};
/// use lookback_store::{Append, LogName, MemoryStore, Record, Store};
/// use lookback_wire::message::Message;
///
/// let (store, log) = (MemoryStore::new(), "chat-1".parse::<LogName>()?);
/// let entries = Engine::new(Settings::default()).push(Message::user("The port is 5050."))?;
/// store.append(&log, Append::new(0, [Record::from_entry(&log, 0, &entries[0], None)?])).await?;
/// let found = recall(&store, &log, &Recall::query("port")).await?;
/// assert!(found.to_string().starts_with("#0 user:\n| The port is 5050."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn recall(store: &dyn Store, session: &LogName, asked: &Recall) -> Result<Recalled, StoreError> {
    let mut recalled = Recalled { asked: asked.clone(), passages: Vec::new(), more: None, erased: Vec::new(), end: 0 };
    let head = if session.is_derived() { None } else { store.head(session, None).await? };
    let Some(head) = head else { return Ok(recalled) };
    recalled.end = head.end;
    let reader = Reader { store, session, end: head.end, path: Path::read(store, session, head.checkpoint).await? };
    match asked {
        Recall::Entry { entry, query, offset, limit } => match reader.entry(*entry).await? {
            Some(Entry::Message(arrival)) => {
                let limit = |default: u64| limit.unwrap_or(default).clamp(1, Recall::LONGEST);
                recalled.passages.push(match query {
                    Some(query) => reader.around(*entry, &arrival, query, *offset, limit(AROUND)).await?,
                    None => reader.page(*entry, &arrival, *offset, limit(Recall::LONGEST)).await?,
                });
            }
            Some(Entry::Erased(of)) if of.role.is_some() => recalled.erased = spans([*entry]),
            _ => {}
        },
        Recall::Range { from, to, limit } => {
            let limit = limit.unwrap_or(IN_RANGE).clamp(1, Recall::MOST);
            reader.range(*from, *to, limit, &mut recalled).await?;
        }
        Recall::Query { query, within, offset, limit } => {
            let limit = limit.unwrap_or(FOUND).clamp(1, Recall::MOST);
            reader.query(query, within, *offset, limit, &mut recalled).await?;
        }
    }
    Ok(recalled)
}

/// The entries that belong to the current branch.
struct Path {
    // From here on, all entries do: each branch begins with a checkpoint.
    since: Position,
    before: Vec<std::ops::Range<Position>>,
}

impl Path {
    /// Returns the path of a log without branches.
    fn whole() -> Path {
        Path { since: 0, before: Vec::new() }
    }

    async fn read(store: &dyn Store, session: &LogName, checkpoint: Option<Position>) -> Result<Self, StoreError> {
        let all = Path::whole();
        let Some(since) = checkpoint else { return Ok(all) };
        Ok(match entries::read(store, session, since..since.saturating_add(1)).await?.pop() {
            Some(Entry::Checkpoint(checkpoint)) => Path { since, before: checkpoint.path },
            _ => all,
        })
    }

    fn has(&self, position: Position) -> bool {
        position >= self.since || self.before.iter().any(|span| span.contains(&position))
    }
}

struct Reader<'a> {
    store: &'a dyn Store,
    session: &'a LogName,
    end: Position,
    path: Path,
}

impl Reader<'_> {
    async fn entry(&self, position: Position) -> Result<Option<Entry>, StoreError> {
        if position >= self.end {
            return Ok(None);
        }
        Ok(entries::read(self.store, self.session, position..position.saturating_add(1)).await?.pop())
    }

    async fn range(&self, from: Position, to: Position, limit: u64, into: &mut Recalled) -> Result<(), StoreError> {
        let end = self.end.min(to.saturating_add(1));
        let (mut at, mut room) = (from, OF_ALL);
        let mut erased = Vec::new();
        let mut pages = 0;
        while at < end {
            pages += 1;
            if pages > MOST_PAGES {
                into.erased = spans(erased);
                into.more = Some(Recall::Range { from: at, to, limit: into.asked.limit() });
                return Ok(());
            }
            let page = at..end.min(at.saturating_add(PAGE));
            at = page.end;
            for (position, entry) in page.clone().zip(entries::read(self.store, self.session, page).await?) {
                let arrival = match entry {
                    Entry::Message(arrival) => arrival,
                    Entry::Erased(of) if of.role.is_some() => {
                        erased.push(position);
                        continue;
                    }
                    _ => continue,
                };
                if into.passages.len() as u64 >= limit || room == 0 {
                    into.erased = spans(erased);
                    into.more = Some(Recall::Range { from: position, to, limit: into.asked.limit() });
                    return Ok(());
                }
                let passage = self.page(position, &arrival, 0, OF_EACH as u64).await?;
                room = room.saturating_sub(passage.text.chars().count());
                into.passages.push(passage);
            }
        }
        into.erased = spans(erased);
        Ok(())
    }

    async fn query(
        &self,
        text: &str,
        within: &Within,
        offset: u64,
        limit: u64,
        into: &mut Recalled,
    ) -> Result<(), StoreError> {
        let (skip, most) = (as_usize(offset), as_usize(limit));
        let query = Query::new(text).within(within.clone());
        // One more than needed shows whether there are more. The limit is for the model's offset: all hits are read.
        let needed = skip.saturating_add(most).saturating_add(1).min(MOST_FOUND);
        let found = self.found(&query, needed).await?;
        for (hit, arrival) in found.iter().skip(skip).take(most) {
            let mut shown = self.page(hit.position, arrival, 0, u64::MAX).await?;
            let range = excerpt(&shown.text, &query, EXCERPT);
            if range.len() < shown.text.len() {
                let (entry, query) = (hit.position, Some(text.to_owned()));
                shown.rest = Some(Recall::Entry { entry, query, offset: 0, limit: None });
            }
            shown.text = shown.text.get(range).unwrap_or_default().to_owned();
            into.passages.push(shown);
        }
        if found.len() > skip.saturating_add(most) {
            let offset = offset.saturating_add(limit);
            let (query, within) = (text.to_owned(), within.clone());
            into.more = Some(Recall::Query { query, within, offset, limit: into.asked.limit() });
        }
        Ok(())
    }

    /// Returns the best matches of a query, except for what the model has asked before, and what it was answered: that
    /// repeats other messages, and matches the same words better.
    async fn found(&self, query: &Query, needed: usize) -> Result<Vec<(Hit, Arrival)>, StoreError> {
        let mut asked = needed;
        loop {
            let hits = messages(self.store, Some(self.session), query, asked).await?;
            let is_all = hits.len() < asked || asked >= MOST_FOUND;
            let mut found = Vec::new();
            for (hit, arrival) in hits {
                let is_here = hit.log == *self.session && hit.position < self.end;
                if is_here && found.len() < needed && !self.is_recalled(hit.position, &arrival).await? {
                    found.push((hit, arrival));
                }
            }
            if is_all || found.len() >= needed {
                return Ok(found);
            }
            asked = asked.saturating_mul(2).min(MOST_FOUND);
        }
    }

    /// Returns whether a message is Lookback's own, only calls a tool for recalling, or has only results of one.
    async fn is_recalled(&self, at: Position, arrival: &Arrival) -> Result<bool, StoreError> {
        if arrival.origin == Origin::Lookback {
            return Ok(true);
        }
        let mut calls = arrival.message.tool_calls().peekable();
        if calls.peek().is_some() {
            let says = arrival.message.parts().any(|part| matches!(part, PartRef::Text(text) if !text.is_empty()));
            return Ok(!says && calls.all(|(_, call)| call.name.ends_with(TOOL)));
        }
        if !is_all_results(&arrival.message) {
            return Ok(false);
        }
        for (_, result) in arrival.message.tool_results() {
            if self.tool(at, result).await?.is_none_or(|name| !name.ends_with(TOOL)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a page of a message.
    async fn page(
        &self,
        at: Position,
        arrival: &Arrival,
        offset: u64,
        limit: u64,
    ) -> Result<RecalledPassage, StoreError> {
        let message = &arrival.message;
        let mut tools = Vec::new();
        for (_, result) in message.tool_results() {
            tools.push(self.tool(at, result).await?);
        }
        let text = written(message, &tools);
        let length = text.chars().count() as u64;
        let shown: String = text.chars().skip(as_usize(offset)).take(as_usize(limit)).collect();
        let next = offset.saturating_add(limit);
        let rest = (next < length).then_some(Recall::Entry { entry: at, query: None, offset: next, limit: None });
        Ok(RecalledPassage {
            position: at,
            who: who(arrival, &tools),
            left: !self.path.has(at),
            text: shown,
            length,
            rest,
        })
    }

    /// Returns the page around the best match of a query in a message.
    async fn around(
        &self,
        at: Position,
        arrival: &Arrival,
        query: &str,
        offset: u64,
        limit: u64,
    ) -> Result<RecalledPassage, StoreError> {
        let mut page = self.page(at, arrival, offset, u64::MAX).await?;
        let range = excerpt(&page.text, &Query::new(query), as_usize(limit));
        let place = |end: usize| offset.saturating_add(page.text.get(..end).unwrap_or_default().chars().count() as u64);
        let (start, end) = (place(range.start), place(range.end));
        let rest = |offset, limit| Some(Recall::Entry { entry: at, query: None, offset, limit });
        page.rest = match (start, end) {
            (_, end) if end < page.length => rest(end, None),
            (0, _) => None,
            (start, _) => rest(0, Some(start)),
        };
        page.text = page.text.get(range).unwrap_or_default().to_owned();
        Ok(page)
    }

    /// Returns the tool that a result is from: the nearest call before it with its identifier.
    async fn tool(&self, at: Position, result: &ToolResult) -> Result<Option<String>, StoreError> {
        let mut end = at;
        let least = at.saturating_sub(BACK);
        while end > least {
            let page = end.saturating_sub(PAGE).max(least)..end;
            end = page.start;
            for entry in entries::read(self.store, self.session, page).await?.into_iter().rev() {
                let Entry::Message(arrival) = entry else { continue };
                let call = arrival.message.tool_calls().find(|(_, call)| call.id == result.call_id);
                if let Some((_, call)) = call {
                    return Ok(Some(short(&call.name)));
                }
            }
        }
        Ok(None)
    }
}

impl Recall {
    fn limit(&self) -> Option<u64> {
        match self {
            Recall::Entry { limit, .. } | Recall::Range { limit, .. } | Recall::Query { limit, .. } => *limit,
        }
    }
}

fn as_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
