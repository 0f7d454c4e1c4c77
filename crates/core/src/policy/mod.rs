//! Policy: what a window may hold, as one value that a file, a flag, a request or a test can give.

mod faults;
mod limits;
mod tightened;

use serde::{Deserialize, Serialize};

use crate::cut::Truncation;
use crate::message::Role;

pub use faults::PolicyFault;
pub use limits::{Limits, Tokens};

pub use crate::size::{Excess, Measure, Totals};
pub use crate::start::Start;

/// When a window is cut, how far, and in which ways.
///
/// ```
/// use lookback_core::Policy;
///
/// let policy: Policy = serde_json::from_str(r#"{"limits": {"tokens": 32000}, "target": {"tokens": 16000}}"#)?;
/// assert!(policy.faults().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// When: a window that exceeds any of these is compacted.
    pub limits: Limits,
    /// How far: a compaction goes on until none of these is exceeded. Absent, it is `limits`, and the window slides by a
    /// message a call, which breaks the provider's cache each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Limits>,
    /// What no request may exceed, whatever is pinned: absent, the model's own window, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<Limits>,
    /// What is never dropped, beside what the laws keep.
    pub keep: Keep,
    /// How system messages of the history are taken.
    pub system: SystemRule,
    /// Where a window may begin.
    pub start: Start,
    /// The cap on each text of a tool result as it arrives, before it was ever sent: it costs no cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Truncation>,
    /// The ways to make a window smaller, tried in this order until the target is met.
    pub stages: Vec<Stage>,
    /// The ways to make a window smaller that the provider has refused as too long. They reach what the model has not seen yet,
    /// too: a giant result of the open round is shortened rather than sent in vain.
    pub overflow: Vec<Stage>,
    /// At which calls the limits are looked at. The hard limit, and a limit in tokens that is a share of the model's window, hold at each.
    pub pace: Pace,
    /// Whether a compaction is recorded.
    pub mode: Mode,
    /// The request asks the provider to drop reasoning whose prefix has changed (Anthropic's `prefix_mismatch_behavior:
    /// "drop_block"`), so that a compaction need not wait for the end of a tool loop with signed reasoning.
    pub drop_block: bool,
}

impl Policy {
    /// The policy that we run in production, and the default of [`Settings`](crate::Settings). The page
    /// `docs/default-policy.md` has the reasons, with figures.
    ///
    /// A window that exceeds 64,000 tokens is cut to 32,000, in whole groups, so that it is cut rarely and the provider's
    /// cache holds in between. Tool results longer than 32,000 characters are truncated as they arrive.
    ///
    /// ```
    /// use lookback_core::{Limits, Policy};
    ///
    /// let policy = Policy { limits: Limits::tokens(100_000), ..Policy::production() };
    /// assert!(policy.faults().is_empty());
    /// ```
    pub fn production() -> Policy {
        let limits = |tokens, media, bytes| Limits {
            tokens: Some(Tokens::Count(tokens)),
            media: Some(media),
            bytes: Some(bytes),
            ..Limits::default()
        };
        Policy {
            limits: limits(64_000, 80, 24_000_000),
            target: Some(limits(32_000, 40, 12_000_000)),
            arrival: Some(Truncation { head: 24_000, tail: 8_000, ..Truncation::default() }),
            stages: vec![Stage::ClearMedia { keep: 4 }, Stage::Drop],
            start: Start::UserOrToolPair,
            ..Policy::unlimited()
        }
    }

    /// A policy that sends everything and never compacts, not even if the window exceeds what the model accepts.
    ///
    /// ```
    /// use lookback_core::{Engine, Message, Policy, Settings};
    ///
    /// let settings = Settings { policy: Policy::never_compact(), model_window: Some(10), ..Settings::default() };
    /// let mut engine = Engine::new(settings);
    /// for text in ["one", "two", "three", "four"] {
    ///     engine.push(Message::user(text))?;
    /// }
    /// assert!(engine.window().plan.is_none());
    /// # Ok::<(), lookback_core::ConversionError>(())
    /// ```
    pub fn never_compact() -> Policy {
        // An empty hard limit, so that not even the context window of the model binds.
        Policy { hard: Some(Limits::default()), ..Policy::unlimited() }
    }

    /// A policy without limits of its own: the base for policies that set some. If the model's context window is known, the
    /// oldest groups are dropped when it is exceeded.
    ///
    /// ```
    /// use lookback_core::{Limits, Policy};
    ///
    /// let limits = Limits::messages(40);
    /// let policy = Policy { limits, target: Some(Limits::messages(20)), ..Policy::unlimited() };
    /// assert_eq!(policy.keep, Policy::unlimited().keep);
    /// ```
    pub fn unlimited() -> Policy {
        Policy {
            limits: Limits::default(),
            target: None,
            hard: None,
            keep: Keep::default(),
            system: SystemRule::default(),
            start: Start::Any,
            arrival: None,
            stages: vec![Stage::Drop],
            overflow: vec![
                Stage::TruncateResults { to: Truncation { head: 200, tail: 200, ..Truncation::default() }, keep: 0 },
                Stage::ClearMedia { keep: 0 },
                Stage::Drop,
            ],
            pace: Pace::Call,
            mode: Mode::Recorded,
            drop_block: false,
        }
    }
}

impl Default for Policy {
    /// As [`Policy::unlimited`].
    fn default() -> Self {
        Policy::unlimited()
    }
}

/// What a policy keeps beside what the laws keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// The first messages after the system prompt, with the groups they are in.
    pub first: u64,
    /// The last messages, with the groups they are in.
    pub last: u64,
    /// The current task: the last message that a person wrote. (Where the provider demands that a request begin with a
    /// user's message, it is kept in any case.)
    pub task: bool,
    /// Every system message, wherever it stands, with the group it is in. Without it only those are kept that the history begins with.
    pub system: bool,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { first: 0, last: 0, task: true, system: false }
    }
}

/// How system messages of the history are taken. (What stands outside the messages is a [`Preamble`](crate::Preamble), of which there is
/// one in any case; so `one` and `first` are for formats that have the system prompt among the messages.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SystemRule {
    /// There is one at a time, which is never dropped: the same again is ignored, another takes its place. Otherwise those that the
    /// history begins with are never dropped, and later ones are messages like others, unless [`Keep::system`] keeps them.
    pub one: bool,
    /// One that takes the place of another, or comes late, stands first; otherwise it stands where it came.
    pub first: bool,
    /// They count among the messages that a window may hold, and so does a summary.
    pub counted: bool,
}

impl Default for SystemRule {
    fn default() -> Self {
        SystemRule { one: false, first: false, counted: true }
    }
}

/// At which calls the limits are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Before every call.
    #[default]
    Call,
    /// Before every so many calls, and between turns. Calls are counted by the assistant messages of the history, so that a session that is
    /// opened again goes on counting where it was.
    Calls(u64),
    /// Between turns: never in the middle of a tool loop.
    Turn,
}

/// A way to make a window smaller. Each goes from the oldest group to the newest, and leaves alone what is pinned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    /// Shortens long tool results.
    TruncateResults {
        /// What is kept of each text.
        #[serde(flatten)]
        to: Truncation,
        /// The newest rounds, which are left alone.
        #[serde(default)]
        keep: u64,
    },
    /// Replaces tool results by a note of how much is gone.
    ClearResults {
        /// The newest rounds, which are left alone.
        #[serde(default)]
        keep: u64,
        /// The note, where `{cut}` is how many characters are gone, and `{entry}` the entry of the log that has them; absent,
        /// `[tool result cleared: {cut} characters]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String>,
    },
    /// Replaces pictures and files in tool results by a note.
    ClearMedia {
        /// The newest rounds, which are left alone.
        #[serde(default)]
        keep: u64,
    },
    /// Merges whole groups into a running summary, which stands where they stood. Who makes it, and when, is the caller's (see
    /// [`WindowOutcome::summary_request`](crate::WindowOutcome)); until then they stay, unless a hard limit is met.
    Summarize(Summarize),
    /// Drops whole groups.
    Drop,
}

/// What a running summary may be, and how it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarize {
    /// The most tokens of its text: what is longer is cut.
    pub budget: u64,
    /// Whose message it is. Where a provider demands that a request begin with the user's, it is the user's in any case.
    pub role: Role,
    /// What the message says, where `{summary}` is the summary.
    pub wording: String,
}

impl Default for Summarize {
    /// 1,000 tokens, as the user's message: a summary repeats what tools and strangers said, so it should not be able to command.
    fn default() -> Self {
        let wording = "[Summary of the conversation before this point]\n{summary}".to_owned();
        Summarize { budget: 1_000, role: Role::User, wording }
    }
}

/// Whether the outcome of a plan is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Recorded in the log, so that requests extend each other until the next compaction.
    #[default]
    Recorded,
    /// Planned anew at each read, and nothing recorded, for systems that do so. It costs O(history) a read, and the cache.
    OnRead,
}

impl Policy {
    /// Returns the same policy for a model: its shares of the context window as counts, and, if it has no hard limit, the context
    /// window less `max_output` as the hard limit, so that there is room for the answer. Both are in tokens. At most half of the
    /// window is reserved: some models may answer with as many tokens as their window has.
    ///
    /// ```
    /// use lookback_core::{Limits, Policy};
    ///
    /// let policy = Policy::production().for_window(Some(128_000), 16_384);
    /// assert_eq!(policy.hard, Some(Limits::tokens(111_616)));
    /// ```
    #[must_use]
    pub fn for_window(&self, window: Option<u64>, max_output: u64) -> Policy {
        let room = |window: u64| window - max_output.min(window / 2);
        let hard = self.hard.or_else(|| window.map(room).map(Limits::tokens));
        Policy {
            limits: self.limits.for_window(window),
            target: self.target.map(|target| target.for_window(window)),
            hard: hard.map(|hard| hard.for_window(window)),
            ..self.clone()
        }
    }

    /// The running summary that it makes, where it makes one.
    pub fn summary(&self) -> Option<&Summarize> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Summarize(summary) => Some(summary),
            Stage::TruncateResults { .. } | Stage::ClearResults { .. } | Stage::ClearMedia { .. } | Stage::Drop => None,
        })
    }

    /// The same policy, whose notes name the entry of the log that has what was cut or cleared, wherever they have no words of their own:
    /// for models that can ask for an entry.
    ///
    /// ```
    /// use lookback_core::{Policy, Truncation};
    ///
    /// let arrival = Some(Truncation { head: 2_000, ..Truncation::default() });
    /// let policy = Policy { arrival, ..Policy::default() }.naming_entries();
    /// assert!(policy.arrival.unwrap().marker.unwrap().contains("{entry}"));
    /// ```
    #[must_use]
    pub fn naming_entries(mut self) -> Policy {
        let name = |cap: &mut Truncation| {
            let unit = cap.unit.name();
            let marker = || format!("\n[... {{cut}} {unit} cut; entry {{entry}} has them ...]\n");
            cap.marker.get_or_insert_with(marker);
        };
        self.arrival.as_mut().into_iter().for_each(name);
        for stage in self.stages.iter_mut().chain(&mut self.overflow) {
            match stage {
                Stage::TruncateResults { to, .. } => name(to),
                Stage::ClearResults { marker, .. } => {
                    let note = || "[tool result cleared: {cut} characters; entry {entry} has them]".to_owned();
                    marker.get_or_insert_with(note);
                }
                Stage::ClearMedia { .. } | Stage::Summarize(_) | Stage::Drop => {}
            }
        }
        self
    }

    /// Whether tokens must be counted to carry it out.
    pub fn counts_tokens(&self) -> bool {
        let in_tokens = |cap: &Truncation| cap.unit == crate::cut::Unit::Tokens;
        self.limits.limits_tokens()
            || self.target.is_some_and(|target| target.limits_tokens())
            || self.hard.is_some_and(|hard| hard.limits_tokens())
            || self.arrival.as_ref().is_some_and(in_tokens)
            || self.summary().is_some()
            || self.stages.iter().any(|stage| matches!(stage, Stage::TruncateResults { to, .. } if in_tokens(to)))
    }
}
