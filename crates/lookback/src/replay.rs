//! Replaying a recorded conversation: what each model call would have seen, and what it would have cost.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_core::cut::{self, Change, Edit};
use lookback_core::dialect::Severity;
use lookback_core::group::Pin;
use lookback_core::measure;
use lookback_core::message::Role;
use lookback_core::plan::{Action, Decision, Reason, Verdict};
use lookback_core::policy::Excess;
use lookback_core::tokens::TokenCounter;
use lookback_core::transcript::{Compaction, Entry, Millis, Origin, Position};
use lookback_core::view::Item;
use lookback_core::{Dialect, Request, Settings};
use serde::Serialize;

use crate::cache::{Block, Cache, Charge};
use crate::identifiers::identifiers;
use crate::prices::Price;
use crate::recording::{RecordedMessage, RecordedUsage, Recording};
use crate::session::{Error, Session, Window, now};
use crate::store::{LogName, MemoryStore, Record, Store, StoreError};

/// The figures of a replay. The fields are those of the command line's JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// The name of the transcript; `total` for the sum of several.
    pub id: String,
    /// The policy, as it was given.
    pub policy: String,
    /// The number of model calls.
    pub calls: u64,
    /// Input tokens, including system prompts and tools.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_write_tokens: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub uncached_tokens: u64,
    /// The cost of the input, in US dollars.
    pub cost: f64,
    /// Calls, from the second on, that do not extend the call before.
    pub prefix_breaks: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The tokens of the largest window.
    pub max_window_tokens: u64,
    /// Requests that break a rule of the provider.
    pub invalid_requests: u64,
    /// Calls whose window exceeded a limit of the policy, because what was left is pinned or has to wait.
    pub over_limit_calls: u64,
    /// Identifiers in the model's next message that were in its history.
    pub reused_identifiers: u64,
    /// Identifiers among these that were no longer in its window.
    pub missed_identifiers: u64,
    /// What the provider reported when the conversation took place, if that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// Whether the replay was stopped early. The figures are those of the calls before.
    #[serde(skip_serializing_if = "is_false")]
    pub cut_short: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What the provider reported about calls, beside what the replay computed for the same calls.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Reported {
    /// The number of calls with a report.
    pub calls: u64,
    /// Input tokens, including cached ones.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_write_tokens: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub uncached_tokens: u64,
    /// What the input cost at the prices of the replay, in US dollars.
    pub cost: f64,
    /// Input tokens of the same calls in the replay.
    pub replayed_tokens: u64,
    /// The cost of the same calls in the replay, in US dollars.
    pub replayed_cost: f64,
}

impl Reported {
    fn of(usage: &RecordedUsage, price: &Price, replayed: &Charge) -> Reported {
        #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let tokens = |count: u64, times: f64| count as f64 * times;
        let weighted =
            tokens(usage.input, 1.0) + tokens(usage.cache_write, price.write) + tokens(usage.cache_read, price.read);
        Reported {
            calls: 1,
            sent_tokens: usage.sent(),
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            uncached_tokens: usage.input,
            cost: weighted * price.input / 1e6,
            replayed_tokens: replayed.sent(),
            replayed_cost: replayed.cost,
        }
    }

    fn add(&mut self, other: &Reported) {
        self.calls += other.calls;
        self.sent_tokens += other.sent_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.uncached_tokens += other.uncached_tokens;
        self.cost += other.cost;
        self.replayed_tokens += other.replayed_tokens;
        self.replayed_cost += other.replayed_cost;
    }
}

impl Report {
    /// Adds another report to this one.
    pub fn add(&mut self, other: &Report) {
        self.calls += other.calls;
        self.sent_tokens += other.sent_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.uncached_tokens += other.uncached_tokens;
        self.cost += other.cost;
        self.prefix_breaks += other.prefix_breaks;
        self.compactions += other.compactions;
        self.max_window_tokens = self.max_window_tokens.max(other.max_window_tokens);
        self.invalid_requests += other.invalid_requests;
        self.reused_identifiers += other.reused_identifiers;
        self.missed_identifiers += other.missed_identifiers;
        self.over_limit_calls += other.over_limit_calls;
        self.cut_short |= other.cut_short;
        if let Some(reported) = &other.reported {
            self.reported.get_or_insert_default().add(reported);
        }
    }
}

/// One model call of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReplayedCall {
    /// The number of the call, from 1.
    pub number: u64,
    /// The index of the assistant message that answers it.
    pub message: usize,
    /// How many messages are in the window.
    pub messages: u64,
    /// What it costs.
    pub charge: Charge,
    /// What a compaction right before the call did to each group.
    pub groups: Groups,
    /// How many tool results were truncated as they arrived since the call before.
    pub capped: u64,
    /// How many stand-ins were added for missing results.
    pub repairs: u64,
    /// The limits of the policy that the window exceeded.
    pub over: Vec<Excess>,
    /// The largest pinned group, if the window exceeded a limit.
    pub pinned: Option<Pin>,
    /// What the provider reported about the call, if that was recorded.
    pub reported: Option<Reported>,
}

/// A replay: its figures, and the log of the session that it created.
#[derive(Debug)]
pub struct Replay {
    /// The figures.
    pub report: Report,
    records: Vec<Record>,
}

impl Replay {
    /// Saves the session in a store, in place of a session with this name. That session's facts stay.
    ///
    /// The log is written in one piece. So if others save a replay under the same name at the same time, the store has
    /// the whole of one of them.
    ///
    /// Returns `false`, and saves nothing, if the replay was cut short.
    ///
    /// # Errors
    /// Returns an error if the store fails, or if others keep writing under the name.
    pub async fn save(self, store: &dyn Store, name: &LogName) -> Result<bool, StoreError> {
        const TRIES: usize = 10;
        if self.report.cut_short {
            return Ok(false);
        }
        for _ in 0..TRIES {
            // Facts are not replayed, so they stay.
            store.delete(&name.summary_of()).await?;
            store.delete(name).await?;
            match store.append(name, 0, self.records.clone(), now()).await {
                Err(StoreError::Conflict { .. }) => {}
                saved => return saved.map(|()| true),
            }
        }
        Err(StoreError::Overtaken { log: name.to_string(), tries: TRIES })
    }
}

/// Estimates the tokens of a system prompt and tools that were not recorded: what the provider reported for the first
/// call, minus the messages before it.
///
/// Returns `None` if the recording contains them, or if nothing was reported.
///
/// ```
/// use lookback::{Recording, replay, tokens::Estimate};
///
/// let text = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],
///     "usage":[{"message":1,"input":3,"cache_write":8000,"cache_read":0,"output":2}]}"#;
/// let recordings = Recording::read(text, "chat", None)?;
/// let unrecorded = replay::unrecorded(&recordings[0], &Estimate::default());
/// assert!(unrecorded.is_some_and(|tokens| (7_990..8_003).contains(&tokens)));
/// # Ok::<(), lookback::recording::RecordingError>(())
/// ```
pub fn unrecorded(recording: &Recording, counter: &dyn TokenCounter) -> Option<u64> {
    let first = recording.usage.iter().min_by_key(|usage| usage.message)?;
    if recording.preamble.system.is_some() || recording.preamble.tools.is_some() {
        return None;
    }
    let before = recording.messages.iter().take(first.message);
    let messages = before.map(|recorded| measure(&recorded.message, &[], counter).tokens).fold(0, u64::saturating_add);
    first.sent().checked_sub(messages).filter(|tokens| *tokens > 0)
}

/// How many groups of a window a compaction kept, made smaller or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Groups {
    /// Kept unchanged.
    pub kept: u64,
    /// Kept with truncated tool results.
    pub truncated: u64,
    /// Kept with cleared tool results or pictures.
    pub cleared: u64,
    /// Merged into the running summary.
    pub summarized: u64,
    /// Dropped.
    pub dropped: u64,
}

impl Groups {
    fn of<'a>(compactions: impl Iterator<Item = &'a Compaction>) -> Groups {
        let mut groups = Groups::default();
        for outcome in compactions.flat_map(|compaction| &compaction.groups) {
            groups.count(outcome.decision.action, outcome.count as u64);
        }
        groups
    }

    fn count(&mut self, action: Action, groups: u64) {
        match action {
            Action::Keep => self.kept += groups,
            Action::Truncate => self.truncated += groups,
            Action::Clear => self.cleared += groups,
            Action::Summarize => self.summarized += groups,
            Action::Drop => self.dropped += groups,
        }
    }
}

/// Replays a recording into a session, with a model call before each assistant message, unless it is the first message.
/// The session is in memory until it is [saved](Replay::save).
///
/// `unrecorded` are the tokens of a system prompt and tools that the recording does not contain (see [`unrecorded`]).
/// They are sent and paid for with each call, and count against no limit. `on_call` is called after each call, and can
/// stop the replay.
///
/// # Errors
/// Returns an error if a window exceeds a hard limit.
pub async fn replay(
    recording: &Recording,
    settings: Settings,
    price: &Price,
    unrecorded: u64,
    on_call: &mut (dyn FnMut(&ReplayedCall) -> ControlFlow<()> + Send),
) -> Result<Replay, Error> {
    let dialect = settings.dialect;
    let store = Arc::new(MemoryStore::new());
    // Summaries run at once, so that each is there at the next call, however slow the machine.
    let mut session = Session::open(store.clone(), "replay", settings).await?.with_spawner(block_on);
    session.set_preamble(&recording.preamble).await?;
    let mut cache = Cache::new(price.clone());
    let mut seen = Seen::default();
    seen.set_preamble(&recording.preamble);
    let reported: HashMap<usize, &RecordedUsage> = recording.usage.iter().map(|usage| (usage.message, usage)).collect();
    let mut report = Report { id: recording.id.clone(), ..Report::default() };
    let mut now: Option<Millis> = None;
    let mut capped = 0;
    for (index, RecordedMessage { message, time }) in recording.messages.iter().enumerate() {
        now = time.or(now);
        if index > 0 && message.role() == Role::Assistant {
            let window = session.window().await?;
            let charge = cache.call(&with_unrecorded(unrecorded, blocks(&window)), now);
            report.calls += 1;
            let call = ReplayedCall {
                capped: std::mem::take(&mut capped),
                reported: reported.get(&index).map(|usage| Reported::of(usage, price, &charge)),
                ..call(&window, report.calls, index, charge)
            };
            let compacted = window.entries().iter().any(|entry| matches!(entry, Entry::Compaction(_)));
            let on_read = !compacted && window.plan().is_some_and(|plan| plan.verdict == Verdict::Compact);
            report.compactions += u64::from(compacted || on_read);
            report.sent_tokens += charge.sent();
            report.cache_read_tokens += charge.read;
            report.cache_write_tokens += charge.written;
            report.uncached_tokens += charge.uncached;
            report.cost += charge.cost;
            report.prefix_breaks += u64::from(charge.breaks);
            report.max_window_tokens = report.max_window_tokens.max(charge.sent());
            report.invalid_requests += u64::from(!is_valid(dialect, &window)?);
            report.over_limit_calls += u64::from(!call.over.is_empty());
            if let Some(reported) = &call.reported {
                report.reported.get_or_insert_default().add(reported);
            }
            let (reused, missed) = seen.compare(&message.text(), &window);
            report.reused_identifiers += reused;
            report.missed_identifiers += missed;
            if on_call(&call).is_break() {
                report.cut_short = true;
                break;
            }
        }
        let position = session.stats().entries;
        session.receive(message.clone(), Origin::Client, now).await?;
        seen.push(position, &message.text());
        let cut = |edit: &Edit| matches!(edit.change, Change::Cut { .. });
        let newest = session.view().messages().next_back().filter(|item| item.position() >= position);
        capped += u64::from(newest.is_some_and(|item| item.edits().iter().any(cut)));
    }
    let records = store.records(session.name());
    Ok(Replay { report, records })
}

/// Puts a block for the unrecorded tokens before the others.
fn with_unrecorded(tokens: u64, blocks: Vec<Block>) -> Vec<Block> {
    let unrecorded = (tokens > 0).then_some(Block { digest: u128::MAX - 1, tokens, fixed: true });
    unrecorded.into_iter().chain(blocks).collect()
}

fn call(window: &Window<'_>, number: u64, message: usize, charge: Charge) -> ReplayedCall {
    let compactions = window.entries().iter().filter_map(|entry| match entry {
        Entry::Compaction(compaction) => Some(compaction),
        _ => None,
    });
    let repairs = window.entries().iter().filter(|entry| matches!(entry, Entry::Repair(_))).count() as u64;
    let messages = window.view().totals().size.messages;
    let over = window.over().to_vec();
    let pinned = |decision: &Decision| match decision.reason {
        Reason::Pinned { pin } => Some((decision.after.tokens, pin)),
        _ => None,
    };
    let decisions = window.plan().filter(|_| !over.is_empty()).map(|plan| &plan.decisions);
    let pinned = decisions.into_iter().flatten().filter_map(pinned).max_by_key(|(tokens, _)| *tokens);
    let groups = Groups::of(compactions);
    let pinned = pinned.map(|(_, pin)| pin);
    ReplayedCall { number, message, messages, charge, groups, capped: 0, repairs, over, pinned, reported: None }
}

/// Returns whether the provider would accept the window. The bytes to be sent are read again and checked.
fn is_valid(dialect: Dialect, window: &Window<'_>) -> Result<bool, Error> {
    let Ok(request) = Request::from_raw(dialect, &window.messages()?) else { return Ok(false) };
    Ok(!dialect.check(&request).iter().any(|finding| finding.severity == Severity::Refused))
}

/// Returns the blocks that a cache sees of a window: the preamble, then message by message. The digest of a message is
/// made of its position and its edits, which determine its bytes. The digest of the preamble is [`u128::MAX`].
pub fn blocks(window: &Window<'_>) -> Vec<Block> {
    let view = window.view();
    let items = view.messages().map(|item| item.size().tokens).sum::<u64>();
    let preamble = view.totals().size.tokens - items;
    let mut blocks = Vec::new();
    if preamble > 0 {
        blocks.push(Block { digest: u128::MAX, tokens: preamble, fixed: true });
    }
    let mut leading = true;
    for item in view.messages() {
        leading &= item.message().role() == Role::System;
        blocks.push(Block { digest: shown_as(item), tokens: item.size().tokens, fixed: leading });
    }
    blocks
}

fn shown_as(item: &Item) -> u128 {
    if item.is_own() {
        // If nothing is recorded, another stand-in may have had this position.
        return item.message().digest();
    }
    let position = u128::from(item.position());
    if item.edits().is_empty() {
        return position;
    }
    let edits = serde_json::to_vec(item.edits()).unwrap_or_default();
    lookback_core::view::chain(
        position,
        edits.iter().fold(0, |hash: u128, byte| {
            hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B) ^ u128::from(*byte)
        }),
    )
}

/// The identifiers of a history, and where each was.
#[derive(Default)]
struct Seen {
    numbers: HashMap<String, usize>,
    // The messages that contain each identifier.
    places: Vec<Vec<Position>>,
    in_preamble: HashSet<usize>,
    // The identifiers that edited messages show, by position and edits.
    edited: HashMap<u128, HashSet<usize>>,
}

impl Seen {
    fn set_preamble(&mut self, preamble: &lookback_core::Preamble) {
        for raw in [&preamble.system, &preamble.tools].into_iter().flatten() {
            for word in identifiers(raw.get()) {
                let number = self.number(word);
                self.in_preamble.insert(number);
            }
        }
    }

    fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.places.len();
        self.numbers.insert(word.to_owned(), number);
        self.places.push(Vec::new());
        number
    }

    fn push(&mut self, position: Position, text: &str) {
        for word in identifiers(text) {
            let number = self.number(word);
            if let Some(places) = self.places.get_mut(number).filter(|places| places.last() != Some(&position)) {
                places.push(position);
            }
        }
    }

    /// Counts the identifiers in the model's next message that were in its history, and those of them that were not in
    /// its window.
    fn compare(&mut self, next: &str, window: &Window<'_>) -> (u64, u64) {
        let words: HashSet<usize> = identifiers(next).filter_map(|word| self.numbers.get(word).copied()).collect();
        let reused: Vec<usize> = words
            .into_iter()
            .filter(|word| {
                self.in_preamble.contains(word) || self.places.get(*word).is_some_and(|places| !places.is_empty())
            })
            .collect();
        let mut whole = HashSet::new();
        let mut edited = Vec::new();
        for item in window.view().messages() {
            if item.edits().is_empty() {
                whole.insert(item.position());
            } else {
                edited.push(item);
            }
        }
        let missing = |word: &&usize| {
            !self.in_preamble.contains(word)
                && !self.places.get(**word).is_some_and(|places| places.iter().rev().any(|place| whole.contains(place)))
        };
        let mut missed: Vec<usize> = reused.iter().filter(missing).copied().collect();
        for item in edited {
            if missed.is_empty() {
                break;
            }
            let key = shown_as(item);
            let numbers = &self.numbers;
            let shown = self.edited.entry(key).or_insert_with(|| {
                let text = cut::shown_text(item.message(), item.edits());
                identifiers(&text).filter_map(|word| numbers.get(word).copied()).collect()
            });
            missed.retain(|word| !shown.contains(word));
        }
        (reused.len() as u64, missed.len() as u64)
    }
}
