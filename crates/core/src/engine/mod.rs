//! One conversation in memory: takes messages, and returns windows and the entries that a log must keep.

mod outcome;
mod receive;
mod reduce;
mod repair;
mod settings;
mod summary;
mod turns;

use std::borrow::Cow;

use crate::candidates::{self, Candidates, Sizing};
use crate::entry::{Entry, Position};
use crate::plan::{Demands, plan_for};
use crate::policy::{Limits, Mode, Pace, Policy, Tokens};
use crate::size::{Excess, Totals};
use crate::view::{Item, View};

pub use outcome::{Explanation, HardLimitExceeded, WindowOutcome};
pub use repair::is_stand_in;
pub use settings::Settings;
pub use summary::{SummaryClaim, SummaryRejected, SummaryRequest};

/// One conversation in memory: its current window, without a store.
///
/// A model call takes these steps:
///
/// - [`push`](Engine::push) appends each new message.
/// - [`window`](Engine::window) repairs and compacts before the call. Unless a hard limit is
///   [exceeded](WindowOutcome::exceeded), send the [`view`](Engine::view) then, or [`WindowOutcome::on_read`] if it is
///   present.
/// - [`usage`](Engine::usage) records the tokens that the provider reports, which makes later counts more accurate.
/// - If the provider refuses the request as too long, [`overflow`](Engine::overflow) makes the window smaller.
///
/// Each method that changes the conversation returns the entries that record the change, already applied. If you keep a
/// log, append them in order. [`Engine::resume`] continues from such a log. The engine does no I/O and has no clock. A
/// `Session` (in the crate `lookback`) is an engine with a store.
///
/// ```
/// use lookback_core::{Engine, Limits, Message, Policy, Settings};
///
/// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
/// let mut engine = Engine::new(Settings { policy, ..Settings::default() });
/// for text in ["one", "two", "three"] {
///     engine.push(Message::user(text))?;
/// }
/// let outcome = engine.window();
/// assert!(outcome.exceeded.is_none());
/// let texts: Vec<_> = engine.view().messages().map(|item| item.message().text()).collect();
/// assert_eq!(texts, ["two", "three"]);
/// # Ok::<(), lookback_core::ConversionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    settings: Settings,
    /// The policy, resolved for the model (see [`Settings::resolved`]).
    policy: Policy,
    view: View,
    end: Position,
    since_checkpoint: u64,
    /// A summary is being made, so the limits wait for it.
    summary_pending: bool,
}

/// The minimum number of entries between two checkpoints. If the window has more messages than this, that number is the
/// minimum, so that checkpoints stay a constant share of everything that is written.
const CHECKPOINT_EVERY: u64 = 64;

impl Engine {
    /// Creates an empty conversation.
    pub fn new(settings: Settings) -> Self {
        Engine::resume(settings, View::default(), 0, 0)
    }

    /// Resumes a conversation. `view` is the fold of its first `end` entries. `since_checkpoint` is the number of
    /// entries after the last checkpoint.
    pub fn resume(settings: Settings, view: View, end: Position, since_checkpoint: u64) -> Self {
        let policy = settings.resolved(&settings.policy);
        Engine { settings, policy, view, end, since_checkpoint, summary_pending: false }
    }

    /// Replaces the policy.
    ///
    /// What an earlier policy has dropped stays dropped. What a policy in the mode `on_read` has left out appears again
    /// if the new policy has room for it.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = self.settings.resolved(&policy);
        self.settings.policy = policy;
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns what the model would see now.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the length of the log in entries, including all that this engine has returned.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Returns the tokens of a window, corrected by the provider's usage reports.
    pub fn tokens(&self, view: &View) -> u64 {
        self.calibration().apply(view.totals().size.tokens)
    }

    /// Prepares the window for a model call: repairs what cannot be sent, and compacts if a limit is exceeded.
    ///
    /// The window is then [`Engine::view`], or [`WindowOutcome::on_read`] if that is present. If nothing is exceeded,
    /// the cost does not depend on the length of the window.
    pub fn window(&mut self) -> WindowOutcome {
        match self.policy.mode {
            Mode::Recorded => self.repair_and_reduce(),
            Mode::OnRead if self.needs_nothing() => WindowOutcome::default(),
            Mode::OnRead => {
                let mut draft = self.clone();
                let mended = draft.repair_and_reduce();
                let on_read = (!mended.entries.is_empty()).then(|| Box::new(draft.view));
                WindowOutcome { entries: Vec::new(), summary_request: None, on_read, ..mended }
            }
        }
    }

    /// Returns what could be sent now: the view, with repairs for whatever the provider would refuse.
    ///
    /// Nothing is recorded, so a call without a result continues to wait for it. The limits are not checked.
    ///
    /// ```
    /// use lookback_core::{Engine, Message, Settings, ToolCall};
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
    /// assert_eq!(engine.preview().messages().count(), 2);
    /// engine.push(Message::tool_result("c1", "the real result"))?;
    /// assert_eq!(engine.preview().messages().last().unwrap().message().tool_results().count(), 1);
    /// assert_eq!(engine.preview().messages().count(), 2);
    /// # Ok::<(), lookback_core::ConversionError>(())
    /// ```
    pub fn preview(&self) -> Cow<'_, View> {
        if self.is_mended() {
            return Cow::Borrowed(&self.view);
        }
        let (mut draft, mut entries) = (self.clone(), Vec::new());
        draft.repair(&mut entries);
        draft.take_outdated(&mut entries);
        if let Some(repair) = draft.trim(&draft.view) {
            draft.record(Entry::Repair(repair), &mut entries);
        }
        Cow::Owned(draft.view)
    }

    /// Returns the window within the limits, for looking at a conversation in the middle of a turn.
    ///
    /// The tool calls of the newest message are shown as they are, without stand-ins for the results that are still to
    /// come. Everything else that the provider would refuse is repaired. Nothing is recorded. If no call waits for a
    /// result, this is the window that a policy in the mode `on_read` gives.
    ///
    /// ```
    /// use lookback_core::{Engine, Limits, Message, Policy, Settings, ToolCall};
    ///
    /// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
    /// let mut engine = Engine::new(Settings { policy, ..Settings::default() });
    /// engine.push(Message::user("What is in notes.txt?"))?;
    /// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
    /// assert_eq!(engine.glance().messages().count(), 2);
    /// // Nobody will answer this call anymore, so it has a stand-in.
    /// engine.push(Message::user("Never mind."))?;
    /// let glance = engine.glance();
    /// assert_eq!(glance.messages().filter(|item| item.is_own()).count(), 1);
    /// # Ok::<(), lookback_core::ConversionError>(())
    /// ```
    pub fn glance(&self) -> Cow<'_, View> {
        let newest = self.view.groups().last().and_then(|group| group.items.first()).map(Item::position);
        let is_over = |position: Position| Some(position) != newest;
        let mended = self.view.open_calls().iter().all(|call| !is_over(call.position))
            && !self.view.outdated()
            && !self.needs_opening()
            && self.trim(&self.view).is_none();
        if mended && !self.exceeds() {
            return Cow::Borrowed(&self.view);
        }
        let (mut draft, mut entries) = (self.clone(), Vec::new());
        draft.repair_where(is_over, &mut entries);
        draft.take_outdated(&mut entries);
        if draft.exceeds() && !draft.waits() {
            draft.reduce_by_policy();
        }
        if let Some(repair) = draft.trim(&draft.view) {
            draft.record(Entry::Repair(repair), &mut entries);
        }
        Cow::Owned(draft.view)
    }

    /// Returns whether the window can be sent as it is.
    fn needs_nothing(&self) -> bool {
        self.is_mended() && !self.exceeds()
    }

    /// Returns whether the provider would accept the view as it is, limits aside.
    fn is_mended(&self) -> bool {
        let repaired = self.view.open_calls().is_empty() && !self.view.outdated() && !self.needs_opening();
        repaired && self.trim(&self.view).is_none()
    }

    fn repair_and_reduce(&mut self) -> WindowOutcome {
        let mut entries = Vec::new();
        self.repair(&mut entries);
        self.take_outdated(&mut entries);
        let reduced = if self.exceeds() && !self.waits() { self.reduce_by_policy() } else { WindowOutcome::default() };
        let mut outcome = WindowOutcome { entries: [entries, reduced.entries].concat(), ..reduced };
        // Last, because a compaction may change the end of the request.
        if let Some(repair) = self.trim(&self.view) {
            self.record(Entry::Repair(repair), &mut outcome.entries);
        }
        outcome
    }

    /// Returns the totals of the window, as the policy counts them.
    fn totals(&self) -> Totals {
        self.counted(&self.view)
    }

    fn counted(&self, view: &View) -> Totals {
        let mut totals = view.totals();
        totals.size.tokens = self.calibration().apply(totals.size.tokens);
        if !self.policy.system.counted {
            totals.size.messages = totals.size.messages.saturating_sub(view.uncounted());
        }
        totals
    }

    /// Returns the limits of the policy that a view of this conversation exceeds. Tokens are corrected by the
    /// provider's usage reports.
    pub fn over(&self, view: &View) -> Vec<Excess> {
        self.policy.limits.excesses(&self.counted(view)).collect()
    }

    /// Returns whether a limit is exceeded that has to be checked now.
    fn exceeds(&self) -> bool {
        let totals = self.totals();
        let due = match self.policy.pace {
            Pace::Call => true,
            // Also between turns, so that it is never looser than `Pace::Turn`.
            Pace::Calls(calls) => !self.view.in_turn() || (self.view.round() + 1).is_multiple_of(calls.max(1)),
            Pace::Turn => !self.view.in_turn(),
        };
        // A share of the context window is checked before every call, whatever the pace.
        let shares = self.settings.policy.limits.tokens.filter(|tokens| matches!(tokens, Tokens::Share(_)));
        let shares = Limits { tokens: shares.and(self.policy.limits.tokens), ..Limits::default() };
        (due && !self.policy.limits.fits(&totals)) || !shares.fits(&totals) || !self.fits_hard(&totals)
    }

    fn fits_hard(&self, totals: &Totals) -> bool {
        self.policy.hard.unwrap_or_default().fits(totals)
    }

    /// Returns whether an exceeded limit has to wait: for a summary that is being made, or for the end of a tool loop
    /// with signed reasoning. Such a loop lasts for several calls, and measuring every group again for each of them
    /// would be in vain.
    fn waits(&self) -> bool {
        self.fits_hard(&self.totals()) && (self.summary_pending || self.is_bound())
    }

    /// Returns whether signed reasoning of an open tool loop forbids any change, and the request does not ask the
    /// provider to drop it.
    fn is_bound(&self) -> bool {
        !self.policy.drop_block && candidates::is_bound(&self.view, self.sizing())
    }

    /// Returns the plan for the current window, whether or not a limit is exceeded, and the entries of each group.
    pub fn explain(&self) -> Explanation {
        let candidates = Candidates::of(&self.view, self.sizing());
        let plan = plan_for(&candidates.groups, &self.policy, self.demands());
        Explanation { plan, entries: candidates.spans(&self.view) }
    }

    fn calibration(&self) -> crate::tokens::Calibration {
        self.settings.model.as_deref().map(|model| self.view.calibration(model)).unwrap_or_default()
    }

    fn sizing(&self) -> Sizing<'_> {
        Sizing {
            policy: &self.policy,
            counter: &*self.settings.counter,
            calibration: self.calibration(),
            demands: self.demands(),
        }
    }

    fn demands(&self) -> Demands {
        Demands { start: self.settings.dialect.quirks().start, overflow: false }
    }

    fn record(&mut self, entry: Entry, entries: &mut Vec<Entry>) {
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
}
