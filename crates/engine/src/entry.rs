//! The entries of a log: everything that happened in a conversation, in order.

use lookback_content::Redacted;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::{Decision, Occasion};
use crate::totals::Totals;
use lookback_tokens::Calibration;
use lookback_wire::dialect::Preamble;
use lookback_wire::edit::Edit;
use lookback_wire::message::Wire;
use lookback_wire::message::{Message, Role};
use lookback_wire::size::Size;

/// The index of an entry in its log, from 0.
pub type Position = u64;

/// Milliseconds since 1970-01-01 UTC, by the caller's clock. The engine has no clock.
pub type Millis = i64;

/// An entry of a log: one thing that happened in a conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// A message arrived.
    Message(Arrival),
    /// A broken history was repaired, so that it could be sent.
    Repair(Repair),
    /// The system prompt or the tools were set or replaced.
    Preamble {
        /// The new preamble.
        preamble: Arc<Preamble>,
        /// Its size.
        size: Size,
    },
    /// A plan was carried out.
    Compaction(Compaction),
    /// The provider reported the tokens of a call.
    Usage(UsageReport),
    /// The author of the entries that follow, and their tags.
    Label(Label),
    /// The state of the view, so that a reader can start here.
    Checkpoint(Checkpoint),
    /// The client changed its history. The view returns to its state before position `at`.
    Branch {
        /// The position of the first entry that no longer applies.
        at: Position,
    },
    /// A message or a preamble whose contents were erased.
    Erased(Erased),
}

/// The remains of a message or of a preamble whose contents were erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Erased {
    /// The role of the message. `None` if it was a preamble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its size before the erasure.
    pub(crate) size: Size,
    /// When it arrived, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<Millis>,
    /// When it was erased, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
}

/// A message that arrived.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Arrival {
    /// The message, byte for byte as it arrived.
    #[serde(with = "wire")]
    pub message: Arc<Message>,
    /// Who wrote the message.
    #[serde(default, skip_serializing_if = "Origin::is_client")]
    pub origin: Origin,
    /// The edits under which it is shown: tool results that were truncated on arrival, and repairs.
    #[serde(default, deserialize_with = "lookback_wire::edit::read", skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Its size as it is shown.
    pub size: Size,
    /// The digest by which a resent message is recognized (see [`Message::digest`]).
    #[serde(with = "hex")]
    pub digest: u128,
    /// When it arrived, if the caller has a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
    /// The system messages that it replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<Position>,
    /// Whether it is a system message that is placed before all other messages.
    #[serde(default, skip_serializing_if = "is_false")]
    pub first: bool,
}

impl Arrival {
    /// The text that replaces a note by Lookback whose contents were erased.
    pub(crate) const ERASED_NOTE: &str = "[A note was erased with the messages that it was made from.]";

    /// Returns whether this is a note by Lookback that was erased together with the messages it was made from.
    pub fn is_erased(&self) -> bool {
        self.origin == Origin::Lookback && self.message.text() == Arrival::ERASED_NOTE
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(position: &Position) -> bool {
    *position == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// The application.
    #[default]
    Client,
    /// The model, in an answer that Lookback received itself.
    Model,
    /// Lookback itself.
    Lookback,
}

impl Origin {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_client(&self) -> bool {
        *self == Origin::Client
    }
}

/// A repair of a broken history, made when a window was requested.
///
/// Faults that can be seen as soon as a message arrives, such as a result without a call, are repaired by the edits of
/// its [`Arrival`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repair {
    /// A tool call had no result, so a stand-in was added. If the result arrives later, it replaces the stand-in at the
    /// next compaction.
    StandIn {
        /// The message that made the call.
        call: Position,
        /// The stand-in.
        #[serde(with = "wire")]
        message: Arc<Message>,
        /// Its size.
        size: Size,
    },
    /// The request ends with the model's own words, and the provider refuses trailing white space there.
    Trim {
        /// The message.
        message: Position,
        /// The edit that removes the white space.
        edit: Edit,
        /// The size of the message after the edit.
        size: Size,
    },
    /// The provider requires a request to begin with a user's message, and the history does not.
    Opening {
        /// The message that becomes the first one.
        #[serde(with = "wire")]
        message: Arc<Message>,
        /// Its size.
        size: Size,
    },
}

/// A plan that was carried out.
///
/// The default is a compaction of an empty window, for tests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// The outcomes of the window's groups, in order.
    pub groups: Vec<CompactedGroups>,
    /// The running summary that replaces the summarized groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<RunningSummary>>,
    /// The new index of names that are no longer in the window. It replaces the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Arc<NameIndex>>,
    /// Why the window was compacted at lower limits than usual, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occasion: Option<Occasion>,
    /// The totals of the window before.
    pub before: Totals,
    /// The totals of the window after.
    pub after: Totals,
}

/// A running summary.
#[derive(derive_more::Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunningSummary {
    /// The message that shows it.
    #[serde(with = "wire")]
    pub message: Arc<Message>,
    /// The text of the summary, without the words around it in the message.
    #[debug("{:?}", Redacted(text))]
    pub text: String,
    /// The size of the message.
    pub size: Size,
    /// Tokens of everything that it replaces.
    pub(crate) stands_for: u64,
    /// The entries that it covers in addition to the previous summary.
    pub covers: Vec<Range<Position>>,
    /// The compaction that recorded the previous summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Position>,
}

/// An index of the names that are no longer in the window.
#[derive(derive_more::Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct NameIndex {
    /// The message that shows it.
    #[serde(with = "wire")]
    pub message: Arc<Message>,
    /// The size of the message.
    pub size: Size,
    /// The names, the most useful first.
    pub names: Vec<IndexedName>,
}

/// A name of an index, and how often it was used. The next index is made from these counts.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct IndexedName {
    /// The name.
    #[debug("{:?}", Redacted(name))]
    pub name: String,
    /// The newest entry that contains it.
    pub(crate) entry: Position,
    /// How many messages of the model contain it.
    pub(crate) uses: u64,
    /// How many messages contain it.
    pub(crate) mentions: u64,
}

/// The outcome of a group, or of several neighboring groups with the same outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactedGroups {
    /// The number of groups. The sizes of the decision are the sums over all of them.
    pub count: usize,
    /// The entries of the groups.
    pub spans: Vec<Range<Position>>,
    /// The decision about them, with its reason.
    #[serde(flatten)]
    pub decision: Decision,
    /// How the group is shown from now on. If absent, the groups are shown as before, or not at all if they were
    /// dropped or summarized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown: Option<Vec<ShownItem>>,
}

/// How an entry is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct ShownItem {
    /// The entry.
    pub position: Position,
    /// The edits of its message.
    #[serde(default, deserialize_with = "lookback_wire::edit::read", skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// The size of the message after the edits.
    pub(crate) size: Size,
}

/// The author of messages, and their tags.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Label {
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tags, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl Label {
    /// Sets the agent's name.
    #[must_use]
    pub fn agent(self, agent: impl Into<String>) -> Self {
        Label { agent: Some(agent.into()), ..self }
    }

    /// Sets the tags.
    #[must_use]
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Label { tags: tags.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns whether the label has neither a name nor tags.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.agent.is_none() && self.tags.is_empty()
    }
}

/// The tokens of a call that the provider reported.
///
/// A reader of the log needs no other information about the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// The model that answered.
    pub model: String,
    /// The model that the request named. The provider may report it under another name. If this is `None`, the engine
    /// uses the model of its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Input tokens as Lookback counted them.
    pub estimated: u64,
    /// Input tokens as the provider counted them, including cached ones.
    pub reported: u64,
    /// The tokens among these that were read from the provider's cache, if it reported them.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
}

/// The state of the fold at one point of the log. It contains the positions of messages, not the messages themselves.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct Checkpoint {
    /// The groups of the view.
    pub groups: Vec<SavedGroup>,
    /// Late results, which replace their stand-ins at the next compaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<ShownItem>,
    /// The number of turns in the whole history.
    pub(crate) turn: u64,
    /// The number of rounds in the whole history.
    pub(crate) round: u64,
    /// The number of messages of the branch, without Lookback's own.
    pub messages: u64,
    /// The chain of the digests of these messages (see [`chain`](crate::view::chain)).
    #[serde(with = "hex")]
    pub chain: u128,
    /// The entries of the branch.
    pub path: Vec<Range<Position>>,
    /// The entry that set the preamble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Position>,
    /// The current label.
    #[serde(default, skip_serializing_if = "Label::is_empty")]
    pub label: Label,
    /// The last entry that replaced a system message of the history, or placed one before all other messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changed: Option<Position>,
    /// The correction of each model's token counts, by the name of the model.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) calibrations: BTreeMap<String, Calibration>,
    /// The last call of the model.
    #[serde(default, skip_serializing_if = "LastCall::is_empty")]
    pub(crate) last_call: Box<LastCall>,
    /// When the newest message arrived, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newest: Option<Millis>,
    /// The entry with the last compaction of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compacted: Option<Position>,
    /// Whether a limit has ever been exceeded on the branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut: bool,
    /// Whether the newest message is the model's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_models: bool,
    /// The tokens that calls have read since the last cut.
    #[serde(default, skip_serializing_if = "Reading::is_empty")]
    pub reading: Reading,
    /// Contents before this entry may have been erased, unless a later view needs them. No branch returns to an earlier
    /// entry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub erased_before: Position,
}

/// The last call of the model, in any branch. It shows whether the provider's cache still has the window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct LastCall {
    /// The entry with the model's newest message, which answers the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Position>,
    /// The arrival of the message that it answers, if that is known. This approximates the time of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<Millis>,
    /// The entry with the answer before that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Position>,
    /// The newest usage report, and the model that the request named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<(Position, String)>,
    /// The newest usage report of each model that a request named.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reports: BTreeMap<String, Position>,
    /// The input tokens of the newest usage report.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) reported: u64,
    /// Whether the provider's cache still had the window after the last pause of more than [`SHORTEST_LIFETIME`], as
    /// far as a usage report shows that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) outlasted: bool,
}

/// The shortest lifetime of a provider's cache, in milliseconds: five minutes for Anthropic and OpenAI, since the last
/// use.
pub(crate) const SHORTEST_LIFETIME: Millis = 300_000;

impl LastCall {
    /// Notes how many input tokens the provider reported for a call after a pause, and how many of them it read from
    /// its cache. `extends` is whether the request extends the one before.
    pub(crate) fn note_cache(&mut self, reported: u64, cached: Option<u64>, pause: Option<Millis>, extends: bool) {
        let is_long = pause.is_some_and(|pause| pause > SHORTEST_LIFETIME);
        if let Some(cached) = cached
            && is_long
            && extends
            && self.reported > 0
        {
            // Other sessions may keep the beginning of the request in the cache, such as the system prompt.
            self.outlasted = cached >= self.reported / 2;
        }
        self.reported = reported;
    }

    fn is_empty(&self) -> bool {
        *self == LastCall::default()
    }
}

/// The tokens that the calls since the last cut have read: the number of calls and the sum of their windows, by the
/// size of the window. The element at index `n` is for windows of at least 2ⁿ and fewer than 2ⁿ⁺¹ tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(hidden)]
pub struct Reading(Vec<(u64, u64)>);

impl Reading {
    /// Adds a call with a window of this many tokens, as Lookback counted them.
    pub(crate) fn add(&mut self, tokens: u64) {
        let class = tokens.checked_ilog2().unwrap_or(0) as usize;
        if self.0.len() <= class {
            self.0.resize(class + 1, (0, 0));
        }
        if let Some((calls, sum)) = self.0.get_mut(class) {
            (*calls, *sum) = (calls.saturating_add(1), sum.saturating_add(tokens));
        }
    }

    /// Returns how many tokens the calls read in excess of windows of `kept` tokens. Smaller windows do not count.
    pub fn beyond(&self, kept: u64) -> u64 {
        let beyond = |(calls, tokens): &(u64, u64)| tokens.saturating_sub(calls.saturating_mul(kept));
        self.0.iter().map(beyond).fold(0, u64::saturating_add)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A group of a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub struct SavedGroup {
    /// The number of its turn.
    pub(crate) turn: u64,
    /// The number of its round.
    pub(crate) round: u64,
    /// Its entries, and how each one is shown.
    pub items: Vec<ShownItem>,
    /// Whether it shows the index of a compaction, and not its running summary.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) index: bool,
}

impl Checkpoint {
    /// Returns the positions of all entries that are needed to restore the checkpoint, as ascending spans.
    pub fn spans(&self) -> Vec<Range<Position>> {
        let items = self.groups.iter().flat_map(|group| &group.items).chain(&self.late);
        spans(items.map(|item| item.position).chain(self.preamble))
    }
}

/// Returns positions as ascending spans.
pub fn spans(positions: impl IntoIterator<Item = Position>) -> Vec<Range<Position>> {
    let mut spans = Vec::new();
    positions.into_iter().for_each(|position| join(&mut spans, position));
    spans
}

/// Adds a position to ascending spans. It searches from the end, because positions usually arrive in order.
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

/// Stores messages as the bytes in which they arrived. A message that was built in Rust is encoded before it is logged.
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

/// Stores a map as a list of pairs.
mod pairs {
    use super::*;

    pub(super) fn serialize<S: Serializer, V: Serialize>(
        map: &BTreeMap<String, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, V>, D::Error> {
        let pairs = <Vec<(String, V)>>::deserialize(deserializer)?;
        Ok(pairs.into_iter().collect())
    }
}

/// Stores digests as text, because they are too large for numbers in JSON.
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
