//! Groups: the smallest units that are kept or dropped as a whole, as the planner sees them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::totals::Totals;
use lookback_wire::Start;
use lookback_wire::size::Size;

/// The smallest unit that is kept or dropped as a whole. The planner sees only its sizes, never its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The kind of the group.
    pub kind: GroupKind,
    /// The turn that the group begins in, counted over the whole history.
    pub turn: u64,
    /// The number of this round, counted over the whole history. For a group that is not a round, the number of the
    /// round before it.
    pub round: u64,
    /// Why the group may not be dropped, if it is pinned.
    pub pin: Option<Pin>,
    /// The current size of the group, as it was last sent or would be sent now.
    pub size: Size,
    /// The size if a compaction keeps the group: without reasoning that the compaction makes stale, and with late
    /// results instead of their stand-ins.
    pub kept: Size,
    /// The size after each stage of the policy. Stages build on each other. The list ends after the last stage that
    /// changes the group.
    pub staged: Vec<Size>,
    /// Whether the group may not change, because it has signed reasoning of the open tool loop, or precedes it.
    pub bound: bool,
}

/// The kind of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GroupKind {
    /// The preamble: the system prompt and the tools, if they are sent outside the messages.
    Preamble,
    /// A system message.
    System,
    /// The running summary of the messages that have left the window.
    Summary,
    /// The index of the names that have left the window.
    Index,
    /// A message from a person.
    User,
    /// An assistant message without tool calls.
    Assistant,
    /// An assistant message with tool calls, and all their results.
    Round,
    /// A note: a message that Lookback itself adds for the model, such as a nudge or a fact sheet. It opens no turn and
    /// is never the task. A compaction removes notes first, because they can be added again.
    Note,
}

impl GroupKind {
    /// Returns whether a policy may leave this out when it counts messages.
    pub(crate) fn may_be_uncounted(self) -> bool {
        matches!(self, GroupKind::System | GroupKind::Summary | GroupKind::Index)
    }

    /// Returns whether this counts as a round: an assistant message, with or without tool calls.
    pub(crate) fn is_round(self) -> bool {
        matches!(self, GroupKind::Assistant | GroupKind::Round)
    }

    /// Returns whether this is part of the conversation itself: a message from a person or the model, or a round.
    pub(crate) fn is_said(self) -> bool {
        match self {
            GroupKind::Preamble | GroupKind::System | GroupKind::Summary | GroupKind::Index | GroupKind::Note => false,
            GroupKind::User | GroupKind::Assistant | GroupKind::Round => true,
        }
    }
}

/// Why a group is pinned, so that it may not be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pin {
    /// It is the preamble: the system prompt and the tools outside the messages.
    Preamble,
    /// It is a system message at the beginning of the history.
    System,
    /// It is a later system message, which the policy keeps.
    LaterSystem,
    /// It is the running summary.
    Summary,
    /// It is the index of the names that have left the window.
    Index,
    /// It has the task: the newest message from a person.
    Task,
    /// It has the newest message.
    Newest,
    /// It is the open round: tool calls, and their results, that the model has not answered yet.
    OpenRound,
    /// It is a note that the model has not seen yet.
    Unseen,
    /// It has a compaction by the provider, which replaces the earlier messages, or it adds tools or settings that
    /// apply from here on.
    Standing,
    /// It has words of a person, which the policy keeps.
    People,
    /// It has the newest plan or the newest failure, which the policy keeps.
    Work,
    /// It is among the first messages, which the policy keeps.
    First,
    /// It is among the last messages, which the policy keeps.
    Last,
}

impl Pin {
    /// Returns whether this pin belongs to the head of a window, which never leaves. Groups that are pinned only
    /// because they are new can leave later.
    pub(crate) fn is_head(self) -> bool {
        match self {
            Pin::Preamble
            | Pin::System
            | Pin::LaterSystem
            | Pin::Summary
            | Pin::Index
            | Pin::Task
            | Pin::Standing
            | Pin::First => true,
            Pin::Newest | Pin::OpenRound | Pin::Unseen | Pin::People | Pin::Work | Pin::Last => false,
        }
    }
}

impl Pin {
    /// Returns whether stages may shorten the results of such a group, although it is not dropped. Results that load
    /// tools stay whole.
    pub(crate) fn may_be_shortened(self) -> bool {
        self == Pin::Standing
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pin::Preamble => "the system prompt and tools",
            Pin::System => "the system prompt",
            Pin::LaterSystem => "a later system message, which the policy keeps",
            Pin::Summary => "the running summary",
            Pin::Index => "the index of names that have left",
            Pin::Task => "the current task",
            Pin::Newest => "the newest message",
            Pin::OpenRound => "the open round of tool calls",
            Pin::Unseen => "a note that the model has not seen",
            Pin::People => "words of a person",
            Pin::Work => "the newest plan, or the newest failure",
            Pin::Standing => "a compaction by the provider, or tools or settings that apply from here on",
            Pin::First => "the first messages, which the policy keeps",
            Pin::Last => "the last messages, which the policy keeps",
        })
    }
}

impl Group {
    /// Returns whether the group is part of the head of the window.
    pub(crate) fn is_head(&self) -> bool {
        self.pin.is_some_and(Pin::is_head)
    }

    /// Returns whether the group stays in the window.
    pub(crate) fn is_fixed(&self) -> bool {
        self.pin.is_some() || self.bound
    }

    /// Returns whether the group is a note that the model has seen. Every recorded compaction removes it.
    pub(crate) fn is_spent(&self) -> bool {
        self.kind == GroupKind::Note && !self.is_fixed()
    }

    /// Returns whether a compaction removes the whole group, because it consists of stale reasoning.
    pub(crate) fn is_stale(&self) -> bool {
        self.size.messages > 0 && self.kept.messages == 0 && !self.bound
    }

    /// Returns whether a window may begin with the group.
    pub(crate) fn may_start(&self, start: Start) -> bool {
        match start {
            Start::Any => true,
            Start::UserOrToolPair => matches!(self.kind, GroupKind::User | GroupKind::Round),
            Start::User => self.kind == GroupKind::User,
        }
    }

    /// Returns the size after the first `stages` stages.
    pub(crate) fn after(&self, stages: usize) -> Size {
        self.staged.iter().take(stages).next_back().copied().unwrap_or(self.kept)
    }
}

/// A pinned part of the window, with its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pinned {
    /// Why it may not be dropped.
    pub pin: Pin,
    /// Its size if a compaction keeps it.
    pub size: Size,
}

impl fmt::Display for Pinned {
    /// Writes the pin and its tokens, as in `the current task (120 tokens)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} tokens)", self.pin, self.size.tokens)
    }
}

impl Pinned {
    /// Lists pins, as in `the system prompt (800 tokens), the current task (120 tokens)`.
    #[doc(hidden)]
    pub fn list(pinned: &[Pinned]) -> String {
        pinned.iter().map(Pinned::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// The totals of groups while some are added and others removed. This is the only place that counts turns and rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    size: Size,
    /// Each turn with the number of its groups, in ascending order. A turn without groups stays in the list.
    groups: Vec<(u64, u64)>,
    /// The number of turns that have groups.
    turns: u64,
    rounds: u64,
}

impl Tally {
    /// Creates an empty tally with room for this many turns.
    pub(crate) fn with_room(turns: usize) -> Tally {
        Tally { groups: Vec::with_capacity(turns), ..Tally::default() }
    }

    /// Adds a group of this kind and turn.
    pub(crate) fn add(&mut self, kind: GroupKind, turn: u64, size: Size) {
        self.size += size;
        if kind.is_said() {
            self.recount(turn, |count| count + 1);
        }
        self.rounds += u64::from(kind.is_round());
    }

    /// Removes a group that was added.
    pub(crate) fn remove(&mut self, kind: GroupKind, turn: u64, size: Size) {
        self.size = self.size - size;
        if kind.is_said() {
            self.recount(turn, |count| count.saturating_sub(1));
        }
        self.rounds = self.rounds.saturating_sub(u64::from(kind.is_round()));
    }

    /// Replaces the size of a group that was added, or a part of that size.
    pub(crate) fn resize(&mut self, old: Size, new: Size) {
        self.size = self.size - old + new;
    }

    /// Changes the number of groups of a turn, and updates the number of turns that have groups.
    fn recount(&mut self, turn: u64, change: impl FnOnce(u64) -> u64) {
        // Groups are usually added in order.
        let at = match self.groups.last() {
            Some((last, _)) if *last == turn => self.groups.len() - 1,
            Some((last, _)) if *last > turn => self.groups.partition_point(|(other, _)| *other < turn),
            _ => self.groups.len(),
        };
        if self.groups.get(at).is_none_or(|(other, _)| *other != turn) {
            self.groups.insert(at, (turn, 0));
        }
        if let Some((_, count)) = self.groups.get_mut(at) {
            let before = std::mem::replace(count, change(*count));
            self.turns = self.turns + u64::from(*count > 0) - u64::from(before > 0);
        }
    }

    /// Returns the current totals. All tokens count toward the body.
    pub(crate) fn totals(&self) -> Totals {
        Totals { size: self.size, turns: self.turns, rounds: self.rounds, body: self.size.tokens }
    }
}

impl Totals {
    /// Adds up groups, each with the given size.
    #[doc(hidden)]
    pub fn sum<'a>(groups: impl IntoIterator<Item = (&'a Group, Size)>) -> Totals {
        let groups = groups.into_iter();
        let mut tally = Tally::with_room(groups.size_hint().0);
        let mut head = 0;
        for (group, size) in groups {
            tally.add(group.kind, group.turn, size);
            head = if group.is_head() { size.tokens.saturating_add(head) } else { head };
        }
        tally.totals().behind(head)
    }

    /// Returns these totals with a head of this many tokens.
    pub(crate) fn behind(self, head: u64) -> Totals {
        Totals { body: self.size.tokens.saturating_sub(head), ..self }
    }
}
