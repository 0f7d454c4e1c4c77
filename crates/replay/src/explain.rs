//! The outcome of each message of a history, and its reason.

use std::collections::HashMap;
use std::ops::Range;

use lookback_engine::Explanation;
use lookback_engine::plan::{Action, Decision, Reason};
use lookback_engine::transcript::{Arrival, Compaction, Entry, Position};
use lookback_engine::view::{Item, View};
use lookback_wire::dialect::{Mend, Mended, Target};
use lookback_wire::edit::{self, Change, Cut, Edit, Hidden};
use serde::{Serialize, Serializer};

/// The outcome of a run of neighboring messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageOutcome {
    /// The indices of the messages in the history.
    #[serde(serialize_with = "as_pair")]
    pub span: Range<usize>,
    /// The action.
    pub action: Action,
    /// The reason.
    pub reason: Reason,
    /// Further changes to each message when it is sent, so that the provider accepts it. Usually empty.
    pub mends: Vec<Mend>,
    /// Their tokens when they arrived.
    pub tokens: u64,
    /// Their tokens when they are sent.
    pub sent: u64,
}

fn as_pair<S: Serializer>(span: &Range<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    (span.start, span.end).serialize(serializer)
}

/// Returns the outcomes of all messages of a log, in the order of the history.
///
/// `explanation` is that of the current window (see [`Session::explain`](lookback_session::Session::explain)). `view`
/// is the view that is sent to this target.
///
/// ```
/// use lookback_wire::dialect::Mend;
/// use lookback_replay::explain::outcomes;
/// use lookback_wire::{dialect::Dialect, message::Message};
/// use lookback_engine::{Engine, Settings};
///
/// let mut engine = Engine::new(Settings::default().dialect(Dialect::Bedrock));
/// let mut entries = engine.push(Message::user("Is it done?"))?;
/// entries.extend(engine.push(Message::user("Well?"))?);
/// let outcomes = outcomes(&entries, engine.view(), Dialect::Bedrock, &engine.explain());
/// assert_eq!(outcomes[1].span, 1..2);
/// assert_eq!(outcomes[1].mends, [Mend::MergedWithPrevious]);
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
pub fn outcomes(
    entries: &[Entry],
    view: &View,
    target: impl Into<Target>,
    explanation: &Explanation,
) -> Vec<MessageOutcome> {
    let past = PastDecisions::from_entries(entries);
    let mut mended = mends(view, target);
    let shown: HashMap<Position, &Item> = view.messages().map(|item| (item.position(), item)).collect();
    let mut present: HashMap<Position, (usize, &Decision)> = HashMap::new();
    for (group, explained) in explanation.groups.iter().enumerate() {
        let positions = explained.entries.iter().cloned().flatten();
        present.extend(positions.map(|position| (position, (group, &explained.decision))));
    }
    let mut outcomes: Vec<MessageOutcome> = Vec::new();
    let mut last = None;
    let mut index = 0;
    for position in view.path().iter().cloned().flatten() {
        let entry = usize::try_from(position).ok().and_then(|position| entries.get(position));
        let Some(Entry::Message(arrival)) = entry else { continue };
        let (item, here) = (shown.get(&position).copied(), present.get(&position).copied());
        let (group, action, reason) = past.outcome(position, arrival, item, here);
        let mends = mended.remove(&position).unwrap_or_default();
        let (tokens, sent) = (arrival.size.tokens, item.map_or(0, |item| item.size().tokens));
        let shares =
            |before: &&mut MessageOutcome| (before.action, before.reason, &before.mends) == (action, reason, &mends);
        match outcomes.last_mut().filter(|before| last == Some(group) && shares(before)) {
            Some(outcome) => {
                outcome.span.end = index + 1;
                outcome.tokens += tokens;
                outcome.sent += sent;
            }
            None => outcomes.push(MessageOutcome { span: index..index + 1, action, reason, mends, tokens, sent }),
        }
        last = Some(group);
        index += 1;
    }
    outcomes
}

/// Returns the changes to messages when they are sent, by the messages' positions in the log (see [`View::mends`]).
pub fn mends(view: &View, target: impl Into<Target>) -> HashMap<Position, Vec<Mend>> {
    let positions: Vec<Position> = view.messages().map(Item::position).collect();
    let mut mends: HashMap<Position, Vec<Mend>> = HashMap::new();
    for Mended { message, mend, .. } in view.mends(target) {
        // If part of a message waited for its place, the view contains the message twice.
        let of_message = positions.get(message).map(|position| mends.entry(*position).or_default());
        if let Some(known) = of_message.filter(|known| !known.contains(&mend)) {
            known.push(mend);
        }
    }
    mends
}

/// Messages that can be described together: those of one group of the window, or of one outcome of a past compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bundle {
    Present(usize),
    Compacted { compaction: Position, outcome: usize },
    Alone(Position),
}

/// The decisions of past compactions on each entry: the last one that shortened it, and the one that dropped it.
#[derive(Debug, Default)]
pub(crate) struct PastDecisions {
    shortened: HashMap<Position, (Bundle, Decision)>,
    dropped: HashMap<Position, (Bundle, Decision)>,
}

impl PastDecisions {
    fn from_entries(entries: &[Entry]) -> PastDecisions {
        let mut past = PastDecisions::default();
        for (compaction, entry) in (0..).zip(entries) {
            if let Entry::Compaction(record) = entry {
                past.read(compaction, record);
            }
        }
        past
    }

    /// Reads the compaction at this position.
    pub(crate) fn read(&mut self, compaction: Position, record: &Compaction) {
        for (index, outcome) in record.groups.iter().enumerate() {
            let decision = &outcome.decision;
            let bundle = Bundle::Compacted { compaction, outcome: index };
            let decided = match decision.action {
                Action::Keep => continue,
                action if action.is_gone() => &mut self.dropped,
                _ => &mut self.shortened,
            };
            let positions = outcome.spans.iter().cloned().flatten();
            decided.extend(positions.map(|position| (position, (bundle, decision.clone()))));
        }
    }

    /// Forgets the compactions from a position on, because a branch goes back to it.
    pub(crate) fn forget_from(&mut self, end: Position) {
        let is_before = |(bundle, _): &(Bundle, Decision)| match bundle {
            Bundle::Compacted { compaction, .. } => *compaction < end,
            Bundle::Present(_) | Bundle::Alone(_) => true,
        };
        self.shortened.retain(|_, decided| is_before(decided));
        self.dropped.retain(|_, decided| is_before(decided));
    }

    /// Returns the decision by which an entry left the window, if there is one.
    pub(crate) fn dropped(&self, position: Position) -> Option<&Decision> {
        self.dropped.get(&position).map(|(_, decision)| decision)
    }

    fn outcome(
        &self,
        position: Position,
        arrival: &Arrival,
        item: Option<&Item>,
        here: Option<(usize, &Decision)>,
    ) -> (Bundle, Action, Reason) {
        let Some(item) = item else {
            return match (here, self.dropped.get(&position)) {
                (Some((group, decision)), _) if decision.action.is_gone() => {
                    (Bundle::Present(group), decision.action, decision.reason)
                }
                (_, Some((group, decision))) => (*group, decision.action, decision.reason),
                (_, None) => {
                    let reason = hidden(&arrival.edits).map_or(Reason::Recent, |why| Reason::Repaired { why });
                    (Bundle::Alone(position), Action::Drop, reason)
                }
            };
        };
        let group = here.map_or(Bundle::Alone(position), |(group, _)| Bundle::Present(group));
        let now = here.map(|(_, decision)| decision);
        let shortens = |decision: &&Decision| decision.action != Action::Keep && !decision.action.is_gone();
        let (action, reason) = self.shortened(item, now.filter(shortens)).unwrap_or_else(|| {
            let kept = now.filter(|now| now.action == Action::Keep);
            (Action::Keep, kept.map_or(Reason::Recent, |now| now.reason))
        });
        (group, action, reason)
    }

    /// Returns the action that shortened a message of the window, and its reason: from `now`, from an earlier decision,
    /// or from the message's arrival. `None` if the message is not shortened.
    pub(crate) fn shortened(&self, item: &Item, now: Option<&Decision>) -> Option<(Action, Reason)> {
        let mut cuts = item.edits().iter().filter_map(|edit| match &edit.change {
            Change::Cut { cut, .. } => Some(cut),
            _ => None,
        });
        let only_hides_numbers = cuts.next()?.only_hides_numbers() && cuts.all(Cut::only_hides_numbers);
        let decided = now.or_else(|| self.shortened.get(&item.position()).map(|(_, decision)| decision));
        if let Some(decision) = decided {
            return Some((decision.action, decision.reason));
        }
        if only_hides_numbers {
            return Some((Action::Truncate, Reason::Unnumbered));
        }
        let repeated = edit::repeated_lines(item.message(), item.edits());
        let capped = || match edit::shown_characters(item.message(), item.edits()) {
            // White space at the end of a text, or a note in a result without content.
            (_, 0) => Reason::Repaired { why: Hidden::Blank },
            (shown, of) => Reason::Capped { shown, of },
        };
        Some((Action::Truncate, repeated.map_or_else(capped, |lines| Reason::Repeated { lines })))
    }
}

/// Returns why a part of a message is hidden, if one is.
pub(crate) fn hidden(edits: &[Edit]) -> Option<Hidden> {
    edits.iter().find_map(|edit| match edit.change {
        Change::Hide(why) => Some(why),
        _ => None,
    })
}
