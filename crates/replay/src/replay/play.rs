//! Replaying a recording message by message, into a session in memory.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_content::identifiers::identifiers;
use lookback_engine::Settings;
use lookback_engine::plan::Verdict;
use lookback_engine::policy::{Caps, Mode, Policy};
use lookback_engine::transcript::{Entry, Millis, Position};
use lookback_engine::view::View;
use lookback_wire::edit::{Change, Edit};
use lookback_wire::message::{Message, Role};

use super::causes::is_shown;
use super::comparable::said;
use super::identifiers::Seen;
use super::recalls::Recalls;
use super::rereads::Rereads;
use super::spans::Stretches;
use super::valid::Requests;
use super::{Departures, ReplayedCall, Report, Reported};
use crate::cache::{Cache, Tracked};
use crate::prices::Price;
use lookback_recordings::{RecordedUsage, Recording};
use lookback_session::Batch;
use lookback_session::RecordedMessage;
use lookback_session::SummaryOptions;
use lookback_session::adapter;
use lookback_session::{Error, Session, Window};
use lookback_store::{Append, LogName, MemoryStore, Record, Store, StoreError, now};

/// Replays a recording into a session, with a model call before each assistant message, unless it is the first message.
/// The session is in memory until it is [saved](Replay::save).
///
/// `unrecorded` is the number of tokens of a system prompt and tools that the recording does not contain. Each call sends
/// and pays for them, but they count against no limit. The model is assumed to have the tool `recall`. `on_call` is called after each call, and can stop the replay.
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
    watch(recording, settings, price, unrecorded, &mut |call, _| on_call(call)).await
}

/// Replays a recording as [`replay`] does, and also shows each call's window.
#[doc(hidden)]
pub async fn watch(
    recording: &Recording,
    settings: Settings,
    price: &Price,
    unrecorded: u64,
    on_call: &mut (dyn FnMut(&ReplayedCall, &Window<'_>) -> ControlFlow<()> + Send),
) -> Result<Replay, Error> {
    let store = Arc::new(MemoryStore::new());
    let dialect = settings.dialect;
    let caps = settings.policy.caps.map(|caps| Caps { without_recall: 1, ..caps });
    let policy = Policy { caps, ..settings.policy.clone() };
    let settings = settings.policy(policy);
    // Summaries are made synchronously, so that each is ready at the next call, regardless of the machine's speed.
    let session = Session::open(store.clone(), "replay", settings).await?;
    let mut session = session.with_summarizer(SummaryOptions::default().spawner(block_on));
    session.set_preamble(&recording.preamble).await?;
    let mut seen = Seen::default();
    seen.set_preamble(&recording.preamble);
    let mut stretches = Stretches::default();
    let preamble = [&recording.preamble.system, &recording.preamble.tools];
    preamble.into_iter().flatten().for_each(|raw| stretches.set_preamble(raw.get()));
    let mut player = Player {
        recording,
        session,
        cache: Cache::new(price.clone()),
        tracked: Tracked::after(unrecorded),
        price,
        reported: recording.usage.iter().map(|usage| (usage.message, usage)).collect(),
        cold: recording.cold_calls(),
        seen,
        stretches,
        departures: Departures::default(),
        recalls: Recalls::default(),
        rereads: Rereads::default(),
        requests: Requests::new(dialect),
        ends: Vec::new(),
        begins: Vec::new(),
        report: Report { id: recording.id.clone(), ..Report::default() },
        now: None,
        capped: 0,
    };
    for (index, recorded) in recording.messages.iter().enumerate() {
        player.now = recorded.time.or(player.now);
        let answers = index > 0 && recorded.message.role() == Role::Assistant;
        if answers && player.call(index, &recorded.message, on_call).await?.is_break() {
            player.report.cut_short = true;
            break;
        }
        player.receive(recorded).await?;
    }
    if !player.report.cut_short {
        player.check_suspects(&*store).await?;
    }
    player.report.invalid_requests = player.requests.refused();
    let records = store.records(player.session.name());
    Ok(Replay { report: player.report, records, begins: player.begins })
}

/// A replay: its figures, and the log of the session that it created.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The figures.
    pub report: Report,
    records: Vec<Record>,
    begins: Vec<Position>,
}

impl Replay {
    /// Returns the position of each message in the log.
    #[doc(hidden)]
    pub fn positions(&self) -> &[Position] {
        &self.begins
    }

    /// Saves the session in a store, and replaces a session with this name. The facts of that session stay.
    ///
    /// The log is written in one append. So if several replays are saved under the same name at the same time, the
    /// store has one of them completely.
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
            store.delete(&[name.summary_of(), name.clone()]).await?;
            match store.append(name, Append::new(0, self.records.clone()).time(now())).await {
                Err(StoreError::Conflict { .. }) => {}
                saved => return saved.map(|()| true),
            }
        }
        Err(StoreError::Overtaken { log: name.to_string(), tries: TRIES })
    }
}

/// The state of a replay in progress.
struct Player<'a> {
    recording: &'a Recording,
    session: Session,
    cache: Cache,
    /// The window as it was sent, and the messages that have arrived since.
    tracked: Tracked,
    price: &'a Price,
    /// The provider's usage reports, by the index of the message that answers the call.
    reported: HashMap<usize, &'a RecordedUsage>,
    /// The messages that answer a call for which the provider's cache was cold (see [`Recording::cold_calls`]).
    cold: HashSet<usize>,
    seen: Seen,
    stretches: Stretches,
    departures: Departures,
    recalls: Recalls,
    rereads: Rereads,
    /// The requests that were sent.
    requests: Requests,
    /// The end of the log at each of them.
    ends: Vec<Position>,
    /// The position of the first entry of each message.
    begins: Vec<Position>,
    report: Report,
    /// The time of the newest message that has one.
    now: Option<Millis>,
    /// The number of tool results that were truncated on arrival since the previous call.
    capped: u64,
}

impl Player<'_> {
    /// Makes the call that this message answers.
    async fn call(
        &mut self,
        index: usize,
        answer: &Message,
        on_call: &mut (dyn FnMut(&ReplayedCall, &Window<'_>) -> ControlFlow<()> + Send),
    ) -> Result<ControlFlow<()>, Error> {
        if self.cold.contains(&index) {
            self.cache.expire();
            adapter::cache_is_cold(&mut self.session);
        }
        let counter = self.session.settings().counter.clone();
        let is_on_read = self.session.settings().policy.mode == Mode::OnRead;
        let end = self.session.stats().entries;
        let window = self.session.window().await?;
        if is_on_read || !window.entries().is_empty() {
            self.tracked.change();
        }
        self.ends.push(end + window.entries().len() as u64);
        match is_on_read {
            true => self.requests.push_unlogged(&window.messages()?),
            false => self.requests.push(&window, self.tracked.new_messages())?,
        }
        let charge = self.tracked.call(window.view(), &mut self.cache, self.now);
        let mut call = ReplayedCall {
            capped: std::mem::take(&mut self.capped),
            rereads: self.rereads.count(answer, window.view()),
            reported: self.reported.get(&index).map(|usage| Reported::new(usage, self.price, &charge)),
            ..ReplayedCall::new(&window, self.report.calls + 1, index, charge)
        };
        self.report.count(&call);
        let mut compacted = false;
        for entry in window.entries() {
            if let Entry::Compaction(compaction) = entry {
                // The compaction comes after all messages: forgetting it means going back before the last one.
                self.departures.compact(self.begins.last().copied().unwrap_or_default(), compaction);
                compacted = true;
            }
        }
        let on_read = !compacted && window.plan().is_some_and(|plan| plan.verdict == Verdict::Compact);
        self.report.compactions += u64::from(compacted || on_read);
        if compacted || on_read {
            self.recalls.compact();
        }
        self.report.recall_cost += self.recalls.carry(&call.charge, self.price);
        let next = said(answer);
        let whole = self.tracked.whole(window.view());
        let reused = self.seen.compare(&next, window.view(), whole);
        let copied = self.stretches.compare(&next, window.view(), whole);
        self.report.reused_identifiers += reused.identifiers;
        self.report.missed_identifiers += reused.missed.len() as u64;
        self.report.copied_spans += copied.spans;
        self.report.missed_spans += copied.missed.len() as u64;
        self.report.calls_missing_identifiers += u64::from(!reused.missed.is_empty());
        let mut missed = Vec::new();
        for name in &reused.missed {
            let Some(position) = self.seen.place(name) else { continue };
            let shows = |text: &str| identifiers(text).any(|word| word == name);
            let cause = self.departures.cause(position, window.view(), shows);
            *self.report.missed_identifiers_by.entry(cause).or_default() += 1;
            *call.missed.entry(cause).or_default() += 1;
            missed.push((position, name.clone()));
        }
        for (span, position) in copied.missed {
            let cause = self.departures.cause(position, window.view(), |text| text.contains(span.as_str()));
            *self.report.missed_spans_by.entry(cause).or_default() += 1;
            *call.missed.entry(cause).or_default() += 1;
            missed.push((position, span));
        }
        if !missed.is_empty() {
            self.report.missed_calls += 1;
            let is_shown = |position| is_shown(window.view(), position);
            let text = |position| text(self.recording, &self.begins, position);
            let tokens = |page: &str| counter.text(page);
            let sent = call.charge.sent();
            self.report.recall_cost += self.recalls.recall(sent, &missed, is_shown, text, tokens, self.price);
        }
        Ok(on_call(&call, &window))
    }

    /// Checks suspected requests as they were sent.
    async fn check_suspects(&mut self, store: &dyn Store) -> Result<(), Error> {
        let numbers = self.requests.suspects();
        if numbers.is_empty() {
            return Ok(());
        }
        let ends: Vec<Position> = numbers.iter().filter_map(|number| self.ends.get(*number).copied()).collect();
        let target = adapter::engine(&self.session).target().clone();
        let (mut numbers, requests) = (numbers.into_iter(), &mut self.requests);
        let mut failed = None;
        let mut on_view = |view: &View| {
            if let Some(number) = numbers.next() {
                match view.encode(target.clone()) {
                    Ok(messages) => requests.check_again(number, &messages),
                    Err(error) => failed = Some(error),
                }
            }
        };
        adapter::each_view(store, self.session.name(), &ends, &mut on_view).await?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Appends a message to the session.
    async fn receive(&mut self, recorded: &RecordedMessage) -> Result<(), Error> {
        let position = self.session.stats().entries;
        self.begins.push(position);
        self.session.append(Batch::from(recorded.message.clone()).at(self.now)).await?;
        self.tracked.receive(position, self.session.view());
        let text = said(&recorded.message);
        self.seen.push(position, &text);
        self.stretches.push(position, &text);
        self.rereads.push(position, &recorded.message);
        let cut = |edit: &Edit| matches!(&edit.change, Change::Cut { cut, .. } if !cut.only_hides_numbers());
        let newest = self.session.view().messages().next_back().filter(|item| item.position() >= position);
        self.capped += u64::from(newest.is_some_and(|item| item.edits().iter().any(cut)));
        for item in self.session.view().messages().rev().take_while(|item| item.position() >= position) {
            let (message, edits) = item.shared();
            self.departures.arrive(item.position(), &message, &edits);
        }
        Ok(())
    }
}

/// Returns the text of the message that has this entry.
fn text(recording: &Recording, begins: &[Position], position: Position) -> String {
    let index = begins.partition_point(|begin| *begin <= position).checked_sub(1);
    let recorded = index.and_then(|index| recording.messages.get(index));
    recorded.map(|recorded| said(&recorded.message)).unwrap_or_default()
}
