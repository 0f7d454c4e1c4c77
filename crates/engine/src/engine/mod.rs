//! The engine of one conversation in memory: takes messages, and returns windows and the entries that a log must keep.

mod arrive;
mod carry_over;
mod erase;
mod index;
mod limits;
mod outcome;
mod receive;
mod reduce;
mod repair;
mod settings;
mod summary;
mod turns;
mod window;

use std::collections::HashMap;

use crate::entry::{Entry, Position};
use crate::lines::ShownLines;
use crate::policy::Policy;
use crate::view::View;
use lookback_wire::dialect::Target;

pub use erase::Redraw;
pub use outcome::{ExplainedGroup, Explanation, HardLimitExceeded, WindowOutcome};
pub use repair::is_stand_in;
pub use settings::Settings;
pub use summary::{SummaryClaim, SummaryRejected, SummaryRequest};

/// One conversation in memory: its current window, without a store.
///
/// A model call takes these steps:
///
/// - [`push`](Engine::push) appends each new message.
/// - [`window`](Engine::window) repairs and compacts before the call. Then send the [`view`](Engine::view), or
///   [`WindowOutcome::on_read`] if it is present, unless a hard limit is [exceeded](WindowOutcome::exceeded).
/// - [`usage`](Engine::usage) records the tokens that the provider reports, which makes later counts more accurate.
/// - If the provider refuses the request as too long, [`overflow`](Engine::overflow) makes the window smaller.
///
/// Each method that changes the conversation returns the entries that record the change, already applied. If you keep a
/// log, append them in order. [`Engine::resume`] continues from such a log. The engine does no I/O and has no clock. A
/// `Session` (in the crate `lookback`) is an engine with a store.
///
/// ```
/// use lookback_engine::{Engine, Settings, policy::{Limits, Policy}};
/// use lookback_wire::message::Message;
///
/// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
/// let mut engine = Engine::new(Settings::default().policy(policy));
/// for text in ["one", "two", "three"] {
///     engine.push(Message::user(text))?;
/// }
/// let outcome = engine.window();
/// assert!(outcome.exceeded.is_none());
/// let texts: Vec<_> = engine.view().messages().map(|item| item.message().text()).collect();
/// assert_eq!(texts, ["two", "three"]);
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    settings: Settings,
    /// The provider and model of the requests, as far as they are known.
    target: Target,
    /// The policy, resolved for the model (see [`Settings::resolved`]).
    policy: Policy,
    view: View,
    end: Position,
    since_checkpoint: u64,
    /// The lines that the window shows, unless they have to be looked up again.
    lines: Option<ShownLines>,
    /// The tokens of the declared tools that messages load, by name, for the preamble at a position.
    deferred: Option<(Position, HashMap<String, u64>)>,
    /// Whether the caller reported that the provider's cache no longer has the window.
    reported_cold: bool,
    /// Whether a summary is being made, for which the limits wait.
    summary_pending: bool,
    /// Whether messages leave without waiting for a summary (see [`Engine::drop_at_limits`]).
    drops: bool,
}

/// The state of a log, from which [`Engine::resume`] continues. The default is that of an empty log.
///
/// An engine needs no other state: it computes the rest from the view, or starts it afresh.
#[derive(Debug, Clone, Default)]
pub struct LogState {
    /// The fold of all entries.
    pub view: View,
    /// The length of the log in entries.
    pub end: Position,
    /// The number of entries after the last checkpoint.
    pub since_checkpoint: u64,
}

/// The minimum number of entries between two checkpoints. If the window has more messages than this, their number is
/// the minimum. So checkpoints stay a constant share of everything that is written.
const CHECKPOINT_EVERY: u64 = 64;

impl Engine {
    /// Creates an empty conversation.
    pub fn new(settings: Settings) -> Self {
        Engine::resume(settings, LogState::default())
    }

    /// Resumes a conversation from the state of its log.
    pub fn resume(settings: Settings, log: LogState) -> Self {
        let policy = settings.resolved(&settings.policy);
        let LogState { view, end, since_checkpoint } = log;
        let target = settings.target();
        Engine {
            settings,
            target,
            policy,
            view,
            end,
            since_checkpoint,
            lines: None,
            deferred: None,
            reported_cold: false,
            summary_pending: false,
            drops: false,
        }
    }

    /// Replaces the policy.
    ///
    /// Groups that an earlier policy has dropped stay dropped. Groups that a policy in the mode `on_read` has left out
    /// appear again if the new policy has room for them.
    pub fn set_policy(&mut self, policy: Policy) {
        if policy.repeats != self.policy.repeats || policy.caps != self.policy.caps {
            self.lines = None;
        }
        self.policy = self.settings.resolved(&policy);
        self.settings.policy = policy;
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the provider and model of the requests, as far as they are known, for [`View::encode`].
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the messages that the model would see now.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the length of the log in entries, including all that this engine has returned.
    pub fn end(&self) -> Position {
        self.end
    }

    fn record(&mut self, entry: Entry, entries: &mut Vec<Entry>) {
        match (&entry, &mut self.lines) {
            (Entry::Message(arrival), Some(lines)) => lines.add(self.end, &arrival.message, &arrival.edits),
            (Entry::Compaction(_) | Entry::Branch { .. }, _) => self.lines = None,
            _ => {}
        }
        self.view.apply(self.end, &entry);
        self.end += 1;
        self.since_checkpoint += 1;
        entries.push(entry);
    }

    fn checkpoint_if_due(&mut self, entries: &mut Vec<Entry>) {
        if self.since_checkpoint >= CHECKPOINT_EVERY.max(self.view.totals().size.messages) {
            self.checkpoint(entries);
        }
    }

    /// Writes a checkpoint, from which a reader can start, and appends its entry to `entries`.
    pub fn checkpoint(&mut self, entries: &mut Vec<Entry>) {
        let checkpoint = self.view.checkpoint();
        self.record(Entry::Checkpoint(checkpoint), entries);
        self.since_checkpoint = 0;
    }

    /// Announces that contents before `position` are about to be erased, except for those that a later view needs.
    /// Records this with a checkpoint. After that, no branch returns to an earlier entry.
    pub fn erase_before(&mut self, position: Position) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.view.erase_before(position);
        self.checkpoint(&mut entries);
        entries
    }
}
