//! Building a timeline: reading a log entry by entry, and recording the window of each call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lookback_content::identifiers::identifiers;
use lookback_engine::plan::{Action, Reason};
use lookback_engine::transcript::{Arrival, Compaction, Entry, Position};
use lookback_engine::view::{Item, View};
use lookback_tokens::TokenCounter;
use lookback_wire::{dialect::Preamble, message::Message};
use serde_json::value::RawValue;

use super::order::Order;
use super::{Call, CompactionMark, ExceededLimit, Fate, Missed, Row, RowKind, SentPreamble, State, Timeline};
use crate::explain::{PastDecisions, hidden};
use crate::prices::Price;
use crate::receipt::{Ledger, Receipt};
use crate::replay::{Departures, Seen, said};

/// A timeline, up to the last entry that was read.
pub(crate) struct Builder<'a> {
    ledger: Ledger<'a>,
    seen: Seen,
    departures: Departures,
    timeline: Timeline,
    order: Order,
    /// The newest row of each message.
    known: HashMap<(Position, RowKind), usize>,
    /// The rows that the newest call sent.
    shown: HashSet<usize>,
    /// The messages that have arrived since that call.
    arrived: Vec<(Position, Arrival)>,
    /// The newest position of a row.
    newest: Position,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(price: &'a Price, counter: &'a dyn TokenCounter) -> Self {
        Builder {
            ledger: Ledger::new(price, counter),
            seen: Seen::default(),
            departures: Departures::default(),
            timeline: Timeline::default(),
            order: Order::default(),
            known: HashMap::new(),
            shown: HashSet::new(),
            arrived: Vec::new(),
            newest: 0,
        }
    }

    /// Begins at a checkpoint with this view, because contents before it were erased.
    pub(crate) fn begin(&mut self, at: Position, view: View) {
        for item in view.messages() {
            self.seen.push(item.position(), &said(item.message()));
        }
        self.ledger.begin(at, view);
    }

    /// Reads the next entry. Call [`Builder::go_back`] after a branch.
    pub(crate) fn read(&mut self, position: Position, entry: &Entry) {
        if let Entry::Message(arrival) = entry
            && self.ledger.follows_brought(arrival)
        {
            self.forget_calls();
        }
        let answer = match entry {
            Entry::Message(arrival) if self.ledger.is_answer(arrival) => Some(arrival),
            _ => None,
        };
        if answer.is_some() {
            self.record_window();
        }
        let missed = answer.map(|answer| self.missed(&answer.message));
        let (window, preamble) = (self.ledger.view().totals(), self.ledger.view().preamble_size());
        self.ledger.read(position, entry);
        if let (Some(answer), Some(missed), Some(receipt)) = (answer, missed, self.ledger.newest()) {
            let (receipt, time) = (*receipt, answer.time);
            self.timeline.calls.push(Call { receipt, time, window, preamble_tokens: preamble.tokens, missed });
        }
        match entry {
            Entry::Message(arrival) => {
                if let Some(wire) = arrival.message.wire() {
                    self.timeline.dialect = wire.dialect;
                }
                self.seen.push(position, &said(&arrival.message));
                self.departures.arrive(position, &arrival.message, &arrival.edits);
                self.arrived.push((position, arrival.clone()));
            }
            Entry::Compaction(compaction) => {
                self.departures.compact(position, compaction);
                let mark = mark(self.timeline.next_call(), position, compaction);
                self.timeline.compactions.push(mark);
            }
            // The view shows preambles and repairs, and the ledger handles the rest.
            _ => {}
        }
    }

    /// Forgets the calls so far, which nobody made here. Their messages belong to the next call.
    fn forget_calls(&mut self) {
        let Timeline { calls, rows, compactions, preambles, .. } = &mut self.timeline;
        calls.clear();
        for row in rows {
            let last = row.states.pop();
            row.states = last.map(|last| State { call: 1, ..last }).into_iter().collect();
        }
        compactions.iter_mut().for_each(|compaction| compaction.call = 1);
        preambles.drain(..preambles.len().saturating_sub(1));
        preambles.iter_mut().for_each(|sent| sent.call = 1);
    }

    /// Begins a branch that goes back to the entries before `end`, with this view.
    pub(crate) fn go_back(&mut self, end: Position, view: View) {
        self.seen.forget_from(end);
        self.departures.forget_from(end);
        self.ledger.go_back(end, view);
    }

    /// Returns the timeline of the entries that were read.
    pub(crate) fn timeline(mut self) -> Timeline {
        self.record_window();
        let mut rows: Vec<Option<Row>> = self.timeline.rows.into_iter().map(Some).collect();
        self.timeline.rows = self.order.rows().filter_map(|row| rows.get_mut(row)?.take()).collect();
        let Receipt { calls, total, since } = self.ledger.receipt();
        (self.timeline.total, self.timeline.since) = (total, since);
        // Usage reports that arrived after a call have corrected its receipt.
        for (call, receipt) in self.timeline.calls.iter_mut().zip(calls) {
            call.receipt = receipt;
        }
        self.timeline
    }

    /// Returns the names in an answer that were no longer in the window.
    fn missed(&mut self, answer: &Message) -> Vec<Missed> {
        let (view, whole) = self.ledger.shown();
        let reused = self.seen.compare(&said(answer), view, whole);
        let place = |name: String| {
            let position = self.seen.place(&name)?;
            let shows = |text: &str| identifiers(text).any(|word| word == name);
            let cause = self.departures.cause(position, view, shows);
            Some(Missed { name, position, cause })
        };
        let mut missed: Vec<Missed> = reused.missed.into_iter().filter_map(place).collect();
        missed.sort_by(|a, b| a.name.cmp(&b.name));
        missed
    }

    /// Records the window of the next call.
    fn record_window(&mut self) {
        let call = self.timeline.next_call();
        let new = self.ledger.new_messages();
        let view = self.ledger.view();
        let sent = view.preamble().cloned().unwrap_or_default();
        let before = self.timeline.preambles.last().map(|last| &*last.preamble);
        if !is_same(&sent, before.unwrap_or(&Preamble::default())) {
            self.seen.set_preamble(&sent);
            let size = view.preamble_size();
            self.timeline.preambles.push(SentPreamble { call, preamble: sent.into(), size });
        }
        // Messages before the new ones are shown as they were.
        let before = if new.is_some() { HashSet::new() } else { std::mem::take(&mut self.shown) };
        // From the end, so that a new row can be inserted before a known one.
        let mut behind: Option<usize> = None;
        for item in view.messages().rev().take(new.unwrap_or(usize::MAX)) {
            let kind = kind(view, item);
            let key = (item.position(), kind);
            let known = self.known.get(&key).copied();
            let in_place = known.filter(|row| behind.is_none_or(|behind| self.order.place(*row) < behind));
            let row = in_place.unwrap_or_else(|| {
                self.order.insert(behind);
                let row = self.timeline.rows.len();
                if let Some(known) = known {
                    leave(&mut self.timeline.rows, known, call, Fate::Moved);
                }
                let arrived = self.arrived.binary_search_by_key(&item.position(), |(position, _)| *position).ok();
                let arrival = arrived.and_then(|at| self.arrived.get(at)).map(|(_, arrival)| arrival);
                self.timeline.rows.push(Row {
                    position: item.position(),
                    kind,
                    message: item.shared().0,
                    time: arrival.and_then(|arrival| arrival.time),
                    tokens: item.size().tokens,
                    states: Vec::new(),
                });
                self.known.insert(key, row);
                self.newest = self.newest.max(item.position());
                row
            });
            behind = Some(self.order.place(row));
            self.shown.insert(row);
            let Some(row) = self.timeline.rows.get_mut(row) else { continue };
            let tokens = item.size().tokens;
            let is_same = |state: &State| state.is_shown && state.tokens == tokens && *state.edits == *item.edits();
            if !row.states.last().is_some_and(is_same) {
                let fate = fate(self.departures.past(), item);
                push(row, State { call, is_shown: true, fate, tokens, edits: item.shared().1 });
            }
        }
        let on_path = |position: Position| view.is_on_path(&(position..position + 1));
        for row in before.difference(&self.shown) {
            let Some(Row { position, kind, .. }) = self.timeline.rows.get(*row) else { continue };
            let fate = match self.departures.past().dropped(*position) {
                _ if !on_path(*position) => Fate::Abandoned,
                Some(decision) => Fate::Decided { action: decision.action, reason: decision.reason },
                None if matches!(kind, RowKind::Note) => Fate::Decided { action: Action::Drop, reason: Reason::Spent },
                None => Fate::Replaced,
            };
            leave(&mut self.timeline.rows, *row, call, fate);
        }
        for (position, arrival) in self.arrived.drain(..) {
            let key = [RowKind::Message, RowKind::Aside, RowKind::Note].map(|kind| (position, kind));
            if key.iter().any(|key| self.known.contains_key(key)) {
                continue;
            }
            // The message was never sent: no provider accepts it, or it left before the next call.
            let fate = match (self.departures.past().dropped(position), hidden(&arrival.edits)) {
                _ if !on_path(position) => Fate::Abandoned,
                (Some(decision), _) => Fate::Decided { action: decision.action, reason: decision.reason },
                (None, Some(why)) => Fate::Decided { action: Action::Drop, reason: Reason::Repaired { why } },
                (None, None) => Fate::Replaced,
            };
            let rows = &self.timeline.rows;
            let is_later = |row: usize| rows.get(row).is_some_and(|row| row.position > position);
            self.order.insert(if position < self.newest { self.order.find(is_later) } else { None });
            self.newest = self.newest.max(position);
            let mut row = Row {
                position,
                kind: RowKind::Message,
                message: arrival.message.clone(),
                time: arrival.time,
                tokens: arrival.size.tokens,
                states: Vec::new(),
            };
            push(&mut row, State { call, is_shown: false, fate, tokens: 0, edits: Arc::default() });
            self.known.insert((position, RowKind::Message), self.timeline.rows.len());
            self.timeline.rows.push(row);
        }
    }
}

/// Whether two preambles have the same bytes.
fn is_same(one: &Preamble, other: &Preamble) -> bool {
    let is_same = |one: &Option<Box<RawValue>>, other: &Option<Box<RawValue>>| {
        one.as_deref().map(RawValue::get) == other.as_deref().map(RawValue::get)
    };
    is_same(&one.system, &other.system) && is_same(&one.tools, &other.tools)
}

/// Adds a state. It replaces a state of the same call, which was never sent.
fn push(row: &mut Row, state: State) {
    if row.states.last().is_some_and(|last| last.call == state.call) {
        row.states.pop();
    }
    row.states.push(state);
}

/// Records that a row is not sent from a call on.
fn leave(rows: &mut [Row], row: usize, call: u64, fate: Fate) {
    if let Some(row) = rows.get_mut(row).filter(|row| row.states.last().is_some_and(|state| state.is_shown)) {
        push(row, State { call, is_shown: false, fate, tokens: 0, edits: Arc::default() });
    }
}

fn kind(view: &View, item: &Item) -> RowKind {
    if item.stands_for_others() {
        let is_index = view.index().is_some_and(|index| std::ptr::eq(&*index.message, item.message()));
        return if is_index { RowKind::Index } else { RowKind::Summary };
    }
    match (item.is_note(), item.is_own(), item.is_beside()) {
        (true, ..) => RowKind::Note,
        (_, true, _) => RowKind::Mend,
        (.., true) => RowKind::Aside,
        _ => RowKind::Message,
    }
}

/// Returns the fate of a message of the window.
fn fate(past: &PastDecisions, item: &Item) -> Fate {
    if let Some((action, reason)) = past.shortened(item, None) {
        return Fate::Decided { action, reason };
    }
    if item.edits().is_empty() { Fate::Whole } else { Fate::Repaired }
}

fn mark(call: u64, position: Position, compaction: &Compaction) -> CompactionMark {
    let limit = compaction.groups.iter().find_map(|group| match group.decision.reason {
        Reason::Exceeded { measure, actual, limit, target } => Some(ExceededLimit { measure, actual, limit, target }),
        _ => None,
    });
    let Compaction { occasion, before, after, .. } = compaction;
    CompactionMark { call, position, occasion: *occasion, limit, before: *before, after: *after }
}
