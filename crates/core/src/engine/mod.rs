//! One conversation in memory: takes messages in, gives windows out, and hands back the entries that a log must keep.

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
use crate::message::{Message, Role};
use crate::plan::{Demands, Plan, plan_for};
use crate::policy::{Limits, Mode, Pace, Policy, Tokens};
use crate::size::{Excess, Totals};
use crate::start::Start;
use crate::tokens::{Estimate, Models, TokenCounter};
use crate::view::{Item, View};
use crate::wire::Dialect;

pub use repair::is_stand_in;
pub use summary::{SummaryClaim, SummaryRejected, SummaryRequest};

/// What an engine works by.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The provider's format: its rules hold for every window.
    pub dialect: Dialect,
    /// What a window may hold.
    pub policy: Policy,
    /// Counts tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// The model's name, under which usage reports correct the counts.
    pub model: Option<String>,
    /// The model's window in tokens, where it is known: shares refer to it, and it is the hard limit unless the policy sets one.
    pub model_window: Option<u64>,
    /// The most tokens that the model may answer with, which are kept free in its context window. If it is unknown, none are.
    pub max_output: Option<u64>,
}

impl Settings {
    /// The default policy for a model: with its window and a counter of its tokens, where it is known (see [`Models`]).
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

    /// The same policy for this model (see [`Policy::for_window`]).
    fn resolved(&self, policy: &Policy) -> Policy {
        policy.for_window(self.model_window, self.max_output.unwrap_or(0))
    }
}

impl Default for Settings {
    /// OpenAI's format, the default policy, estimated tokens, and a model of which nothing is known.
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

/// One conversation in memory.
///
/// Each call that changes something gives the entries that say so, and has applied them already: whoever keeps a log appends
/// them, in order. The engine itself does no I/O, and knows no clock.
///
/// ```
/// use lookback_core::{Engine, Limits, Message, Policy, Settings};
///
/// let policy = Policy { limits: Limits::messages(2), ..Policy::default() };
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
    /// The policy with the model's window and the provider's demands worked in.
    policy: Policy,
    view: View,
    end: Position,
    since_checkpoint: u64,
    /// A summary is being made, so the limits wait for it.
    summary_pending: bool,
}

/// What a call for a window came to.
#[derive(Debug, Clone, Default)]
pub struct WindowOutcome {
    /// What the log must keep: repairs, a compaction, a checkpoint.
    pub entries: Vec<Entry>,
    /// The plan, where a limit was exceeded.
    pub plan: Option<Plan>,
    /// Why nothing may be sent, where nothing may.
    pub exceeded: Option<HardLimitExceeded>,
    /// The summary that is wanted, where the policy makes one and a limit is exceeded: what it would cover is still in the
    /// window, unless a hard limit was met. [`Engine::summarized`] takes it.
    pub summary_request: Option<SummaryRequest>,
    /// The window of a policy that records nothing; absent, it is [`Engine::view`].
    pub on_read: Option<Box<View>>,
}

/// A hard limit that no plan meets: the values of an error that names what is in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the window exceeds its hard limit: {}", describe(.excesses, .pinned, *.waits))]
pub struct HardLimitExceeded {
    /// The limits.
    pub excesses: Vec<Excess>,
    /// What is pinned, and how large it is.
    pub pinned: Vec<Pinned>,
    /// Whether a compaction would help, but signed reasoning of an open tool loop forbids it.
    pub waits: bool,
}

fn describe(excesses: &[Excess], pinned: &[Pinned], waits: bool) -> String {
    let excess = |e: &Excess| format!("{} {} where {} may be", e.actual, e.measure, e.limit);
    let limits = excesses.iter().map(excess).collect::<Vec<_>>().join(", ");
    let pins = Pinned::list(pinned);
    let wait = if waits { "; signed reasoning of the open tool loop forbids a compaction" } else { "" };
    format!("{limits}; pinned: {pins}{wait}")
}

/// Why each group of a window is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// A decision for each group, with its reason.
    pub plan: Plan,
    /// For each decision of the plan, the entries of its group; none for the preamble.
    pub entries: Vec<Vec<Range<Position>>>,
}

/// The least number of entries between two checkpoints. More where the window holds more messages, so that writing them
/// costs a constant share of what is written anyway.
const CHECKPOINT_EVERY: u64 = 64;

impl Engine {
    /// An empty conversation.
    pub fn new(settings: Settings) -> Self {
        Engine::resume(settings, View::default(), 0, 0)
    }

    /// A conversation that goes on: `view` is the fold of its first `end` entries, the last `since_checkpoint` of which came
    /// after a checkpoint.
    pub fn resume(settings: Settings, view: View, end: Position, since_checkpoint: u64) -> Self {
        let policy = settings.resolved(&settings.policy);
        Engine { settings, policy, view, end, since_checkpoint, summary_pending: false }
    }

    /// Goes on by another policy. What an earlier one has dropped stays dropped; what one in the mode `on_read` has left out, a larger one
    /// shows again.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = self.settings.resolved(&policy);
        self.settings.policy = policy;
    }

    /// What it works by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the model would see now.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// How many entries the log has, all those given out included.
    pub fn end(&self) -> Position {
        self.end
    }

    /// A message of the client's arrives.
    ///
    /// # Errors
    /// Where the message came in another dialect, or was built in Rust, and this one cannot say something of it.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) -> Result<Vec<Entry>, ConversionError> {
        self.receive(message, Origin::Client, None)
    }

    /// A message arrives.
    ///
    /// # Errors
    /// As [`Engine::push`].
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

    /// Which system messages a message takes the place of, and whether it stands first; `None` where it is ignored, since it says
    /// what the one that stands says.
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

    /// The system prompt and tools that stand outside the messages. The same again changes nothing.
    ///
    /// Signed reasoning holds only under what it was made under, so a change takes it from the turns that are done.
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

    /// Takes signed reasoning away that was made under another preamble; from an open tool loop, when that is done.
    fn take_outdated(&mut self, entries: &mut Vec<Entry>) {
        if !self.view.outdated() || candidates::is_bound(&self.view, self.sizing()) {
            return;
        }
        let candidates = Candidates::of(&self.view, self.sizing());
        let plan = candidates.keep_all();
        let compaction = candidates.carry_out(&self.view, &plan);
        self.record(Entry::Compaction(compaction), entries);
    }

    /// Another writes what follows, or under other tags. The same again changes nothing.
    pub fn label(&mut self, label: Label) -> Vec<Entry> {
        let mut entries = Vec::new();
        if *self.view.label() != label {
            self.record(Entry::Label(label), &mut entries);
        }
        entries
    }

    /// The provider reported what a call had cost, in input tokens, cached ones included. `estimated` is what
    /// [`View::totals`] said of the window that was sent.
    pub fn usage(&mut self, model: &str, estimated: u64, reported: u64) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.record(Entry::Usage(UsageReport { model: model.to_owned(), estimated, reported }), &mut entries);
        entries
    }

    /// Tokens of a window, corrected by what the provider has reported.
    pub fn tokens(&self, view: &View) -> u64 {
        self.calibration().apply(view.totals().size.tokens)
    }

    /// A model call is about to be made: repairs what cannot be sent, and compacts where a limit is exceeded.
    ///
    /// Where nothing is exceeded this costs the same however long the window is.
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

    /// What could be sent now: the view with what is wrong in it mended, where there is something. Nothing is recorded, so a call that
    /// waits for its result goes on waiting; and no limit is looked at.
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

    /// The window by the limits as they are, for those who look at a conversation in the middle of a turn: the calls that the newest message
    /// makes are shown as they are, with no stand-ins for the results that they wait for. Whatever else is wrong is mended. Nothing is recorded.
    ///
    /// Where no call waits, it is the window that a policy in the mode `on_read` gives.
    ///
    /// ```
    /// use lookback_core::{Engine, Limits, Message, Policy, Settings, ToolCall};
    ///
    /// let policy = Policy { limits: Limits::messages(2), ..Policy::default() };
    /// let mut engine = Engine::new(Settings { policy, ..Settings::default() });
    /// engine.push(Message::user("What is in notes.txt?"))?;
    /// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
    /// assert_eq!(engine.glance().messages().count(), 2);
    /// // A call that nobody will answer any more has a stand-in.
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

    /// Whether the window can be sent as it is.
    fn needs_nothing(&self) -> bool {
        self.is_mended() && !self.exceeds()
    }

    /// Whether nothing in the view would be refused.
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
        // Last, since a compaction may change what the request ends with.
        if let Some(repair) = self.trim(&self.view) {
            self.record(Entry::Repair(repair), &mut outcome.entries);
        }
        outcome
    }

    /// What the window amounts to, as the policy counts it.
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

    /// The limits of the policy that a view of this conversation exceeds, as the policy counts: tokens corrected by what was reported.
    pub fn over(&self, view: &View) -> Vec<Excess> {
        self.policy.limits.excesses(&self.counted(view)).collect()
    }

    /// Whether a limit that is looked at now is exceeded.
    fn exceeds(&self) -> bool {
        let totals = self.totals();
        let due = match self.policy.pace {
            Pace::Call => true,
            // Between turns, too: it is never looser than a pace of turns.
            Pace::Calls(calls) => !self.view.in_turn() || (self.view.round() + 1).is_multiple_of(calls.max(1)),
            Pace::Turn => !self.view.in_turn(),
        };
        // A share of the model's window is what must not be waited for.
        let shares = self.settings.policy.limits.tokens.filter(|tokens| matches!(tokens, Tokens::Share(_)));
        let shares = Limits { tokens: shares.and(self.policy.limits.tokens), ..Limits::default() };
        (due && !self.policy.limits.fits(&totals)) || !shares.fits(&totals) || !self.fits_hard(&totals)
    }

    fn fits_hard(&self, totals: &Totals) -> bool {
        self.policy.hard.unwrap_or_default().fits(totals)
    }

    /// Whether a limit that is exceeded has to wait: for a summary that is being made, or for the end of a tool loop with signed
    /// reasoning, which goes on for some calls yet: sizing everything anew for each of them would be for nothing.
    fn waits(&self) -> bool {
        self.fits_hard(&self.totals()) && (self.summary_pending || self.is_bound())
    }

    /// Whether signed reasoning of an open tool loop forbids any change, and the request does not ask the provider to drop it.
    fn is_bound(&self) -> bool {
        !self.policy.drop_block && candidates::is_bound(&self.view, self.sizing())
    }

    /// The plan for the window as it is, whether or not a limit is exceeded: why each group is where it is, with the entries
    /// that it is made of (none for the system prompt and tools outside the messages).
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

    /// Writes a checkpoint, from which a reader can start.
    pub fn checkpoint(&mut self, entries: &mut Vec<Entry>) {
        let checkpoint = self.view.checkpoint();
        self.record(Entry::Checkpoint(checkpoint), entries);
        self.since_checkpoint = 0;
    }
}
