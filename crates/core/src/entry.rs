//! The entries of a log: what happened in a conversation, one thing after the other.

use std::ops::Range;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dialect::Preamble;
use crate::edit::Edit;
use crate::message::Message;
use crate::plan::Decision;
use crate::size::{Size, Totals};
use crate::tokens::Calibration;
use crate::wire::Wire;

/// Where an entry stands in its log: 0 is the first.
pub type Position = u64;

/// Milliseconds since 1970-01-01 UTC, as the caller's clock gave them: the engine has none.
pub type Millis = i64;

/// One thing that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A message arrived.
    Message(Arrival),
    /// A broken history was mended, so that it could be sent.
    Repair(Repair),
    /// The system prompt or the tools were set, or replaced.
    #[serde(alias = "frame")]
    Preamble {
        /// What they are now.
        #[serde(alias = "frame")]
        preamble: Arc<Preamble>,
        /// What they cost.
        size: Size,
    },
    /// A plan was carried out.
    Compaction(Compaction),
    /// The provider reported what a call had cost.
    Usage(UsageReport),
    /// Who writes what follows, and under which tags.
    Label(Label),
    /// What the view was, so that a reader can start here.
    Checkpoint(Checkpoint),
    /// The client went back and took another way: the view is again what it was before position `at`.
    Branch {
        /// The end of what is kept.
        at: Position,
    },
}

/// A message, as it arrived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrival {
    /// The message, byte for byte.
    #[serde(with = "wire")]
    pub message: Arc<Message>,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Origin::is_client")]
    pub origin: Origin,
    /// What of it is shown: the cap on tool results, and repairs.
    #[serde(default, deserialize_with = "crate::edit::read", skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Its size as it is shown.
    pub size: Size,
    /// By which a history that is sent again is recognized (see [`Message::digest`]).
    #[serde(with = "hex")]
    pub digest: u128,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
    /// The system messages whose place it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<Position>,
    /// It is a system message that stands before everything else.
    #[serde(default, skip_serializing_if = "is_false")]
    pub first: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The application.
    #[default]
    Client,
    /// The model, and Lookback saw it answer.
    Model,
    /// Lookback itself.
    Lookback,
}

impl Origin {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
    fn is_client(&self) -> bool {
        *self == Origin::Client
    }
}

/// How a broken history was mended when it was to be sent. (What can be seen of a message as it arrives, such as a result
/// without a call, is mended by the edits of its [`Arrival`].)
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A tool call had no result: this stands in for it. A real result that comes late takes its place at the next compaction.
    StandIn {
        /// The message that made the call.
        call: Position,
        /// The stand-in.
        #[serde(with = "wire")]
        message: Arc<Message>,
        /// Its size.
        size: Size,
    },
    /// The request ends with the model's own words, and the provider refuses white space at their end.
    Trim {
        /// The message.
        message: Position,
        /// What it is without that white space.
        edit: Edit,
        /// Its size so.
        size: Size,
    },
    /// The provider demands that a request begin with a user's message, and the history does not.
    Opening {
        /// What it begins with instead.
        #[serde(with = "wire")]
        message: Arc<Message>,
        /// Its size.
        size: Size,
    },
}

/// A plan, carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compaction {
    /// What was done with each group of the window, in order.
    pub groups: Vec<CompactedGroups>,
    /// The running summary that takes the place of those that were summarized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<Summary>>,
    /// The window before.
    pub before: Totals,
    /// The window after.
    pub after: Totals,
}

/// A running summary, as it is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Its message.
    #[serde(with = "wire")]
    pub message: Arc<Message>,
    /// The summary itself, without the wording around it.
    pub text: String,
    /// The size of the message.
    pub size: Size,
    /// Tokens of all that it stands for.
    #[serde(default)]
    pub stands_for: u64,
    /// What it has taken in beside the summary before it.
    pub covers: Vec<Range<Position>>,
    /// The compaction that brought the summary before it.
    #[serde(default, alias = "base", skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Position>,
}

/// What was done with a group, or with several that stood next to each other and shared a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedGroups {
    /// How many groups. The sizes of the decision are those of all of them together.
    pub count: usize,
    /// The entries that they were made of.
    pub spans: Vec<Range<Position>>,
    /// What was done, and why.
    #[serde(flatten)]
    pub decision: Decision,
    /// How one group is shown now; absent, as before, or not at all where it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<ShownItem>>,
}

/// How one entry is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownItem {
    /// The entry.
    pub position: Position,
    /// What of it is shown.
    #[serde(default, deserialize_with = "crate::edit::read", skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Its size so.
    pub size: Size,
}

/// Who writes messages, and under which tags.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Label {
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Tags, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl Label {
    /// Neither a name nor tags.
    pub fn is_empty(&self) -> bool {
        self.agent.is_none() && self.tags.is_empty()
    }
}

/// What the provider reported of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// The model.
    pub model: String,
    /// Input tokens by our count.
    pub estimated: u64,
    /// Input tokens by the provider's, cached ones included.
    pub reported: u64,
}

/// All that a fold knows at one point of the log, without the messages: they are read by their positions.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The groups of the view.
    pub groups: Vec<SavedGroup>,
    /// Results that wait for a compaction to take their stand-ins' places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<ShownItem>,
    /// Turns, over the whole history.
    pub turn: u64,
    /// Rounds, over the whole history.
    pub round: u64,
    /// Messages of the branch, without Lookback's own.
    pub messages: u64,
    /// The chain of their digests.
    #[serde(with = "hex")]
    pub chain: u128,
    /// The entries of the branch.
    pub path: Vec<Range<Position>>,
    /// Where the system prompt and tools were set.
    #[serde(default, alias = "frame", skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Position>,
    /// Who was writing.
    #[serde(default, skip_serializing_if = "Label::is_empty")]
    pub label: Label,
    /// Where the system message changed that stands among the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Position>,
    /// What was learned of each model's tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrations: Vec<(String, Calibration)>,
}

/// A group of a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedGroup {
    /// Its turn.
    pub turn: u64,
    /// Its round.
    pub round: u64,
    /// Its entries, and how each is shown.
    pub items: Vec<ShownItem>,
}

impl Checkpoint {
    /// The positions of every entry that restoring it needs, in ascending spans.
    pub fn spans(&self) -> Vec<Range<Position>> {
        let items = self.groups.iter().flat_map(|group| &group.items).chain(&self.late);
        spans(items.map(|item| item.position).chain(self.preamble))
    }
}

/// Positions as ascending spans.
pub fn spans(positions: impl IntoIterator<Item = Position>) -> Vec<Range<Position>> {
    let mut spans = Vec::new();
    positions.into_iter().for_each(|position| join(&mut spans, position));
    spans
}

/// Adds a position to ascending spans. Positions mostly come in order, so the place is mostly the end.
pub(crate) fn join(spans: &mut Vec<Range<Position>>, position: Position) {
    let at = spans.iter().rposition(|span| span.start <= position).map_or(0, |before| before + 1);
    if let Some(before) = at.checked_sub(1).and_then(|before| spans.get_mut(before)) {
        if position < before.end {
            return;
        }
        if position == before.end {
            before.end += 1;
            let end = before.end;
            if let Some(next) = spans.get(at).filter(|next| next.start == end).cloned() {
                spans.remove(at);
                if let Some(before) = spans.get_mut(at - 1) {
                    before.end = next.end;
                }
            }
            return;
        }
    }
    match spans.get_mut(at).filter(|next| next.start == position + 1) {
        Some(next) => next.start = position,
        None => spans.insert(at, position..position + 1),
    }
}

/// Messages are stored as the bytes that they came in; those built in Rust are given some before they are logged.
mod wire {
    use super::*;

    pub(super) fn serialize<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = message.wire().ok_or_else(|| S::Error::custom("a message without bytes cannot be stored"))?;
        wire.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Message>, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        wire.dialect.decode_raw(&wire.raw).map(Arc::new).map_err(D::Error::custom)
    }
}

/// Digests as text: JSON's numbers are too small for them.
mod hex {
    use super::*;

    pub(super) fn serialize<S: Serializer>(digest: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{digest:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
