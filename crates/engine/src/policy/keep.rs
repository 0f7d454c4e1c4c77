//! Messages that a policy keeps in addition to the pinned ones, and its treatment of system messages.

use serde::{Deserialize, Serialize};

/// Messages that a policy keeps in addition to those that are always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// The number of first messages to keep, counted after the system prompt. Their groups are kept whole.
    pub first: u64,
    /// The number of last messages to keep. Their groups are kept whole.
    pub last: u64,
    /// Whether to keep the current task: the last message that a person wrote. For example, after "Fix the tests" and
    /// 80 tool calls, the window still contains "Fix the tests". If the provider demands that a request begin with a
    /// user's message, the task is always kept.
    pub task: bool,
    /// The most tokens of people's messages to keep, in addition to the task. They take at most a third of each target.
    ///
    /// If they are longer, the longest are shortened, and rules, such as "never push to main", come first. The middle of
    /// a paste of over 1,000 tokens is cut. A rule that a later message clearly takes back is not kept, nor is text that
    /// a client adds in a person's name. If a hard limit leaves no room for these messages, or if the provider has
    /// refused the window as too long, they can be dropped.
    pub people: u64,
    /// Whether to keep the newest plan and the newest failure, if each has at most 2,000 tokens and a sixth of the target.
    /// A plan is a call with a list of steps, each with a word that says how far it is. A failure is a result of the last
    /// 30 rounds that says that something failed. They leave in the same cases as people's messages.
    pub work: bool,
    /// Whether to keep every system message, together with its group. If `false`, only the system messages at the
    /// beginning of the history are kept.
    pub system: bool,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { first: 0, last: 0, task: true, people: 0, work: false, system: false }
    }
}

/// How system messages among the other messages are treated.
///
/// A system prompt outside the messages is part of the [`Preamble`](lookback_wire::dialect::Preamble), and there is
/// only one. So `one` and `first` matter only for formats with the system prompt among the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SystemRule {
    /// Whether there is only one system message at a time. It is never dropped. If the same message arrives again, it
    /// is ignored; a different one replaces it.
    ///
    /// If `false`, the system messages at the beginning of the history are never dropped. Later ones are treated like
    /// other messages, unless [`Keep::system`] keeps them.
    pub one: bool,
    /// Whether a system message that replaces another, or that arrives late, is placed first. This has an effect only
    /// if `one` is set. For example, a new system prompt arrives as the 50th message: if `first` is `true`, it becomes
    /// the first message of the window, and if `false`, it stays where it arrived.
    pub first: bool,
    /// Whether system messages, the running summary and the index count toward a limit in messages.
    pub counted: bool,
}

impl Default for SystemRule {
    fn default() -> Self {
        SystemRule { one: false, first: false, counted: true }
    }
}
