//! One conversation in memory: takes messages in, gives windows out, and hands back the entries that a log must keep.

use std::ops::Range;
use std::sync::Arc;

use crate::cut::{self, Change, Cut, Edit};
use crate::dialect::{Dialect, Frame, Loss};
use crate::group::{Kind, Pin};
use crate::message::{Content, Message, PartRef, ResultItem, ToolResult, UserPart};
use crate::plan::{Action, Plan, Reason, Verdict, plan_for};
use crate::policy::{Excess, Mode, Policy, Start, Totals};
use crate::record::{self, Sizing};
use crate::tokens::{Estimate, Size, TokenCounter, measure};
use crate::transcript::{Arrival, Entry, Millis, Origin, Position, Repair, Usage};
use crate::view::View;

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
}

impl Default for Settings {
    /// OpenAI's format, the default policy, estimated tokens, and a model of which nothing is known.
    fn default() -> Self {
        Settings {
            dialect: Dialect::default(),
            policy: Policy::default(),
            counter: Arc::new(Estimate::default()),
            model: None,
            model_window: None,
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
/// let decided = engine.window();
/// assert!(decided.refusal.is_none());
/// let texts: Vec<_> = engine.view().messages().map(|item| item.message().text()).collect();
/// assert_eq!(texts, ["two", "three"]);
/// # Ok::<(), lookback_core::Loss>(())
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    settings: Settings,
    /// The policy with the model's window and the provider's demands worked in.
    policy: Policy,
    view: View,
    end: Position,
    since_checkpoint: u64,
}

/// What a call for a window came to.
#[derive(Debug, Clone, Default)]
pub struct Decided {
    /// What the log must keep: repairs, a compaction, a checkpoint.
    pub entries: Vec<Entry>,
    /// The plan, where a limit was exceeded.
    pub plan: Option<Plan>,
    /// Why nothing may be sent, where nothing may.
    pub refusal: Option<Refusal>,
    /// The window of a policy that records nothing; absent, it is [`Engine::view`].
    pub on_read: Option<Box<View>>,
}

/// A hard limit that no plan meets: the values of an error that names what is in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the window exceeds its hard limit: {}", describe(.excesses, .pinned, *.waits))]
pub struct Refusal {
    /// The limits.
    pub excesses: Vec<Excess>,
    /// What is pinned, and how large it is.
    pub pinned: Vec<(Pin, Size)>,
    /// Whether a compaction would help, but signed reasoning of an open tool loop forbids it.
    pub waits: bool,
}

fn describe(excesses: &[Excess], pinned: &[(Pin, Size)], waits: bool) -> String {
    let excess = |e: &Excess| format!("{} {} where {} may be", e.actual, e.measure, e.limit);
    let pin = |(pin, size): &(Pin, Size)| format!("{pin} ({} tokens)", size.tokens);
    let limits = excesses.iter().map(excess).collect::<Vec<_>>().join(", ");
    let pins = pinned.iter().map(pin).collect::<Vec<_>>().join(", ");
    let wait = if waits { "; signed reasoning of the open tool loop forbids a compaction" } else { "" };
    format!("{limits}; pinned: {pins}{wait}")
}

/// The least number of entries between two checkpoints. More where the window holds more messages, so that writing them
/// costs a constant share of what is written anyway.
const CHECKPOINT_EVERY: u64 = 64;

/// What stands in for the result of a tool call that has none.
const STAND_IN: &str = "[No result: the tool call was interrupted.]";
/// What a request begins with where the provider demands a user's message and the history has none.
const OPENING: &str = "[The conversation begins with the assistant.]";

impl Engine {
    /// An empty conversation.
    pub fn new(settings: Settings) -> Self {
        Engine::resume(settings, View::default(), 0, 0)
    }

    /// A conversation that goes on: `view` is the fold of its first `end` entries, the last `since_checkpoint` of which came
    /// after a checkpoint.
    pub fn resume(settings: Settings, view: View, end: Position, since_checkpoint: u64) -> Self {
        let mut policy = settings.policy.for_window(settings.model_window);
        policy.start = policy.start.max(settings.dialect.quirks().start);
        Engine { settings, policy, view, end, since_checkpoint }
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
    pub fn push(&mut self, message: Message) -> Result<Vec<Entry>, Loss> {
        self.receive(message, Origin::Client, None)
    }

    /// A message arrives.
    ///
    /// # Errors
    /// As [`Engine::push`].
    pub fn receive(&mut self, message: Message, origin: Origin, time: Option<Millis>) -> Result<Vec<Entry>, Loss> {
        let dialect = self.settings.dialect;
        let same = message.wire().is_some_and(|wire| wire.dialect == dialect);
        let messages = if same { vec![message] } else { dialect.convert(&message)? };
        let mut entries = Vec::with_capacity(messages.len());
        for message in messages {
            let counter = &*self.settings.counter;
            let mut edits = self.view.admit(&message, dialect);
            if let Some(cap) = &self.policy.arrival {
                for (part, result) in message.tool_results() {
                    let cuts = cut::truncate_result(result, cap, counter);
                    edits.extend(cuts.into_iter().map(|(item, cut)| Edit { part, change: Change::Cut { item, cut } }));
                }
            }
            let size = measure(&message, &edits, counter);
            let digest = message.digest();
            self.record(Entry::Message(Arrival { message, origin, edits, size, digest, time }), &mut entries);
        }
        self.checkpoint_if_due(&mut entries);
        Ok(entries)
    }

    /// The system prompt and tools that stand outside the messages. The same again changes nothing.
    ///
    /// Signed reasoning holds only under what it was made under, so a change takes it from the turns that are done.
    pub fn frame(&mut self, frame: &Frame) -> Vec<Entry> {
        let mut entries = Vec::new();
        let none = Frame::default();
        if frame.is_same(self.view.frame().unwrap_or(&none)) {
            return entries;
        }
        let size = frame.measure(&*self.settings.counter);
        self.record(Entry::Frame { frame: frame.clone(), size }, &mut entries);
        self.take_outdated(&mut entries);
        entries
    }

    /// Takes signed reasoning away that was made under another frame; from an open tool loop, when that is done.
    fn take_outdated(&mut self, entries: &mut Vec<Entry>) {
        if !self.view.outdated() || record::is_bound(&self.view, self.sizing()) {
            return;
        }
        let candidates = record::candidates(&self.view, self.sizing());
        let mut plan = plan_for(&candidates.groups, &Policy::default(), crate::policy::Start::Any);
        for (decision, group) in plan.decisions.iter_mut().zip(&candidates.groups) {
            decision.after = group.base;
            if group.is_stale() {
                (decision.action, decision.reason) = (Action::Drop, Reason::Stale);
            }
        }
        let left = candidates.groups.iter().filter(|group| !group.is_stale());
        plan.after = Totals::of(left.map(|group| (group, group.base)));
        let compaction = candidates.carry_out(&self.view, &plan);
        self.record(Entry::Compaction(compaction), entries);
    }

    /// The provider reported what a call had cost, in input tokens, cached ones included. `estimated` is what
    /// [`View::totals`] said of the window that was sent.
    pub fn usage(&mut self, model: &str, estimated: u64, reported: u64) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.record(Entry::Usage(Usage { model: model.to_owned(), estimated, reported }), &mut entries);
        entries
    }

    /// Tokens of a window, corrected by what the provider has reported.
    pub fn tokens(&self, view: &View) -> u64 {
        self.calibration().apply(view.totals().size.tokens)
    }

    /// A model call is about to be made: repairs what cannot be sent, and compacts where a limit is exceeded.
    ///
    /// Where nothing is exceeded this costs the same however long the window is.
    pub fn window(&mut self) -> Decided {
        let mut decided = self.decide();
        // Last, since a compaction may change what the request ends with.
        if let Some(view) = &mut decided.on_read {
            if let Some(repair) = self.trim(view) {
                view.apply(self.end, &Entry::Repair(repair));
            }
        } else if let Some(repair) = self.trim(&self.view) {
            self.record(Entry::Repair(repair), &mut decided.entries);
        }
        decided
    }

    fn decide(&mut self) -> Decided {
        let mut decided = Decided::default();
        self.repair(&mut decided.entries);
        self.take_outdated(&mut decided.entries);
        let mut totals = self.view.totals();
        totals.size.tokens = self.calibration().apply(totals.size.tokens);
        let hard = self.policy.hard.unwrap_or_default();
        if self.policy.limits.fits(&totals) && hard.fits(&totals) {
            return decided;
        }
        if !self.policy.drop_block && hard.fits(&totals) && record::is_bound(&self.view, self.sizing()) {
            // The loop goes on for some calls yet: sizing everything anew for each of them would be for nothing.
            return decided;
        }
        let candidates = record::candidates(&self.view, self.sizing());
        let plan = plan_for(&candidates.groups, &self.policy, self.settings.dialect.quirks().start);
        match plan.verdict {
            Verdict::Keep | Verdict::Wait => {}
            Verdict::Refuse => {
                let pinned = candidates.groups.iter().filter_map(|group| Some((group.pin?, group.base))).collect();
                let waits = candidates.groups.iter().any(|group| group.binds) && !self.policy.drop_block;
                decided.refusal = Some(Refusal { excesses: plan.over.clone(), pinned, waits });
            }
            Verdict::Compact => {
                let entry = Entry::Compaction(candidates.carry_out(&self.view, &plan));
                match self.policy.mode {
                    Mode::Recorded => {
                        self.record(entry, &mut decided.entries);
                        // Where all that was kept is stale reasoning, nothing is left to begin with.
                        self.repair(&mut decided.entries);
                        self.checkpoint_if_due(&mut decided.entries);
                    }
                    Mode::OnRead => {
                        let mut view = self.view.clone();
                        view.apply(self.end, &entry);
                        decided.on_read = Some(Box::new(view));
                    }
                }
            }
        }
        decided.plan = Some(plan);
        decided
    }

    /// The plan for the window as it is, whether or not a limit is exceeded: why each group is where it is, with the entries
    /// that it is made of (none for the system prompt and tools outside the messages).
    pub fn explain(&self) -> (Plan, Vec<Vec<Range<Position>>>) {
        let candidates = record::candidates(&self.view, self.sizing());
        let plan = plan_for(&candidates.groups, &self.policy, self.settings.dialect.quirks().start);
        (plan, candidates.spans(&self.view))
    }

    fn repair(&mut self, entries: &mut Vec<Entry>) {
        let dialect = self.settings.dialect;
        for call in self.view.open_calls() {
            if let Some(message) = stand_in(dialect, &call.id) {
                let size = measure(&message, &[], &*self.settings.counter);
                self.record(Entry::Repair(Repair::StandIn { call: call.position, message, size }), entries);
            }
        }
        let start = dialect.quirks().start;
        let first = self.view.groups().iter().find(|group| group.kind != Kind::System);
        let opens = match (first, start) {
            // Messages came, and nothing of them can be sent.
            (None, _) => self.view.history_len() > 0 && (start != Start::Any || self.view.groups().is_empty()),
            (Some(_), Start::Any) => false,
            (Some(first), Start::UserOrToolPair) => first.kind == Kind::Assistant,
            (Some(first), Start::User) => first.kind != Kind::User,
        };
        if let Some(message) = opens.then(|| own(dialect, &Message::user(OPENING))).flatten() {
            let size = measure(&message, &[], &*self.settings.counter);
            self.record(Entry::Repair(Repair::Opening { message, size }), entries);
        }
    }

    /// The request's last words without the white space at their end, where it ends with the model's.
    fn trim(&self, view: &View) -> Option<Repair> {
        if !self.settings.dialect.quirks().refuses_trailing_space {
            return None;
        }
        let item = view.messages().last()?;
        let part = item.message().ends_in_space(|part| !cut::is_hidden(item.edits(), part))?;
        if cut::cut_of(item.edits(), part, 0).is_some() {
            return None;
        }
        let PartRef::Text(text) = item.message().parts().nth(part)? else { return None };
        let edit = Edit { part, change: Change::Cut { item: 0, cut: Cut::trim_end(text)? } };
        let edits: Vec<_> = item.edits().iter().chain([&edit]).cloned().collect();
        let size = measure(item.message(), &edits, &*self.settings.counter);
        Some(Repair::Trim { message: item.position(), edit, size })
    }

    fn calibration(&self) -> crate::tokens::Calibration {
        self.settings.model.as_deref().map(|model| self.view.calibration(model)).unwrap_or_default()
    }

    fn sizing(&self) -> Sizing<'_> {
        Sizing {
            policy: &self.policy,
            counter: &*self.settings.counter,
            calibration: self.calibration(),
            start: self.settings.dialect.quirks().start,
        }
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

fn stand_in(dialect: Dialect, id: &str) -> Option<Message> {
    let content = vec![ResultItem::Text(STAND_IN.to_owned())];
    // OpenAI's format has no place to say that a result is an error.
    let error = dialect != Dialect::OpenAiChat;
    let result = ToolResult { call_id: id.to_owned(), content, error };
    own(dialect, &Message::new(Content::User(vec![UserPart::ToolResult(result)])))
}

/// A message of ours with its bytes.
fn own(dialect: Dialect, message: &Message) -> Option<Message> {
    dialect.convert(message).ok()?.into_iter().next()
}
