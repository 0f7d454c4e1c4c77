//! What happened to each message of a history, and why.

use std::collections::HashMap;
use std::ops::Range;

use lookback_core::dialect::{Mend, Mended};
use lookback_core::edit::{self, Change, Hidden};
use lookback_core::plan::{Action, Decision, Reason};
use lookback_core::transcript::{Arrival, Entry, Position};
use lookback_core::view::{Item, View};
use lookback_core::{Dialect, Explanation};
use serde::{Serialize, Serializer};

/// What happened to a run of neighboring messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageOutcome {
    /// The indices of the messages in the history.
    #[serde(serialize_with = "as_pair")]
    pub span: Range<usize>,
    /// What was done with them.
    pub action: Action,
    /// The reason.
    pub reason: Reason,
    /// Further changes that are made when each of them is sent, so that the provider accepts it. Usually empty.
    pub mends: Vec<Mend>,
    /// Their tokens when they arrived.
    pub tokens: u64,
    /// Their tokens when they are sent.
    pub sent: u64,
}

fn as_pair<S: Serializer>(span: &Range<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    (span.start, span.end).serialize(serializer)
}

/// Returns what happened to every message of a log, in the order of the history.
///
/// `explanation` is that of the current window (see [`Session::explain`](crate::Session::explain)). `view` is what is
/// sent, in this dialect.
///
/// ```
/// use lookback::dialect::Mend;
/// use lookback::explain::outcomes;
/// use lookback::{Dialect, Engine, Message, Settings};
///
/// let mut engine = Engine::new(Settings::default().dialect(Dialect::Anthropic));
/// let mut entries = engine.push(Message::user("Is it done?"))?;
/// entries.extend(engine.push(Message::user("Well?"))?);
/// let outcomes = outcomes(&entries, engine.view(), Dialect::Anthropic, &engine.explain());
/// assert_eq!(outcomes[1].span, 1..2);
/// assert_eq!(outcomes[1].mends, [Mend::MergedWithPrevious]);
/// # Ok::<(), lookback::ConversionError>(())
/// ```
pub fn outcomes(entries: &[Entry], view: &View, dialect: Dialect, explanation: &Explanation) -> Vec<MessageOutcome> {
    let past = PastDecisions::of(entries);
    let mut mended = mends(view, dialect);
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

/// Returns the changes that are made when messages are sent, by their positions in the log (see [`View::mends`]).
pub fn mends(view: &View, dialect: Dialect) -> HashMap<Position, Vec<Mend>> {
    let positions: Vec<Position> = view.messages().map(Item::position).collect();
    let mut mends: HashMap<Position, Vec<Mend>> = HashMap::new();
    for Mended { message, mend, .. } in view.mends(dialect) {
        // If part of a message waited for its place, the view contains the message twice.
        let of_message = positions.get(message).map(|position| mends.entry(*position).or_default());
        if let Some(known) = of_message.filter(|known| !known.contains(&mend)) {
            known.push(mend);
        }
    }
    mends
}

/// The messages that can be described together: those of one group of the window, or of one outcome of a past
/// compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bundle {
    Present(usize),
    Compacted { compaction: usize, outcome: usize },
    Alone(Position),
}

/// What past compactions did to each entry: the last one that shortened it, and the one that dropped it.
#[derive(Default)]
struct PastDecisions<'a> {
    shortened: HashMap<Position, &'a Decision>,
    dropped: HashMap<Position, (Bundle, &'a Decision)>,
}

impl<'a> PastDecisions<'a> {
    fn of(entries: &'a [Entry]) -> PastDecisions<'a> {
        let mut past = PastDecisions::default();
        for (compaction, entry) in entries.iter().enumerate() {
            let Entry::Compaction(record) = entry else { continue };
            for (index, outcome) in record.groups.iter().enumerate() {
                let decision = &outcome.decision;
                let positions = outcome.spans.iter().cloned().flatten();
                if decision.action.is_gone() {
                    let group = Bundle::Compacted { compaction, outcome: index };
                    past.dropped.extend(positions.map(|position| (position, (group, decision))));
                } else if decision.action != Action::Keep {
                    past.shortened.extend(positions.map(|position| (position, decision)));
                }
            }
        }
        past
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
                    let why = arrival.edits.iter().find_map(|edit| match edit.change {
                        Change::Hide(why) => Some(why),
                        _ => None,
                    });
                    let reason = why.map_or(Reason::Recent, |why| Reason::Repaired { why });
                    (Bundle::Alone(position), Action::Drop, reason)
                }
            };
        };
        let group = here.map_or(Bundle::Alone(position), |(group, _)| Bundle::Present(group));
        let cut = item.edits().iter().any(|edit| matches!(edit.change, Change::Cut { .. }));
        let shortens = |decision: &&Decision| decision.action != Action::Keep && !decision.action.is_gone();
        let now = here.map(|(_, decision)| decision);
        match now.filter(shortens).or(self.shortened.get(&position).copied()) {
            _ if !cut => (
                group,
                Action::Keep,
                now.filter(|now| now.action == Action::Keep).map_or(Reason::Recent, |now| now.reason),
            ),
            Some(decision) => (group, decision.action, decision.reason),
            None => {
                let repeated = edit::repeated_lines(item.message(), item.edits());
                let capped = || match edit::shown_characters(item.message(), item.edits()) {
                    // White space at the end of a text, or a note in a result without content.
                    (_, 0) => Reason::Repaired { why: Hidden::Blank },
                    (shown, of) => Reason::Capped { shown, of },
                };
                (group, Action::Truncate, repeated.map_or_else(capped, |lines| Reason::Repeated { lines }))
            }
        }
    }
}
