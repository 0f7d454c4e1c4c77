//! Keeps the last turns of a resumed conversation, each complete with its question and its answer.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Engine;
use crate::entry::Entry;
use crate::group::GroupKind;
use crate::plan::Reason;
use crate::policy::Keep;
use crate::view::{Item, ViewGroup};
use lookback_wire::Start;
use lookback_wire::size::Measure;

impl Engine {
    /// Keeps only the newest `turns` turns in the window, in one compaction.
    ///
    /// A turn also leaves if the window has its question without its answer, or its answer without its question. A
    /// question that was never answered stays. The newest turn always stays, and so does each turn with a pinned group.
    /// The first messages and the task are not pinned here, even if the policy keeps them.
    ///
    /// Nothing changes if signed reasoning of an open tool loop forbids it.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings};
    /// use lookback_wire::message::Message;
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// for number in 1..=3 {
    ///     engine.push(Message::user(format!("question {number}")))?;
    ///     engine.push(Message::assistant("answer"))?;
    /// }
    /// engine.keep_turns(2);
    /// assert_eq!(engine.view().messages().next().unwrap().message().text(), "question 2");
    /// assert!(engine.keep_turns(2).is_empty());
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn keep_turns(&mut self, turns: u64) -> Vec<Entry> {
        let actual = self.view.totals().turns;
        let keep = Keep { first: 0, task: false, ..self.policy.keep };
        self.take_out(keep, |candidates, view| {
            let said = view.groups().iter().enumerate().filter(|(_, group)| group.kind.is_said());
            let (indices, said): (Vec<usize>, Vec<&ViewGroup>) = said.unzip();
            let is_pinned = |index: &usize| candidates.group(*index).is_some_and(|group| group.pin.is_some());
            let (mut room, mut leaves) = (turns, BTreeMap::new());
            for turn in split(&said).into_iter().rev() {
                let next = said.get(turn.end);
                let groups = said.get(turn.clone()).unwrap_or_default();
                let indices = indices.get(turn).unwrap_or_default();
                let stays = next.is_none() || indices.iter().any(is_pinned);
                if stays || (room > 0 && is_whole(groups, next.copied())) {
                    room = room.saturating_sub(1);
                    continue;
                }
                let reason = match room {
                    0 => Reason::Exceeded { measure: Measure::Turns, actual, limit: turns, target: turns },
                    _ => Reason::Start { rule: Start::User },
                };
                leaves.extend(indices.iter().map(|index| (*index, reason)));
            }
            if leaves.is_empty() {
                return None;
            }
            let spent = |index| candidates.group(index).filter(|group| group.is_spent()).map(|_| Reason::Spent);
            candidates.without(|index| leaves.get(&index).copied().or_else(|| spent(index)))
        })
    }
}

/// Splits the conversation into turns. A message with tool results may also contain words of a person, which open a
/// turn. That turn is joined to the one before it, which has its question.
fn split(said: &[&ViewGroup]) -> Vec<Range<usize>> {
    let asks = |item: &Item| !item.is_own() && item.speaks();
    let begins = |before: &ViewGroup, group: &ViewGroup| {
        let asked = before.kind == GroupKind::Round && before.items.iter().any(asks);
        before.turn != group.turn && (group.kind == GroupKind::User || !asked)
    };
    let mut turns = Vec::new();
    let mut start = 0;
    for (index, (before, group)) in (1..).zip(said.iter().zip(said.iter().skip(1))) {
        if begins(before, group) {
            turns.push(start..index);
            start = index;
        }
    }
    if start < said.len() {
        turns.push(start..said.len());
    }
    turns
}

/// Returns whether the window has both the question and the answer of a turn. `next` is the group after the turn.
fn is_whole(turn: &[&ViewGroup], next: Option<&ViewGroup>) -> bool {
    let (Some(first), Some(last)) = (turn.first(), turn.last()) else { return true };
    // Turn 0 is before the first question, so it has none.
    let asked = first.turn == 0 || (first.kind == GroupKind::User && first.items.iter().any(|item| !item.is_own()));
    // Rounds are counted over the whole history, so the next group's number shows whether answers are missing in
    // between.
    let so_far =
        |next: &ViewGroup| if next.kind == GroupKind::User { next.round } else { next.round.saturating_sub(1) };
    let answered = last.kind == GroupKind::Assistant || next.is_none_or(|next| so_far(next) == last.round);
    asked && answered
}
