//! Timelines: the messages that the model saw at each call of a session, those that it did not see, and the reasons.
//!
//! A timeline is computed only from the log: the view of the entries before an answer is the window that the model was
//! sent. To make one, see [`Timeline::load`].
//!
//! It has a [`Row`] for each message, in the order in which they are shown. Each row has its [`State`]s: the call from
//! which on the message was sent, the call from which on less of it was shown, and the call from which on it was gone.
//! So its size grows with the messages and their changes, and not with messages times calls. The window of a call
//! consists of the rows that are shown there:
//!
//! ```
//! # futures_lite::future::block_on(async {
//! use lookback_replay::timeline::Timeline;
//! use lookback_store::MemoryStore;
//! use lookback_wire::message::Message;
//! use lookback_replay::prices::Prices;
//! use lookback_session::Session;
//! use lookback_engine::{Settings, policy::{Limits, Policy}};
//!
//! let settings = Settings::default().policy(Policy { limits: Limits::messages(2), ..Policy::unlimited() });
//! let mut chat = Session::open(MemoryStore::new(), "chat-1", settings).await?;
//! for number in 1..=3 {
//!     chat.push(Message::user(format!("Question {number}?"))).await?;
//!     chat.window().await?;
//!     chat.push(Message::assistant(format!("Answer {number}."))).await?;
//! }
//!
//! let price = Prices::builtin().find("anthropic-5m").unwrap();
//! let counter = &chat.settings().counter;
//! let timeline = Timeline::load(&**chat.store(), chat.name(), &**counter, price).await?;
//! let sent = |call| timeline.window(call).map(|(row, _)| row.message.text()).collect::<Vec<_>>();
//! assert_eq!(sent(1), ["Question 1?"]);
//! assert_eq!(sent(3).last().unwrap(), "Question 3?");
//! let gone = timeline.rows[1].at(3).unwrap();
//! assert!(!gone.is_shown, "the first answer has left the window of the third call");
//! # Ok::<(), lookback_session::Error>(())
//! # }).unwrap();
//! ```

mod build;
mod load;
mod order;

use std::sync::Arc;

use lookback_engine::plan::{Action, Occasion, Reason};
use lookback_engine::totals::Totals;
use lookback_engine::transcript::{Millis, Position};
use lookback_wire::edit::Edit;
use lookback_wire::size::{Measure, Size};
use lookback_wire::{
    dialect::{Dialect, Preamble},
    message::{Message, Role},
};

pub(crate) use self::build::Builder;
use crate::receipt::{CallReceipt, ReceiptTotal};
use crate::replay::Cause;
use lookback_recordings::Recording;
use lookback_session::RecordedMessage;

/// The calls of a session, and the messages that each of them sent.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Timeline {
    /// The dialect of the messages.
    pub dialect: Dialect,
    /// The calls, in the order in which they were made.
    pub calls: Vec<Call>,
    /// The messages, in the order in which they are shown.
    pub rows: Vec<Row>,
    /// The compactions, in order.
    pub compactions: Vec<CompactionMark>,
    /// The system prompts and tools, each with the first call that sent them.
    pub preambles: Vec<SentPreamble>,
    /// The sums of the calls.
    pub total: ReceiptTotal,
    /// The entry from which on calls are known (see [`Receipt::since`](crate::receipt::Receipt::since)).
    pub since: Position,
}

/// One call of the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The tokens and the cost of the call.
    pub receipt: CallReceipt,
    /// The time of the answer's arrival, if known.
    pub time: Option<Millis>,
    /// The size of the window, by Lookback's count.
    pub window: Totals,
    /// The tokens of the system prompt and tools.
    pub preamble_tokens: u64,
    /// Names in the answer that were in the history, but no longer in the window.
    pub missed: Vec<Missed>,
}

/// A name that the model used after it had left the window.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// The name.
    pub name: String,
    /// The newest entry that contains it.
    pub position: Position,
    /// How it left the window.
    pub cause: Cause,
}

/// A message, and its states over the calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Row {
    /// The position of its entry in the log.
    pub position: Position,
    /// The kind of message.
    pub kind: RowKind,
    /// The whole message.
    pub message: Arc<Message>,
    /// The time of its arrival, if known.
    pub time: Option<Millis>,
    /// Its tokens when it arrived.
    pub tokens: u64,
    /// Its states, beginning with the first call after its arrival.
    pub states: Vec<State>,
}

/// The kind of a row of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowKind {
    /// A message of the conversation.
    Message,
    /// An answer of the model that the client did not get, or a tool result that the client did not send.
    Aside,
    /// A note from Lookback, such as a fact sheet.
    Note,
    /// A message that repairs the history: a stand-in for a missing result, or an opening.
    Mend,
    /// The running summary.
    Summary,
    /// An index of names that have left the window.
    Index,
}

impl RowKind {
    /// Returns the name of the kind; `None` for a message of the conversation.
    pub fn name(self) -> Option<&'static str> {
        match self {
            RowKind::Message => None,
            RowKind::Aside => Some("answered by Lookback"),
            RowKind::Note => Some("note"),
            RowKind::Mend => Some("repair"),
            RowKind::Summary => Some("summary"),
            RowKind::Index => Some("index"),
        }
    }
}

/// The state of a message, from one call on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct State {
    /// The number of the call, from 1.
    pub call: u64,
    /// Whether the message is sent.
    pub is_shown: bool,
    /// The treatment of the message, and its reason.
    pub fate: Fate,
    /// The tokens of the message as sent.
    pub tokens: u64,
    /// The edits of the message as sent.
    pub edits: Arc<[Edit]>,
}

/// The treatment of a message, and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is sent as it arrived.
    Whole,
    /// A part of it could not be sent as it arrived, and is left out or changed.
    Repaired,
    /// A decision of the engine.
    Decided {
        /// The action.
        action: Action,
        /// The reason.
        reason: Reason,
    },
    /// Another message took its place: a newer summary or index, or another system message.
    Replaced,
    /// From this call on, it is sent at another place.
    Moved,
    /// The client changed its history, and the message is on an abandoned branch.
    Abandoned,
}

impl Fate {
    /// Returns the fate as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Fate::Whole | Fate::Decided { action: Action::Keep, .. } => "kept",
            Fate::Repaired => "repaired",
            Fate::Decided { action: Action::Truncate, .. } => "truncated",
            Fate::Decided { action: Action::Clear, .. } => "cleared",
            Fate::Decided { action: Action::Summarize, .. } => "summarized",
            Fate::Decided { .. } => "dropped",
            Fate::Replaced => "replaced",
            Fate::Moved => "moved",
            Fate::Abandoned => "abandoned",
        }
    }

    /// Describes the reason.
    pub fn why(&self) -> String {
        match self {
            Fate::Whole => "sent as it arrived".to_owned(),
            Fate::Repaired => "a part of it could not be sent as it arrived".to_owned(),
            Fate::Decided { reason, .. } => reason.to_string(),
            Fate::Replaced => "another message took its place".to_owned(),
            Fate::Moved => "sent at another place from then on".to_owned(),
            Fate::Abandoned => "the client changed its history, and this is not in it any more".to_owned(),
        }
    }
}

/// A compaction on a timeline.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactionMark {
    /// The call before which it was made.
    pub call: u64,
    /// Its position in the log.
    pub position: Position,
    /// Its occasion, if it was made at lower limits than usual.
    pub occasion: Option<Occasion>,
    /// The limit that was exceeded, if known.
    pub limit: Option<ExceededLimit>,
    /// The totals of the window before.
    pub before: Totals,
    /// The totals of the window after.
    pub after: Totals,
}

/// A limit that a window exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExceededLimit {
    /// The measure that it limits.
    pub measure: Measure,
    /// The amount in the window.
    pub actual: u64,
    /// The limit.
    pub limit: u64,
    /// The target of the compaction.
    pub target: u64,
}

/// A system prompt with tools.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SentPreamble {
    /// The first call that sent it.
    pub call: u64,
    /// The system prompt and the tools.
    pub preamble: Arc<Preamble>,
    /// Their size.
    pub size: Size,
}

impl Timeline {
    /// Returns the number of the call that would be made now. It is the largest number in the states of rows.
    pub fn next_call(&self) -> u64 {
        self.calls.len() as u64 + 1
    }

    /// Returns the call with a number, from 1.
    pub fn call(&self, number: u64) -> Option<&Call> {
        self.calls.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// Returns the rows that a call sent, each with its state at that call. The [next call](Timeline::next_call) sends
    /// the rows of the current window.
    pub fn window(&self, call: u64) -> impl Iterator<Item = (&Row, &State)> {
        self.rows.iter().filter_map(move |row| Some((row, row.at(call)?))).filter(|(_, state)| state.is_shown)
    }

    /// Returns the rows that two calls sent differently, each with its states at both: rows that were added, that left,
    /// or of which more or less is shown.
    pub fn difference(&self, before: u64, after: u64) -> impl Iterator<Item = (&Row, Option<&State>, Option<&State>)> {
        self.rows.iter().filter_map(move |row| {
            let (from, to) = (row.at(before), row.at(after));
            let shows = |state: Option<&State>| state.filter(|state| state.is_shown).map(|state| state.edits.clone());
            (shows(from) != shows(to)).then_some((row, from, to))
        })
    }

    /// Returns the conversation as a recording, for replaying it under another policy: the messages of the current
    /// branch as they arrived, with the newest system prompt and tools.
    pub fn recording(&self, id: impl Into<String>) -> Recording {
        let is_said = |row: &&Row| {
            let last = row.states.last().map(|state| state.fate);
            row.kind == RowKind::Message && !matches!(last, Some(Fate::Abandoned | Fate::Moved))
        };
        let mut rows: Vec<&Row> = self.rows.iter().filter(is_said).collect();
        rows.sort_by_key(|row| row.position);
        let messages = rows.into_iter().map(|row| RecordedMessage::new((*row.message).clone(), row.time)).collect();
        let mut recording = Recording::new(id, self.dialect, messages);
        recording.preamble = self.preambles.last().map(|sent| (*sent.preamble).clone()).unwrap_or_default();
        recording
    }

    /// Returns the system prompt and tools that a call sent.
    pub fn preamble(&self, call: u64) -> Option<&SentPreamble> {
        self.preambles.iter().rfind(|sent| sent.call <= call)
    }
}

impl Row {
    /// Returns the message's role as one word: `system`, `user`, `assistant` or `tool`.
    pub fn role(&self) -> &'static str {
        match self.message.role() {
            Role::System => "system",
            Role::Assistant => "assistant",
            Role::User if self.message.tool_results().next().is_some() => "tool",
            Role::User => "user",
        }
    }

    /// Returns the state of the message at a call; `None` if it had not arrived yet.
    pub fn at(&self, call: u64) -> Option<&State> {
        self.states.get(self.states.partition_point(|state| state.call <= call).checked_sub(1)?)
    }
}
