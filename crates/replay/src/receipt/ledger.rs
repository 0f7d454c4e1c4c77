//! The ledger: reading a log entry by entry, and recording each call.

use std::collections::HashSet;

use lookback_engine::plan::Occasion;
use lookback_engine::transcript::{Arrival, Entry, Millis, Origin, Position, UsageReport};
use lookback_engine::view::View;
use lookback_tokens::TokenCounter;
use lookback_wire::message::Role;

use super::history::History;
use super::{CallReceipt, PrefixBreak, Receipt};
use crate::cache::{Cache, Charge, Tracked};
use crate::prices::Price;

/// The calls of a log, up to the last entry that was read.
pub(crate) struct Ledger<'a> {
    price: &'a Price,
    counter: &'a dyn TokenCounter,
    view: View,
    tracked: Tracked,
    cache: Cache,
    history: History,
    calls: Vec<CallReceipt>,
    /// The newest call, as simulated.
    newest: Option<Simulated>,
    /// What was reported for the next call.
    reported: Option<Reported>,
    /// The events since the previous call.
    since: Since,
    /// The newest time of a message.
    now: Option<Millis>,
    /// Whether Lookback has received an answer itself.
    has_answers: bool,
    /// The number of calls that may be a history that the client brought.
    brought: usize,
    /// The first entry of the receipt.
    began: Position,
}

/// The input tokens of a call that the provider reported, and those of them from its cache, if it reported them.
#[derive(Clone, Copy)]
struct Reported {
    input: u64,
    cached: Option<u64>,
}

/// A call before its correction.
#[derive(Clone, Copy)]
struct Simulated {
    with: Charge,
    without: Charge,
}

#[derive(Default)]
struct Since {
    /// Whether a message other than the answer has arrived.
    messages: bool,
    branch: bool,
    preamble: bool,
    repair: bool,
    /// The newest compaction, and its occasion, if it was made at lower limits than usual.
    compaction: Option<(Position, Option<Occasion>)>,
}

impl Since {
    /// Returns the most likely reason for the prefix break.
    fn reason(&self) -> PrefixBreak {
        if self.branch {
            PrefixBreak::Branch
        } else if self.compaction.is_some() {
            PrefixBreak::Compaction
        } else if self.preamble {
            PrefixBreak::Preamble
        } else if self.repair {
            PrefixBreak::Repair
        } else {
            PrefixBreak::Insertion
        }
    }
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(price: &'a Price, counter: &'a dyn TokenCounter) -> Self {
        Ledger {
            price,
            counter,
            view: View::default(),
            tracked: Tracked::default(),
            cache: Cache::new(price.clone()),
            history: History::new(price.clone()),
            calls: Vec::new(),
            newest: None,
            reported: None,
            since: Since::default(),
            now: None,
            has_answers: false,
            brought: 0,
            began: 0,
        }
    }

    /// Begins at a checkpoint with this view, because contents before it were erased.
    pub(crate) fn begin(&mut self, at: Position, view: View) {
        self.history.begin(&view);
        self.view = view;
        self.tracked.change();
        self.began = at;
    }

    /// Reads the next entry. Call [`Ledger::go_back`] after a branch.
    pub(crate) fn read(&mut self, position: Position, entry: &Entry) {
        if let Entry::Message(arrival) = entry {
            if self.follows_brought(arrival) {
                self.calls.clear();
            }
            let (is_answer, is_brought) = (self.is_answer(arrival), self.is_brought(arrival));
            self.now = arrival.time.or(self.now);
            self.has_answers |= arrival.origin == Origin::Model;
            if is_answer {
                self.brought += usize::from(is_brought);
                self.call(position, arrival);
            } else {
                self.since.messages = true;
            }
        }
        self.view.apply(position, entry);
        self.tracked.read(position, entry, &self.view);
        match entry {
            Entry::Message(arrival) => self.history.receive(position, arrival, &self.view, self.counter),
            Entry::Repair(repair) => {
                self.since.repair = true;
                self.history.repair(position, repair, &self.view);
            }
            Entry::Preamble { size, .. } => {
                self.since.preamble = true;
                self.history.set_preamble(size.tokens);
            }
            Entry::Compaction(compaction) => self.since.compaction = Some((position, compaction.occasion)),
            Entry::Usage(usage) => self.correct(usage),
            // Labels and checkpoints, and entries that this version does not know.
            _ => {}
        }
    }

    /// Returns whether the next message answers a call.
    pub(crate) fn is_answer(&self, arrival: &Arrival) -> bool {
        let is_models = arrival.message.role() == Role::Assistant && self.view.history_len() > 0;
        // Where Lookback receives answers itself, others are changed or brought by the client.
        is_models && !(self.has_answers && arrival.origin == Origin::Client)
    }

    /// Returns whether the next message came with the message before it, so that no call was made between them.
    fn is_brought(&self, arrival: &Arrival) -> bool {
        arrival.origin == Origin::Client && arrival.time.is_some() && arrival.time == self.now
    }

    /// Returns whether the next message shows that all calls so far were a history that the client brought: it is the
    /// first answer that Lookback received itself. The provider's cache has that history, because others made the calls.
    pub(crate) fn follows_brought(&self, arrival: &Arrival) -> bool {
        let is_first = arrival.origin == Origin::Model && !self.has_answers;
        is_first && self.brought > 0 && self.brought == self.calls.len()
    }

    /// Returns the view that the model would be sent now.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the view, and the messages that it shows whole.
    pub(crate) fn shown(&mut self) -> (&View, &HashSet<Position>) {
        (&self.view, self.tracked.whole(&self.view))
    }

    /// Returns the number of messages at the end of the view that are new since the last call. `None` if the rest of the
    /// view has changed, too.
    pub(crate) fn new_messages(&self) -> Option<usize> {
        self.tracked.new_messages()
    }

    /// Returns the newest call.
    pub(crate) fn newest(&self) -> Option<&CallReceipt> {
        self.calls.last()
    }

    /// Begins a branch that goes back to the entries before `end`, with this view.
    pub(crate) fn go_back(&mut self, end: Position, view: View) {
        self.history.go_back(end, &view);
        self.view = view;
        self.tracked.change();
        self.since.branch = true;
        self.since.messages = true;
        self.since.compaction = self.since.compaction.filter(|(position, _)| *position < end);
    }

    /// Returns the receipt of the entries that were read.
    pub(crate) fn receipt(self) -> Receipt {
        Receipt { since: self.began, ..Receipt::from_calls(self.calls) }
    }

    /// Records the call that a message answers.
    fn call(&mut self, position: Position, answer: &Arrival) {
        let with = self.tracked.call(&self.view, &mut self.cache, self.now);
        let without = self.history.call(self.now);
        let since = std::mem::take(&mut self.since);
        self.calls.push(CallReceipt {
            number: self.calls.len() as u64 + 1,
            position,
            messages: self.view.totals().size.messages,
            sent_tokens: with.sent(),
            cache_read_tokens: with.read,
            cache_write_tokens: with.written,
            uncached_tokens: with.uncached,
            output_tokens: answer.size.tokens,
            cost: with.cost,
            cost_without_window: without.cost,
            compacted: since.compaction.is_some(),
            occasion: since.compaction.and_then(|(_, occasion)| occasion),
            prefix_break: with.breaks.then(|| since.reason()),
            cold: with.cold,
            reported: false,
            paid: None,
        });
        self.newest = Some(Simulated { with, without });
        if let Some(reported) = self.reported.take() {
            self.correct_newest(reported);
        }
    }

    /// Assigns a usage report to a call. It belongs to the newest call if that has no report yet, and if no message has
    /// arrived since its answer or the estimate in the report equals its tokens. Otherwise, it belongs to the next
    /// call.
    fn correct(&mut self, usage: &UsageReport) {
        let is_open = self.calls.last().is_some_and(|call| !call.reported);
        let is_newest = self.newest.is_some_and(|newest| newest.with.sent() == usage.estimated);
        let reported = Reported { input: usage.reported, cached: usage.cached };
        if is_open && (is_newest || !self.since.messages) {
            self.correct_newest(reported);
        } else {
            self.reported = Some(reported).filter(|reported| reported.input > 0);
        }
    }

    fn correct_newest(&mut self, Reported { input: reported, cached }: Reported) {
        let (Some(call), Some(Simulated { with, without })) = (self.calls.last_mut(), self.newest) else { return };
        let counted = with.sent();
        if reported > 0 && counted > 0 {
            let corrected = |charge: Charge| charge.corrected(reported, counted, self.price);
            call.charge(corrected(with), corrected(without));
            call.reported = true;
            // Reports do not reach the log with the tokens that were written to the cache.
            call.paid = cached.map(|read| {
                let rest = reported.saturating_sub(read);
                let (written, uncached) = if with.written > 0 { (rest, 0) } else { (0, rest) };
                self.price.cost(read.min(reported), written, uncached)
            });
        }
    }
}
