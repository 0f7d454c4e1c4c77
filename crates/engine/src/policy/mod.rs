//! The policy: the limits of a window, the messages to keep, and the stages that make it smaller.

mod caps;
mod faults;
mod index;
mod keep;
mod limits;
mod repeats;
mod stage;
mod tightened;
mod timing;

use serde::{Deserialize, Serialize};

use lookback_tokens::cut::{Truncation, Unit};

pub use caps::Caps;
pub use faults::PolicyFault;
pub use index::Index;
pub use keep::{Keep, SystemRule};
pub use limits::{Limits, Tokens};
pub use repeats::Repeats;
pub use stage::{Stage, Summarize};
pub use timing::{Cold, Mode, Pace, Payback};

pub use lookback_wire::Start;

/// The note that replaces a cleared tool result, for models that can ask for an entry.
const CLEARED: &str = "[tool result cleared: {cut} characters; entry {entry} has them]";
const CLEARED_INPUT: &str = "[{cut} characters cleared; entry {entry} has them]";

/// The limits of a window, the messages to keep, and the stages that make it smaller.
///
/// If a window exceeds one of the [`limits`](Policy::limits), the [`stages`](Policy::stages) make it smaller, in their
/// order, until it meets the [`target`](Policy::target). The target should be well below the limits, because each
/// compaction changes the beginning of the request, and the provider's cache of it is lost.
///
/// Use [`Policy::production`] unless you have a reason not to, and change single fields of it. To write a policy from
/// scratch, start from [`Policy::unlimited`]:
///
/// ```
/// use lookback_engine::policy::{Limits, Policy};
///
/// let policy = Policy {
///     limits: Limits::tokens(100_000),
///     target: Some(Limits::tokens(50_000)),
///     ..Policy::unlimited()
/// };
/// assert!(policy.faults().is_empty());
/// ```
///
/// A policy can also be read from JSON or TOML. A missing key takes its value from [`Policy::unlimited`], and an
/// unknown key is an error.
///
/// ```
/// use lookback_engine::policy::Policy;
///
/// let policy: Policy = serde_json::from_str(r#"{"limits": {"tokens": 32000}, "target": {"tokens": 16000}}"#)?;
/// assert!(policy.faults().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default = "Policy::unlimited", deny_unknown_fields)]
pub struct Policy {
    /// When to compact: a window that exceeds any of these limits is made smaller.
    pub limits: Limits,
    /// How far to compact: the window is made smaller until it exceeds none of these limits.
    ///
    /// If this is `None`, the target is `limits`. Then a full window slides by a message with each call, and breaks the
    /// provider's cache each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Limits>,
    /// Lower limits for when the provider's cache no longer has the window. A cut is free then, because the whole
    /// window has to be written to the cache anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<Cold>,
    /// Lower limits for when a compaction has paid for itself. If this is `None`, only the limits decide when to
    /// compact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payback: Option<Payback>,
    /// Limits that no request may exceed. If a window cannot meet them, because too much is pinned, Lookback returns an
    /// error.
    ///
    /// If this is `None`, the hard limit is the model's context window, if it is known, less the room for its answer
    /// (see [`Policy::for_window`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<Limits>,
    /// Messages that are never dropped, in addition to the preamble, the system prompt, the newest message and the open
    /// round.
    pub keep: Keep,
    /// How system messages among the other messages are treated.
    pub system: SystemRule,
    /// Where a window may begin.
    pub start: Start,
    /// The cap on each text of a tool result, applied as the result arrives. Because the text was never sent in full,
    /// this costs no cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Truncation>,
    /// Separate caps on files and on other texts of tool results, applied as the results arrive. If
    /// [`arrival`](Policy::arrival) is also set, each text is cut by the cap that keeps less of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caps: Option<Caps>,
    /// The minimum length of repeated lines, which are left out of an arriving tool result because the window already
    /// shows them. If this is `None`, no lines are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// The index of names that are no longer in the window. If this is `None`, there is no index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Index>,
    /// The ways to make a window smaller, tried in this order until the target is met.
    pub stages: Vec<Stage>,
    /// The ways to make a window smaller after the provider has refused it as too long.
    ///
    /// They also change messages that the model has not seen yet: it is better to shorten a giant result of the open
    /// round than to send it again in vain.
    pub overflow: Vec<Stage>,
    /// When the limits are checked. The hard limit is checked before every call, and so is a limit in tokens that is a
    /// share of the context window.
    pub pace: Pace,
    /// Whether compactions are recorded.
    pub mode: Mode,
    /// Whether the request asks the provider to drop reasoning whose prefix has changed (Anthropic's
    /// `prefix_mismatch_behavior: "drop_block"`). If it does, a compaction may also change what precedes the signed
    /// reasoning of an open tool loop.
    pub drop_block: bool,
}

impl Policy {
    /// Returns the default policy of [`Settings`](crate::Settings), made for production.
    ///
    /// A window whose body exceeds 56,000 tokens is compacted to 20,000. So compactions are rare, and the provider's
    /// cache matches in between. If the cache is cold, the limit is 24,000 tokens. Windows with more than 80 pictures
    /// and files are compacted to 40, and windows of more than 24,000,000 bytes to 12,000,000. Old pictures and tool
    /// results are cleared first, and then whole groups are dropped. An index lists the names that have left.
    ///
    /// An arriving tool result is capped at 8,000 tokens if it shows a file or is prose, and at 1,500 otherwise, or at
    /// four times as many if the model has no tool `recall`. Lines that the window already shows are left out, and so
    /// are most numbers of lines.
    ///
    /// The page `docs/concepts/default-policy.md` gives the reasons, with figures.
    ///
    /// ```
    /// use lookback_engine::policy::{Limits, Policy};
    ///
    /// let policy = Policy { limits: Limits::tokens(100_000), ..Policy::production() };
    /// assert!(policy.faults().is_empty());
    /// ```
    pub fn production() -> Policy {
        let limits = |body, media, bytes| Limits { media: Some(media), bytes: Some(bytes), ..Limits::body(body) };
        Policy {
            limits: limits(56_000, 80, 24_000_000),
            target: Some(limits(20_000, 40, 12_000_000)),
            cold: Some(Cold { limits: Limits::body(24_000), target: Limits::body(20_000), ..Cold::default() }),
            keep: Keep { people: 6_000, work: true, ..Keep::default() },
            start: Start::UserOrToolPair,
            caps: Some(Caps { file: 8_000, other: 1_500, names: 800, numbers: false, without_recall: 4 }),
            repeats: Some(Repeats::default()),
            index: Some(Index { budget: 4_500 }),
            stages: vec![
                Stage::ClearMedia { except_newest: 3 },
                Stage::ClearResults { except_newest: 3, marker: None },
                Stage::Drop,
            ],
            ..Policy::unlimited()
        }
        .with_entry_numbers()
    }

    /// Returns a policy that sends everything and never compacts, even if the window exceeds the model's context
    /// window.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings, policy::Policy};
    /// use lookback_wire::message::Message;
    ///
    /// let settings = Settings::default().policy(Policy::never_compact()).model_window(10);
    /// let mut engine = Engine::new(settings);
    /// for text in ["one", "two", "three", "four"] {
    ///     engine.push(Message::user(text))?;
    /// }
    /// assert!(engine.window().plan.is_none());
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn never_compact() -> Policy {
        // An empty hard limit, because otherwise the model's context window would apply.
        Policy { hard: Some(Limits::default()), ..Policy::unlimited() }
    }

    /// Returns a policy that sets no limits: the base for policies that do.
    ///
    /// If the model's context window is known, it still applies: the hard limit is the context window less the room for
    /// the answer, and the oldest groups are dropped if the window exceeds it.
    ///
    /// ```
    /// use lookback_engine::policy::{Limits, Policy};
    ///
    /// let limits = Limits::messages(40);
    /// let policy = Policy { limits, target: Some(Limits::messages(20)), ..Policy::unlimited() };
    /// assert_eq!(policy.keep, Policy::unlimited().keep);
    /// ```
    pub fn unlimited() -> Policy {
        Policy {
            limits: Limits::default(),
            target: None,
            cold: None,
            payback: None,
            hard: None,
            keep: Keep::default(),
            system: SystemRule::default(),
            start: Start::Any,
            arrival: None,
            caps: None,
            repeats: None,
            index: None,
            stages: vec![Stage::Drop],
            overflow: vec![
                Stage::TruncateResults {
                    to: Truncation { head: 200, tail: 200, ..Truncation::default() },
                    except_newest: 0,
                },
                Stage::ClearMedia { except_newest: 0 },
                Stage::Drop,
            ],
            pace: Pace::Call,
            mode: Mode::Recorded,
            drop_block: false,
        }
    }

    /// Returns this policy, resolved for a model. Shares of the context window become counts. If the policy has no hard
    /// limit, the hard limit becomes the context window less `max_output`, which leaves room for the answer.
    ///
    /// `window` and `max_output` are in tokens. Never more than half of the context window is reserved: some models
    /// list an output limit equal to their context window.
    ///
    /// ```
    /// use lookback_engine::policy::{Limits, Policy};
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
            cold: self.cold.map(|cold| Cold {
                limits: cold.limits.for_window(window),
                target: cold.target.for_window(window),
                ..cold
            }),
            payback: self.payback.map(|payback| Payback { limits: payback.limits.for_window(window), ..payback }),
            hard: hard.map(|hard| hard.for_window(window)),
            ..self.clone()
        }
    }

    /// Returns the settings of the running summary, if the policy has a stage that summarizes.
    pub fn summary(&self) -> Option<&Summarize> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Summarize(summary) => Some(summary),
            Stage::TruncateResults { .. }
            | Stage::ClearResults { .. }
            | Stage::ClearInputs { .. }
            | Stage::ClearMedia { .. }
            | Stage::Drop => None,
        })
    }

    /// Returns this policy with notes that name the log entry with the full text, for models that can ask for an entry.
    ///
    /// If the policy already sets the wording of a note, that wording stays.
    ///
    /// ```
    /// use lookback_engine::policy::Policy;
    /// use lookback_tokens::cut::Truncation;
    ///
    /// let arrival = Some(Truncation { head: 2_000, ..Truncation::default() });
    /// let policy = Policy { arrival, ..Policy::unlimited() }.with_entry_numbers();
    /// assert!(policy.arrival.unwrap().marker.unwrap().contains("{entry}"));
    /// ```
    #[must_use]
    pub fn with_entry_numbers(mut self) -> Policy {
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
                    marker.get_or_insert_with(|| CLEARED.to_owned());
                }
                Stage::ClearInputs { marker, .. } => {
                    marker.get_or_insert_with(|| CLEARED_INPUT.to_owned());
                }
                Stage::ClearMedia { .. } | Stage::Summarize(_) | Stage::Drop => {}
            }
        }
        self
    }

    /// Returns whether this policy shortens tool results on arrival.
    #[doc(hidden)]
    pub fn shortens_arrivals(&self) -> bool {
        self.arrival.is_some() || self.caps.is_some() || self.repeats.is_some()
    }

    /// Returns whether this policy needs token counts.
    #[doc(hidden)]
    pub fn counts_tokens(&self) -> bool {
        let in_tokens = |cap: &Truncation| cap.unit == Unit::Tokens;
        self.limits.limits_tokens()
            || self.target.is_some_and(|target| target.limits_tokens())
            || self.hard.is_some_and(|hard| hard.limits_tokens())
            || self.arrival.as_ref().is_some_and(in_tokens)
            || self.caps.is_some()
            || self.repeats.is_some()
            || self.index.is_some()
            || self.payback.is_some()
            || self.cold.is_some_and(|cold| cold.limits.limits_tokens() || cold.target.limits_tokens())
            || self.summary().is_some()
            || self.stages.iter().any(|stage| matches!(stage, Stage::TruncateResults { to, .. } if in_tokens(to)))
    }
}

impl Default for Policy {
    /// Returns [`Policy::production`].
    fn default() -> Self {
        Policy::production()
    }
}
