//! One conversation in memory: takes messages, and returns windows and the entries that a log must keep.

mod reduce;
mod repair;
mod summary;
mod turns;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::candidates::{self, Candidates, Sizing};
use crate::cut;
use crate::dialect::{ConversionError, Preamble};
use crate::edit::{self, Change, Edit};
use crate::entry::{Arrival, Entry, Label, Millis, Origin, Position, UsageReport};
use crate::group::Pinned;
use crate::measure::measure;
use crate::message::Message;
use crate::plan::{Demands, Plan, plan_for};
use crate::policy::{Limits, Mode, Pace, Policy, Tokens};
use crate::size::{Excess, Totals};
use crate::start::Start;
use crate::tokens::{Estimate, Models, TokenCounter};
use crate::view::{Item, View};
use crate::wire::Dialect;
use crate::wire::Role;

pub use repair::is_stand_in;
pub use summary::{SummaryClaim, SummaryRejected, SummaryRequest};

/// The configuration of an [`Engine`]: the provider's format, the policy, and what is known of the model.
///
/// [`Settings::for_model`] fills in what is known of a model. To set limits of your own, replace the policy:
///
/// ```
/// use lookback_core::{Dialect, Limits, Policy, Settings};
///
/// let policy = Policy { limits: Limits::tokens(50_000), ..Policy::production() };
/// let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").policy(policy);
/// assert_eq!(settings.model_window, Some(128_000));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The provider's message format. Every window keeps its rules.
    pub dialect: Dialect,
    /// What a window may contain.
    pub policy: Policy,
    /// Counts the tokens of each message.
    pub counter: Arc<dyn TokenCounter>,
    /// The model's name. The provider's usage reports for this model correct the token counts. Without a name, the
    /// counts are not corrected.
    pub model: Option<String>,
    /// The model's context window in tokens, if it is known. Shares in the policy are shares of it. Unless the policy
    /// sets a hard limit, the context window less the room for the answer is the hard limit.
    pub model_window: Option<u64>,
    /// The most tokens that the model may answer with, if that is known. This much of the context window is kept free
    /// for the answer, but never more than half of it.
    pub max_output: Option<u64>,
}

impl Settings {
    /// Returns settings with the default policy for a model. If the model is known (see [`Models`]), they have its
    /// context window, its longest answer and a counter of its tokens. Otherwise, these are the defaults.
    ///
    /// ```
    /// use lookback_core::{Dialect, Settings};
    ///
    /// let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
    /// assert_eq!((settings.model_window, settings.max_output), (Some(128_000), Some(16_384)));
    /// assert_eq!(Settings::for_model(Dialect::OpenAiChat, "my-own-model").model_window, None);
    /// ```
    pub fn for_model(dialect: Dialect, model: &str) -> Self {
        let (name, default) = (Some(model.to_owned()), Settings::default());
        match Models::builtin().find(model) {
            Some(known) => Settings {
                dialect,
                counter: known.counter(),
                model: name,
                model_window: Some(known.window),
                max_output: known.max_output,
                ..default
            },
            None => Settings { dialect, model: name, ..default },
        }
    }

    /// Sets the provider's message format.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Settings { dialect, ..self }
    }

    /// Sets what a window may contain.
    #[must_use]
    pub fn policy(self, policy: impl Into<Policy>) -> Self {
        Settings { policy: policy.into(), ..self }
    }

    /// Sets what counts the tokens of each message.
    #[must_use]
    pub fn counter(self, counter: Arc<dyn TokenCounter>) -> Self {
        Settings { counter, ..self }
    }

    /// Sets the model's name, by which the provider's usage reports correct the token counts.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        Settings { model: Some(model.into()), ..self }
    }

    /// Sets the model's context window, in tokens.
    #[must_use]
    pub fn model_window(self, tokens: u64) -> Self {
        Settings { model_window: Some(tokens), ..self }
    }

    /// Sets the most tokens that the model may answer with.
    #[must_use]
    pub fn max_output(self, tokens: u64) -> Self {
        Settings { max_output: Some(tokens), ..self }
    }

    /// Returns a policy with shares and hard limit resolved for this model (see [`Policy::for_window`]).
    fn resolved(&self, policy: &Policy) -> Policy {
        policy.for_window(self.model_window, self.max_output.unwrap_or(0))
    }
}

impl Default for Settings {
    /// Returns OpenAI's format, the [production policy](Policy::production), estimated token counts, and no model.
    fn default() -> Self {
        Settings {
            dialect: Dialect::default(),
            policy: Policy::production(),
            counter: Arc::new(Estimate::default()),
            model: None,
            model_window: None,
            max_output: None,
        }
    }
}

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
/// let mut engine = Engine::new(Settings::default().policy(policy));
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

/// The result of [`Engine::window`], and of the other methods that make a window smaller.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WindowOutcome {
    /// The entries that the log must keep: repairs, a compaction, a checkpoint.
    pub entries: Vec<Entry>,
    /// The plan, if a limit was exceeded.
    pub plan: Option<Plan>,
    /// The hard limit that the window exceeds. If this is present, nothing may be sent.
    pub exceeded: Option<HardLimitExceeded>,
    /// The summary to make, if the policy makes summaries and a limit is exceeded. What it would cover stays in the
    /// window until [`Engine::accept_summary`] takes it up, unless a hard limit forced it out.
    pub summary_request: Option<SummaryRequest>,
    /// The window, if the policy's mode is `on_read` and the window differs from the view. If this is absent, the
    /// window is [`Engine::view`].
    pub on_read: Option<Box<View>>,
}

/// A hard limit that cannot be met, with what is in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the window exceeds its hard limit: {}", describe(.excesses, .pinned, *.waits))]
#[non_exhaustive]
pub struct HardLimitExceeded {
    /// The limits that are exceeded.
    pub excesses: Vec<Excess>,
    /// What is pinned, with sizes.
    pub pinned: Vec<Pinned>,
    /// Whether a compaction has to wait because a tool loop with signed reasoning is open.
    pub waits: bool,
}

fn describe(excesses: &[Excess], pinned: &[Pinned], waits: bool) -> String {
    let excess = |e: &Excess| format!("{} {} (at most {})", e.actual, e.measure, e.limit);
    let limits = excesses.iter().map(excess).collect::<Vec<_>>().join(", ");
    let pins = Pinned::list(pinned);
    let advice = if waits {
        "no compaction is possible until the open tool loop with signed reasoning ends"
    } else {
        "raise the limit, or shorten what is pinned"
    };
    format!("{limits}; pinned: {pins}; {advice}")
}

/// The plan for a window, with the entries behind each decision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// A decision for each group, with its reason.
    pub plan: Plan,
    /// For each decision of the plan, the entries of its group. The preamble has none.
    pub entries: Vec<Vec<Range<Position>>>,
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

    /// Appends a message from the client, and returns the entries that record it.
    ///
    /// # Errors
    /// Returns an error if the message was built in Rust or came in another dialect, and the engine's dialect cannot
    /// express a part of it.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) -> Result<Vec<Entry>, ConversionError> {
        self.receive(message, Origin::Client, None)
    }

    /// Appends a message from `origin`, and returns the entries that record it. `time` is when it arrived, if that is
    /// known.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Engine::push`].
    pub fn receive(
        &mut self,
        message: impl Into<Arc<Message>>,
        origin: Origin,
        time: Option<Millis>,
    ) -> Result<Vec<Entry>, ConversionError> {
        let message = message.into();
        let dialect = self.settings.dialect;
        let same = message.wire().is_some_and(|wire| wire.dialect == dialect);
        let messages =
            if same { vec![message] } else { dialect.convert(&message)?.into_iter().map(Arc::new).collect() };
        let mut entries = Vec::with_capacity(messages.len());
        for message in messages {
            let Some((replaces, first)) = self.place_of_system(&message) else { continue };
            let counter = &*self.settings.counter;
            let mut edits = self.view.admit(&message, dialect);
            if let Some(cap) = &self.policy.arrival {
                for (part, result) in message.tool_results() {
                    let cuts = cut::truncate_result(result, self.end, cap, counter);
                    edits.extend(cuts.into_iter().map(|(item, cut)| Edit { part, change: Change::Cut { item, cut } }));
                }
            }
            let edits = edit::in_order(edits);
            let size = measure(&message, &edits, counter);
            let digest = message.digest();
            let arrival = Arrival { message, origin, edits, size, digest, time, replaces, first };
            self.record(Entry::Message(arrival), &mut entries);
        }
        self.checkpoint_if_due(&mut entries);
        Ok(entries)
    }

    /// Returns the positions of the system messages that this message replaces, and whether it is placed first. `None`
    /// if the message is ignored, because a system message with the same content is in the window.
    fn place_of_system(&self, message: &Message) -> Option<(Vec<Position>, bool)> {
        let rule = self.policy.system;
        let among = self.settings.dialect.quirks().start == Start::Any;
        if !rule.one || !among || message.role() != Role::System {
            return Some((Vec::new(), false));
        }
        let digest = message.digest();
        let standing = || self.view.system_messages();
        if standing().any(|item| item.message().digest() == digest) {
            return None;
        }
        Some((standing().map(Item::position).collect(), rule.first))
    }

    /// Sets the preamble: the system prompt and the tools that are sent outside the messages. Setting the same preamble
    /// again changes nothing.
    ///
    /// Signed reasoning is valid only under the preamble that it was made under. So a change hides the signed reasoning
    /// of all completed turns.
    pub fn set_preamble(&mut self, preamble: &Preamble) -> Vec<Entry> {
        let mut entries = Vec::new();
        let none = Preamble::default();
        if preamble.is_same(self.view.preamble().unwrap_or(&none)) {
            return entries;
        }
        let size = preamble.measure(&*self.settings.counter);
        self.record(Entry::Preamble { preamble: Arc::new(preamble.clone()), size }, &mut entries);
        self.take_outdated(&mut entries);
        entries
    }

    /// Hides signed reasoning that was made under another preamble. While a tool loop with signed reasoning is open,
    /// this waits.
    fn take_outdated(&mut self, entries: &mut Vec<Entry>) {
        if !self.view.outdated() || candidates::is_bound(&self.view, self.sizing()) {
            return;
        }
        let candidates = Candidates::of(&self.view, self.sizing());
        let plan = candidates.keep_all();
        let compaction = candidates.carry_out(&self.view, &plan);
        self.record(Entry::Compaction(compaction), entries);
    }

    /// Sets the label of the entries that follow: who writes them, and under which tags. Setting the same label again
    /// changes nothing.
    pub fn label(&mut self, label: Label) -> Vec<Entry> {
        let mut entries = Vec::new();
        if *self.view.label() != label {
            self.record(Entry::Label(label), &mut entries);
        }
        entries
    }

    /// Records the input tokens that the provider reported for a call, including those read from its cache. `estimated`
    /// is the number of tokens that [`View::totals`] gave for the window that was sent.
    pub fn usage(&mut self, model: &str, estimated: u64, reported: u64) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.record(Entry::Usage(UsageReport { model: model.to_owned(), estimated, reported }), &mut entries);
        entries
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
    /// let mut engine = Engine::new(Settings::default().policy(policy));
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
