//! The path of a conversation: the fingerprints of its messages, in their order.

use std::collections::HashSet;

use lookback_session::adapter::Resent;
use lookback_wire::message::{Message, Role};
use xxhash_rust::xxh3::xxh3_64;

use super::dates::without_dates;

/// The most characters of a message that are remembered, to recognize it after text was appended to it.
const MOST: usize = 4096;

/// The most messages that a client puts before the kept ones when it compacts its history.
const MOST_BEFORE_KEPT: usize = 4;

/// The fewest kept messages by which a conversation is recognized.
const FEWEST_KEPT: usize = 2;

/// The fingerprint of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fingerprint {
    /// The properties by which the message is recognized, regardless of its exact bytes.
    pub(super) resent: Resent,
    /// The hash of its bytes in the last request, if it was part of one.
    pub(super) bytes: Option<u64>,
}

impl Fingerprint {
    pub(super) fn new(message: &Message, bytes: Option<u64>) -> Fingerprint {
        Fingerprint { resent: Resent::from_message(message), bytes }
    }
}

/// The messages of a conversation. System messages at its beginning are not compared, because clients change them.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    all: Vec<Fingerprint>,
    /// The number of system messages at the beginning.
    lead: usize,
    /// The hash of the text of the first other message, without its dates.
    opening: Option<u64>,
}

impl Path {
    pub(super) fn new(all: Vec<Fingerprint>) -> Path {
        let lead = all.iter().take_while(|message| message.resent.role == Role::System).count();
        Path { all, lead, opening: None }
    }

    /// Returns the number of system messages at the beginning, which is the index of the first other message.
    pub(super) fn first(&self) -> usize {
        self.lead
    }

    /// Sets the [`opening`].
    pub(super) fn with_opening(self, opening: Option<u64>) -> Path {
        Path { opening, ..self }
    }

    /// Returns the [`opening`], and the index of its message, if the message there has the same bytes.
    pub(super) fn opening_of(&self, bytes: &[u64]) -> Option<(usize, u64)> {
        self.at(self.lead, *bytes.get(self.lead)?)?;
        Some((self.lead, self.opening?))
    }

    /// Adds a message at the end.
    pub(super) fn push(&mut self, message: Fingerprint) {
        self.all.push(message);
    }

    /// Returns the message at an index if it has these bytes.
    pub(super) fn at(&self, index: usize, bytes: u64) -> Option<Fingerprint> {
        self.all.get(index).copied().filter(|message| message.bytes == Some(bytes))
    }

    /// Returns all messages.
    pub(super) fn resent(&self) -> Vec<Resent> {
        self.all.iter().map(|message| message.resent).collect()
    }

    /// Returns the messages after the system messages at the beginning.
    pub(super) fn said(&self) -> &[Fingerprint] {
        self.all.get(self.lead..).unwrap_or_default()
    }

    /// Returns whether there are no messages after the system messages at the beginning.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of messages after the system messages at the beginning.
    pub(super) fn len(&self) -> usize {
        self.said().len()
    }

    /// Returns whether there is a message from the model.
    pub(super) fn has_answers(&self) -> bool {
        self.base() > 0
    }

    /// Returns the digest of the last message from the model.
    pub(super) fn answer(&self) -> Option<u128> {
        self.said()
            .iter()
            .map(|message| message.resent)
            .rfind(|resent| resent.role == Role::Assistant)
            .map(|it| it.digest)
    }

    /// Returns whether the answers of another path are the newest answers of this one.
    pub(super) fn ends_with_answers_of(&self, other: &Path) -> bool {
        let answers = |path: &Path| -> Vec<u128> {
            let said = path.said().iter().map(|message| message.resent);
            said.filter(|resent| resent.role == Role::Assistant).map(|resent| resent.digest).collect()
        };
        answers(self).ends_with(&answers(other))
    }

    /// Returns the number of messages before the last answer of another path that this one has, too.
    pub(super) fn shares(&self, other: &Path) -> usize {
        let ours: HashSet<u128> = self.said().iter().map(|message| message.resent.digest).collect();
        let before = other.said().get(..other.base()).unwrap_or_default();
        before.iter().filter(|message| ours.contains(&message.resent.digest)).count()
    }

    /// Returns the index after the last message from the model.
    pub(super) fn base(&self) -> usize {
        self.said().iter().rposition(|message| message.resent.role == Role::Assistant).map_or(0, |last| last + 1)
    }

    /// Returns the number of messages that two paths have in common, from the first. First messages that differ only in
    /// a date are the same if the next messages are.
    pub(super) fn common(&self, other: &Path) -> usize {
        let same = |(ours, theirs): &(&Fingerprint, &Fingerprint)| ours.resent.digest == theirs.resent.digest;
        let common = self.said().iter().zip(other.said()).take_while(same).count();
        if common > 0 || self.opening.is_none() || self.opening != other.opening {
            return common;
        }
        match self.said().iter().zip(other.said()).skip(1).take_while(same).count() {
            0 => 0,
            rest => rest + 1,
        }
    }

    /// Returns whether another path, which a client has compacted, keeps the newest messages of this one up to `end`.
    /// Such a path has a few messages with a summary, then at least two messages of this path, including one from the
    /// model, and then no other message from the model.
    pub(super) fn is_kept_in(&self, other: &Path, end: usize) -> bool {
        let (ours, theirs) = (self.said().get(..end).unwrap_or_default(), other.said());
        let is_kept_until = |end: usize| {
            let pairs = ours.iter().rev().zip(theirs.get(..end).unwrap_or_default().iter().rev());
            let same = pairs.take_while(|(ours, theirs)| ours.resent.digest == theirs.resent.digest).count();
            let first = end.saturating_sub(same).max(1);
            first <= MOST_BEFORE_KEPT && first + FEWEST_KEPT <= end && first < other.base()
        };
        (other.base()..=theirs.len()).any(is_kept_until)
    }

    /// Returns whether two paths begin with exactly the same message.
    pub(super) fn begins_like(&self, other: &Path) -> bool {
        self.said().first().map(|message| message.resent.digest)
            == other.said().first().map(|message| message.resent.digest)
    }
}

/// Returns the hash of a message's text without its dates, because some clients change the date in the first message.
pub(super) fn opening(message: &Message) -> u64 {
    xxh3_64(without_dates(&beginning(&message.text())).as_bytes())
}

/// Returns the letters and digits at the beginning of a message, and the names of its tools. Clients change spaces and
/// marks of an answer, or break it off.
pub(super) fn words(message: &Message) -> String {
    let text = message.text();
    let letters = text.chars().filter(|c| c.is_alphanumeric()).take(MOST);
    let names = message.tool_calls().map(|(_, call)| call.name.as_str());
    letters.chain(names.flat_map(str::chars)).collect()
}

/// Returns the part of a text that is remembered.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(MOST).collect()
}
