//! Groups: what may only be kept or dropped whole, by sizes alone.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::size::{Size, Totals};
use crate::start::Start;

/// What may only be kept or dropped whole. The planner sees this and nothing else: sizes, never text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What it is.
    pub kind: GroupKind,
    /// The turn that it begins in, counted over the whole history.
    pub turn: u64,
    /// The round that it is, counted over the whole history; for what is not a round, the one before it.
    pub round: u64,
    /// Why it may not be dropped, where it may not.
    pub pin: Option<Pin>,
    /// Its size as it was last sent, or would be.
    pub size: Size,
    /// Its size when a compaction keeps it: without reasoning that the compaction makes stale, and with late results in the
    /// place of their stand-ins.
    pub kept: Size,
    /// Its size after each stage of the policy, on top of the stages before; shorter where later stages change nothing.
    pub staged: Vec<Size>,
    /// Whether it holds signed reasoning of the open tool loop, which forbids any change before it.
    pub binds: bool,
}

/// What a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// System prompt and tools that stand outside the messages.
    #[serde(alias = "frame")]
    Preamble,
    /// A system message.
    System,
    /// The running summary of what has left the window.
    Summary,
    /// A message of a person.
    User,
    /// An assistant message without tool calls.
    Assistant,
    /// An assistant message with tool calls, and all their results.
    Round,
    /// What Lookback itself says to the model: a nudge, a fact sheet. It opens no turn and is no task, and a compaction takes it before
    /// anything else, since who said it can say it again.
    Note,
}

impl GroupKind {
    /// Whether a policy may leave it uncounted in messages.
    pub(crate) fn may_be_uncounted(self) -> bool {
        matches!(self, GroupKind::System | GroupKind::Summary)
    }

    /// Whether it counts as a round: an assistant message, with or without tool calls.
    pub(crate) fn is_round(self) -> bool {
        matches!(self, GroupKind::Assistant | GroupKind::Round)
    }

    /// Whether it is part of what was said, and not of what stands around it.
    pub(crate) fn is_said(self) -> bool {
        match self {
            GroupKind::Preamble | GroupKind::System | GroupKind::Summary | GroupKind::Note => false,
            GroupKind::User | GroupKind::Assistant | GroupKind::Round => true,
        }
    }
}

/// Why a group may not be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// System prompt and tools outside the messages.
    #[serde(alias = "frame")]
    Preamble,
    /// The system messages that the history begins with.
    System,
    /// A system message further on, which the policy keeps.
    LaterSystem,
    /// The running summary.
    Summary,
    /// The last message that a person wrote.
    Task,
    /// The newest message.
    Newest,
    /// Tool calls, and their results, to which the model has not spoken yet.
    OpenRound,
    /// A note that the model has not seen yet.
    Unseen,
    /// The policy keeps the first messages.
    First,
    /// The policy keeps the last messages.
    Last,
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pin::Preamble => "the system prompt and tools",
            Pin::System => "the system prompt",
            Pin::LaterSystem => "a later system message, which the policy keeps",
            Pin::Summary => "the running summary",
            Pin::Task => "the current task",
            Pin::Newest => "the newest message",
            Pin::OpenRound => "the open round of tool calls",
            Pin::Unseen => "a note that the model has not seen",
            Pin::First => "the first messages, which the policy keeps",
            Pin::Last => "the last messages, which the policy keeps",
        })
    }
}

impl Group {
    /// Whether it leaves with any compaction that is recorded: a note that the model has seen.
    pub(crate) fn is_spent(&self) -> bool {
        self.kind == GroupKind::Note && self.pin.is_none()
    }

    /// Whether a compaction leaves nothing of it, since it is all stale reasoning.
    pub(crate) fn is_stale(&self) -> bool {
        self.size.messages > 0 && self.kept.messages == 0
    }

    /// Whether a window may begin with it.
    pub(crate) fn may_start(&self, start: Start) -> bool {
        match start {
            Start::Any => true,
            Start::UserOrToolPair => matches!(self.kind, GroupKind::User | GroupKind::Round),
            Start::User => self.kind == GroupKind::User,
        }
    }

    /// Its size after the first `stages` stages.
    pub(crate) fn after(&self, stages: usize) -> Size {
        self.staged.iter().take(stages).next_back().copied().unwrap_or(self.kept)
    }
}

/// Something that may not be dropped, and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// What it is.
    pub pin: Pin,
    /// Its size if a compaction keeps it.
    pub size: Size,
}

impl fmt::Display for Pinned {
    /// Writes what it is, and its tokens.
    ///
    /// ```
    /// use lookback_core::group::{Pin, Pinned};
    /// use lookback_core::tokens::Size;
    ///
    /// let task = Pinned { pin: Pin::Task, size: Size { tokens: 120, ..Size::default() } };
    /// assert_eq!(task.to_string(), "the current task (120 tokens)");
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} tokens)", self.pin, self.size.tokens)
    }
}

impl Pinned {
    /// Lists what is pinned in a sentence, such as `the system prompt (800 tokens), the current task (120 tokens)`.
    pub fn list(pinned: &[Pinned]) -> String {
        pinned.iter().map(Pinned::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// What groups add up to while some are added and others removed. This is the one place that counts turns and rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    size: Size,
    /// How many groups each turn has.
    turns: BTreeMap<u64, u64>,
    rounds: u64,
}

impl Tally {
    /// Adds a group of this kind and turn.
    pub(crate) fn add(&mut self, kind: GroupKind, turn: u64, size: Size) {
        self.size += size;
        if kind.is_said() {
            *self.turns.entry(turn).or_default() += 1;
        }
        self.rounds += u64::from(kind.is_round());
    }

    /// Removes a group that was added.
    pub(crate) fn remove(&mut self, kind: GroupKind, turn: u64, size: Size) {
        self.size = self.size - size;
        if kind.is_said()
            && let Some(left) = self.turns.get_mut(&turn)
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.turns.remove(&turn);
            }
        }
        self.rounds = self.rounds.saturating_sub(u64::from(kind.is_round()));
    }

    /// Replaces the size of a group that was added, or a part of it.
    pub(crate) fn resize(&mut self, old: Size, new: Size) {
        self.size = self.size - old + new;
    }

    /// What they add up to now.
    pub(crate) fn totals(&self) -> Totals {
        Totals { size: self.size, turns: self.turns.len() as u64, rounds: self.rounds }
    }
}

impl Totals {
    /// Adds groups up, each with the size that is given for it.
    pub fn of<'a>(groups: impl IntoIterator<Item = (&'a Group, Size)>) -> Totals {
        let mut tally = Tally::default();
        groups.into_iter().for_each(|(group, size)| tally.add(group.kind, group.turn, size));
        tally.totals()
    }
}
