//! The kept turns of a session, for inspection by a caller.

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Shown;
use lookback_wire::message::Message;

use super::{Error, Tags};
use lookback_session::adapter;
use lookback_session::{HistoryEntry, Session};

/// The number of messages in one read of the log.
const PAGE: usize = 256;

/// A session, with the messages that the memory keeps.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemoryEntry {
    /// The session's name. Like the original's random number, it stays the same as long as the session exists.
    pub id: String,
    /// The agent that wrote last, if it gave a name.
    pub agent_name: Option<String>,
    /// The tags of the last write.
    pub tags: Tags,
    /// When the session was created, in milliseconds since 1970.
    pub created_at: Option<Millis>,
    /// When the session was last written or read, in milliseconds since 1970.
    pub accessed_at: Option<Millis>,
    /// The tokens of its messages, counted by [`Utf16`](super::Utf16).
    pub token_count: u64,
    /// The messages of the kept turns, including those for which a read has no room. Calls without results have no
    /// stand-ins here.
    pub messages: Vec<Message>,
}

/// The size of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of kept turns.
    pub turns: u64,
    /// Their tokens, counted by [`Utf16`](super::Utf16).
    pub estimated_tokens: u64,
}

/// The kept turns of a session.
pub(super) struct StoredTurns {
    history: Vec<HistoryEntry>,
    pub(super) stats: Stats,
}

impl StoredTurns {
    /// Reads the newest turns from the log. The window may lack messages of a very long turn, because it holds only as
    /// many as reads can use.
    pub(super) async fn load(session: &mut Session, max_turns: u64) -> Result<StoredTurns, Error> {
        let (mut history, mut stats) = (Vec::new(), Stats { turns: 0, estimated_tokens: 0 });
        // Messages before the first user message also count as a turn.
        let (mut before, mut begun) = (u64::MAX, false);
        'log: loop {
            let page = adapter::newest(session, 0..before, PAGE).await?;
            let Some(first) = page.first() else { break };
            before = first.position;
            for message in page.into_iter().rev().filter(|entry| entry.arrival.size.messages > 0) {
                stats.estimated_tokens = stats.estimated_tokens.saturating_add(message.arrival.size.tokens);
                begun = !message.arrival.message.opens_turn();
                history.push(message);
                if !begun {
                    stats.turns += 1;
                    if stats.turns == max_turns {
                        break 'log;
                    }
                }
            }
        }
        stats.turns += u64::from(begun);
        history.reverse();
        Ok(StoredTurns { history, stats })
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.history.iter().map(|entry| Shown { message: &entry.arrival.message, edits: &entry.arrival.edits })
    }
}
