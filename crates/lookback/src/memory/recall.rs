//! Recall: what has left the window, read again from the session's log as data for a model.
//!
//! It reads the log alone, so no session need be open, and nothing but this one log. Whatever is asked, what comes is bounded, and says
//! how to get the rest.

use std::fmt;

use lookback_core::cut::Cut;
use lookback_core::message::{Media, MediaSource, Message, PartRef, ResultItem, Role, ToolResult};
use lookback_core::transcript::{Arrival, Entry, Origin, Position};
use serde::Serialize;

use super::sheet::is_unseen;
use crate::session::{excerpt, log};
use crate::store::{LogName, Store, StoreError};

/// What is to be recalled. As JSON it is the arguments of the tool `recall`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Recall {
    /// One message in full, in pages.
    Entry {
        /// Its position in the log.
        entry: Position,
        /// Characters to pass over.
        #[serde(skip_serializing_if = "is_zero")]
        offset: u64,
        /// The most characters, up to [`Recall::LONGEST`], which it also is where nothing is said.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// The messages of a span of the log, long ones cut.
    Range {
        /// The first position.
        from: Position,
        /// The last position.
        to: Position,
        /// The most messages, up to [`Recall::MOST`]; 20 where nothing is said.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// A piece of each message that holds every word of a query, the best first. Branches that were left are searched too.
    Query {
        /// The words.
        query: String,
        /// Messages found to pass over.
        #[serde(skip_serializing_if = "is_zero")]
        offset: u64,
        /// The most messages, up to [`Recall::MOST`]; 5 where nothing is said.
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
    pub const MOST: u64 = 50;

    /// One message in full.
    pub fn entry(entry: Position) -> Self {
        Recall::Entry { entry, offset: 0, limit: None }
    }

    /// The messages of a span of the log.
    pub fn range(from: Position, to: Position) -> Self {
        Recall::Range { from, to, limit: None }
    }

    /// The messages that hold every word of a query.
    pub fn query(query: impl Into<String>) -> Self {
        Recall::Query { query: query.into(), offset: 0, limit: None }
    }
}

/// Messages of a range, and messages found, where nothing is said.
const IN_RANGE: u64 = 20;
const FOUND: u64 = 5;
/// Characters of one message among others, and of all of them.
const OF_EACH: usize = 1_000;
const OF_ALL: usize = 16_000;
/// Entries that are read at a time, and how far back the call is looked for that a result answers.
const PAGE: u64 = 64;
const BACK: u64 = 256;

/// What was recalled. As text it is what a model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recalled {
    /// What was asked for.
    pub asked: Recall,
    /// The messages, or pieces of them.
    pub passages: Vec<Passage>,
    /// What to ask for next, where there are more messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<Recall>,
    /// How many entries the log has; 0 where nothing was ever said in it, or it was erased.
    pub end: Position,
}

/// A message, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Its position in the log.
    pub position: Position,
    /// Who speaks: `user`, `assistant`, `system`, `lookback`, or `tool result of NAME`.
    pub who: String,
    /// Whether it stands on a way that the conversation has left, as when a person changed an earlier message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// What is shown of it.
    pub text: String,
    /// Characters of all of it.
    pub length: u64,
    /// How to get what is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Recall>,
}

/// Reads from a session's log. Logs that are derived from a session's hold no messages, and nothing is recalled from them.
///
/// # Errors
/// Where the store fails.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback::memory::{Recall, recall};
/// use lookback::{MemoryStore, Message, Session, Settings};
///
/// let store = Arc::new(MemoryStore::new());
/// let mut session = Session::open(store.clone(), "chat-1", Settings::default()).await?;
/// session.push(Message::user("The port is 5050.")).await?;
/// let found = recall(&*store, session.name(), &Recall::query("port")).await?;
/// assert!(found.to_string().starts_with("#0 user:\n| The port is 5050."));
/// # Ok::<(), lookback::Error>(())
/// # }).unwrap();
/// ```
pub async fn recall(store: &dyn Store, session: &LogName, asked: &Recall) -> Result<Recalled, StoreError> {
    let mut recalled = Recalled { asked: asked.clone(), passages: Vec::new(), more: None, end: 0 };
    let head = if session.is_derived() { None } else { store.head(session, None).await? };
    let Some(head) = head else { return Ok(recalled) };
    recalled.end = head.end;
    let reader = Reader { store, session, end: head.end, path: Path::read(store, session, head.checkpoint).await? };
    match asked {
        Recall::Entry { entry, offset, limit } => {
            let limit = limit.unwrap_or(Recall::LONGEST).clamp(1, Recall::LONGEST);
            if let Some(arrival) = reader.message(*entry).await? {
                recalled.passages.push(reader.page(*entry, &arrival, *offset, limit).await?);
            }
        }
        Recall::Range { from, to, limit } => {
            let limit = limit.unwrap_or(IN_RANGE).clamp(1, Recall::MOST);
            reader.range(*from, *to, limit, &mut recalled).await?;
        }
        Recall::Query { query, offset, limit } => {
            let limit = limit.unwrap_or(FOUND).clamp(1, Recall::MOST);
            reader.query(query, *offset, limit, &mut recalled).await?;
        }
    }
    Ok(recalled)
}

/// Which entries are of the conversation as it is.
struct Path {
    /// Since here, all are: each branch begins with a checkpoint.
    since: Position,
    before: Vec<std::ops::Range<Position>>,
}

impl Path {
    async fn read(store: &dyn Store, session: &LogName, checkpoint: Option<Position>) -> Result<Self, StoreError> {
        let all = Path { since: 0, before: Vec::new() };
        let Some(since) = checkpoint else { return Ok(all) };
        Ok(match log::read(store, session, since..since.saturating_add(1)).await?.pop() {
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
    async fn message(&self, position: Position) -> Result<Option<Arrival>, StoreError> {
        if position >= self.end {
            return Ok(None);
        }
        let entry = log::read(self.store, self.session, position..position.saturating_add(1)).await?.pop();
        Ok(if let Some(Entry::Message(arrival)) = entry { Some(arrival) } else { None })
    }

    async fn range(&self, from: Position, to: Position, limit: u64, into: &mut Recalled) -> Result<(), StoreError> {
        let end = self.end.min(to.saturating_add(1));
        let (mut at, mut room) = (from, OF_ALL);
        while at < end {
            let page = at..end.min(at.saturating_add(PAGE));
            at = page.end;
            for (position, entry) in page.clone().zip(log::read(self.store, self.session, page).await?) {
                let Entry::Message(arrival) = entry else { continue };
                if into.passages.len() as u64 >= limit || room == 0 {
                    into.more = Some(Recall::Range { from: position, to, limit: into.asked.limit() });
                    return Ok(());
                }
                let passage = self.page(position, &arrival, 0, OF_EACH as u64).await?;
                room = room.saturating_sub(passage.text.chars().count());
                into.passages.push(passage);
            }
        }
        Ok(())
    }

    async fn query(&self, query: &str, offset: u64, limit: u64, into: &mut Recalled) -> Result<(), StoreError> {
        let (skip, most) = (as_usize(offset), as_usize(limit));
        // One more, to know whether there is one.
        let hits = self.store.search(Some(self.session), query, skip.saturating_add(most).saturating_add(1)).await?;
        let mut hits = hits.into_iter().filter(|hit| hit.log == *self.session).skip(skip);
        for hit in hits.by_ref().take(most) {
            let Some(arrival) = self.message(hit.position).await? else { continue };
            let mut passage = self.page(hit.position, &arrival, 0, u64::MAX).await?;
            let piece = excerpt(&passage.text, query);
            if piece.chars().count() < passage.text.chars().count() {
                passage.rest = Some(Recall::entry(hit.position));
            }
            passage.text = piece;
            into.passages.push(passage);
        }
        if hits.next().is_some() {
            let offset = offset.saturating_add(limit);
            into.more = Some(Recall::Query { query: query.to_owned(), offset, limit: into.asked.limit() });
        }
        Ok(())
    }

    /// A piece of a message.
    async fn page(&self, at: Position, arrival: &Arrival, offset: u64, limit: u64) -> Result<Passage, StoreError> {
        let message = &arrival.message;
        let mut tools = Vec::new();
        for (_, result) in message.tool_results() {
            tools.push(self.tool(at, result).await?);
        }
        let text = written(message, &tools);
        let length = text.chars().count() as u64;
        let shown: String = text.chars().skip(as_usize(offset)).take(as_usize(limit)).collect();
        let next = offset.saturating_add(limit);
        let rest = (next < length).then_some(Recall::Entry { entry: at, offset: next, limit: None });
        Ok(Passage { position: at, who: who(arrival, &tools), left: !self.path.has(at), text: shown, length, rest })
    }

    /// The tool that a result is of: the nearest call before it that has its identifier.
    async fn tool(&self, at: Position, result: &ToolResult) -> Result<Option<String>, StoreError> {
        let mut end = at;
        let least = at.saturating_sub(BACK);
        while end > least {
            let page = end.saturating_sub(PAGE).max(least)..end;
            end = page.start;
            for entry in log::read(self.store, self.session, page).await?.into_iter().rev() {
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

/// Whether a message has nothing but results of tools.
fn is_all_results(message: &Message) -> bool {
    let mut parts = message.parts().filter(|part| !part.is_cache_marker()).peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, PartRef::ToolResult(_)))
}

fn who(arrival: &Arrival, tools: &[Option<String>]) -> String {
    let message = &arrival.message;
    if is_all_results(message) {
        let names: Vec<&str> = tools.iter().flatten().map(String::as_str).collect();
        let s = if tools.len() == 1 { "" } else { "s" };
        return if names.is_empty() {
            format!("tool result{s}")
        } else {
            format!("tool result{s} of {}", names.join(", "))
        };
    }
    let who = match (arrival.origin, message.role()) {
        (Origin::Lookback, _) => "lookback",
        (_, Role::System) => "system",
        (_, Role::User) => "user",
        (_, Role::Assistant) => "assistant",
    };
    who.to_owned()
}

/// All that can be read of a message, but for reasoning.
fn written(message: &Message, tools: &[Option<String>]) -> String {
    let alone = is_all_results(message) && tools.len() == 1;
    let mut tools = tools.iter();
    let block = |part: PartRef<'_>| match part {
        PartRef::Text(text) => Some(text.to_owned()),
        PartRef::Image(media) => Some(shown(media, "image")),
        PartRef::Document(media) => Some(shown(media, "document")),
        PartRef::ToolCall(call) => Some(format!("[calls {}] {}", short(&call.name), call.arguments)),
        PartRef::ToolResult(result) => {
            let tool = tools.next().and_then(Option::as_deref).unwrap_or("a tool");
            let of = if alone { String::new() } else { format!("[result of {tool}]\n") };
            let error = if result.error { "[error]\n" } else { "" };
            Some(format!("{of}{error}{}", result.content.iter().map(item).collect::<Vec<_>>().join("\n")))
        }
        PartRef::Opaque(opaque) if !opaque.is_cache_marker() => Some(format!("[{}]", short(&opaque.kind))),
        PartRef::Reasoning(_) | PartRef::Opaque(_) => None,
    };
    message.parts().filter_map(block).collect::<Vec<_>>().join("\n")
}

fn item(item: &ResultItem) -> String {
    match item {
        ResultItem::Text(text) | ResultItem::Json(text) => text.clone(),
        ResultItem::Image(media) => shown(media, "image"),
        ResultItem::Document(media) => shown(media, "document"),
        ResultItem::Opaque(opaque) => format!("[{}]", short(&opaque.kind)),
    }
}

/// A picture or file: its text, where it is one, and else a placeholder.
fn shown(media: &Media, kind: &'static str) -> String {
    let placeholder = Cut::placeholder(media, kind).marker;
    match &media.source {
        MediaSource::Text(text) => format!("{placeholder}\n{text}"),
        MediaSource::Base64(_) | MediaSource::Url(_) | MediaSource::Id(_) => placeholder,
    }
}

/// A name that a client or a model chose, so short that it can stand in a line of ours.
fn short(name: &str) -> String {
    const SHOWN: usize = 64;
    name.chars().take(SHOWN).collect()
}

/// A line of a message, in which nothing stands that people do not see, or that ends the line.
fn plain(line: &str) -> String {
    // Those that join letters are part of how some scripts, and families, are written; and what stands here has no frame to close.
    let stays = |c: char| !is_unseen(c) || matches!(c, '\t' | '<' | '>' | '\u{200c}' | '\u{200d}');
    line.chars().map(|c| if stays(c) { c.to_string() } else { format!("\\u{{{:x}}}", u32::from(c)) }).collect()
}

impl fmt::Display for Passage {
    /// A line that says what it is, then each of its lines behind `| `, so that none can pose as another message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = if self.left { ", on a way that was left" } else { "" };
        writeln!(f, "#{} {}{left}:", self.position, plain(&self.who))?;
        for line in self.text.lines() {
            writeln!(f, "| {}", plain(line))?;
        }
        let shown = self.text.chars().count() as u64;
        match &self.rest {
            Some(rest) => writeln!(f, "[{shown} of {} characters; the rest: recall {}]", self.length, arguments(rest)),
            None if shown == 0 => writeln!(f, "[no more text; it has {} characters]", self.length),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Recalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.passages.iter().try_for_each(|passage| passage.fmt(f))?;
        match (&self.more, &self.asked) {
            (Some(more), _) => writeln!(f, "[more messages: recall {}]", arguments(more)),
            (None, _) if !self.passages.is_empty() => Ok(()),
            (None, _) if self.end == 0 => {
                writeln!(f, "[nothing is kept of this session: nothing was said, or it was erased]")
            }
            (None, Recall::Query { .. }) => writeln!(f, "[no message holds all of these words; fewer find more]"),
            (None, Recall::Range { .. }) => {
                writeln!(f, "[no message stands there; the numbers go from 0 to {}]", self.end.saturating_sub(1))
            }
            (None, Recall::Entry { entry, .. }) => writeln!(
                f,
                "[#{entry} is no message; the numbers go from 0 to {}, and not each is one; recall {}]",
                self.end.saturating_sub(1),
                arguments(&Recall::range(entry.saturating_sub(5), entry.saturating_add(5)))
            ),
        }
    }
}

/// What is to be asked, as the arguments of the tool.
fn arguments(recall: &Recall) -> String {
    plain(&serde_json::to_string(recall).unwrap_or_default())
}
