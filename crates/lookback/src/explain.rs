//! What became of each message of a history, and why.

use std::ops::Range;

use lookback_core::cut::Change;
use lookback_core::plan::{Action, Plan, Reason};
use lookback_core::transcript::{Entry, Position};
use lookback_core::view::View;
use serde::Serialize;

/// What became of neighbouring messages that share a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fate {
    /// The messages: half-open, by their index in the history.
    pub span: (usize, usize),
    /// What was done.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// Their tokens as they arrived.
    pub tokens: u64,
    /// Their tokens as they are sent.
    pub sent: u64,
}

/// Tells what became of every message of a log, in the order of the history.
///
/// `plan` is the plan for the window as it is, with the entries that each of its decisions is for (see
/// [`Session::explain`](crate::Session::explain)); `view` is what is sent.
pub fn fates(entries: &[Entry], view: &View, plan: &(Plan, Vec<Vec<Range<Position>>>)) -> Vec<Fate> {
    let (plan, spans) = plan;
    let decisions = plan.decisions.iter();
    let mut fates: Vec<Fate> = Vec::new();
    let mut groups: Vec<Option<usize>> = Vec::new();
    let messages = view.path().iter().flat_map(|span| span.clone()).filter_map(|position| {
        let entry = entries.get(usize::try_from(position).ok()?)?;
        match entry {
            Entry::Message(arrival) => Some((position, arrival)),
            _ => None,
        }
    });
    let holds = |spans: &[Range<Position>], position| spans.iter().any(|span| span.contains(&position));
    for (index, (position, arrival)) in messages.enumerate() {
        let here = decisions.clone().zip(spans).enumerate().find(|(_, (_, spans))| holds(spans, position));
        let shown = view.messages().find(|item| item.position() == position);
        let past = outcomes(entries, position);
        let cut = shown.is_some_and(|item| item.edits().iter().any(|edit| matches!(edit.change, Change::Cut { .. })));
        let shortened = past.iter().rev().find(|(_, action, _)| matches!(action, Action::Truncate | Action::Clear));
        let (group, action, reason) = match (shown, here) {
            (Some(_), Some((group, _))) if cut => match shortened {
                Some((_, action, reason)) => (Some(group), *action, *reason),
                None => (Some(group), Action::Truncate, Reason::Capped),
            },
            (Some(_), Some((group, (decision, _)))) => (
                Some(group),
                Action::Keep,
                match decision.action {
                    Action::Keep => decision.reason,
                    // A group of which another message was shortened.
                    Action::Truncate | Action::Clear | Action::Drop => Reason::Recent,
                },
            ),
            (None, Some((group, (decision, _)))) if decision.action == Action::Drop => {
                (Some(group), Action::Drop, decision.reason)
            }
            (None, _) | (Some(_), None) => match past.iter().rev().find(|(_, action, _)| *action == Action::Drop) {
                // Groups of different compactions must not be taken for one.
                Some((at, _, reason)) => (Some(usize::MAX - at), Action::Drop, *reason),
                None => {
                    let why = arrival.edits.iter().find_map(|edit| match edit.change {
                        Change::Hide(why) => Some(why),
                        Change::Cut { .. } | Change::Rename(_) | Change::Arguments(_) => None,
                    });
                    (None, Action::Drop, why.map_or(Reason::Recent, |why| Reason::Repaired { why }))
                }
            },
        };
        let (tokens, sent) = (arrival.size.tokens, shown.map_or(0, |item| item.size().tokens));
        match fates.last_mut().filter(|last| {
            group.is_some() && groups.last() == Some(&group) && last.action == action && last.reason == reason
        }) {
            Some(last) => {
                last.span.1 = index + 1;
                last.tokens += tokens;
                last.sent += sent;
            }
            None => fates.push(Fate { span: (index, index + 1), action, reason, tokens, sent }),
        }
        groups.push(group);
    }
    fates
}

/// What compactions did with the group of an entry: a number that tells the group, what was done, and why.
fn outcomes(entries: &[Entry], position: Position) -> Vec<(usize, Action, Reason)> {
    let compactions = entries.iter().enumerate().filter_map(|(at, entry)| match entry {
        Entry::Compaction(compaction) => Some((at, compaction)),
        _ => None,
    });
    let mut found = Vec::new();
    for (at, compaction) in compactions {
        for (index, outcome) in compaction.groups.iter().enumerate() {
            if outcome.spans.iter().any(|span| span.contains(&position)) {
                found.push(((at << 20) + index, outcome.decision.action, outcome.decision.reason));
            }
        }
    }
    found
}
