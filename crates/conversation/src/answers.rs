//! Newest answers: recognizing a line after its client has changed earlier messages.
//!
//! Some clients change or remove texts of earlier requests: context that they retrieved for one question, reminders, old
//! tool results, or all but the last messages. The model's newest answer is then still in the history. It leads to its
//! line if nothing speaks against it, and if no other line has the same answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::clues::Clues;
use super::line::Line;
use super::scope::{Account, Scope};

/// The most answers that are remembered.
const MOST: usize = 65_536;
/// The most lines with the same answer that are looked at.
const MOST_ALIKE: usize = 8;

type Key = (Account, u128);

/// The newest answer of each line, by its digest.
pub(super) struct Answers<S>(Mutex<Known<S>>);

struct Known<S> {
    lines: HashMap<Key, Vec<Weak<Line<S>>>>,
    /// The keys of all lines above, the oldest first.
    order: VecDeque<Key>,
}

impl<S> Default for Answers<S> {
    fn default() -> Self {
        Answers(Mutex::new(Known { lines: HashMap::new(), order: VecDeque::new() }))
    }
}

impl<S> Answers<S> {
    /// Remembers the newest answer of a line.
    pub(super) fn remember(&self, account: &Account, digest: u128, line: &Arc<Line<S>>) {
        let Known { lines, order } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (account.clone(), digest);
        let with_answer = lines.entry(key.clone()).or_default();
        // An answer of many lines leads to none of them.
        if with_answer.len() > MOST_ALIKE || with_answer.iter().any(|other| Weak::as_ptr(other) == Arc::as_ptr(line)) {
            return;
        }
        with_answer.push(Arc::downgrade(line));
        order.push_back(key);
        if order.len() > MOST
            && let Some(oldest) = order.pop_front()
            && let Some(of_oldest) = lines.get_mut(&oldest)
        {
            of_oldest.remove(0);
            if of_oldest.is_empty() {
                lines.remove(&oldest);
            }
        }
    }

    /// Returns whether the model gave the newest answer in a request's history, or an equal one.
    pub(super) fn knows(&self, scope: &Scope, clues: &Clues) -> bool {
        let Some(answer) = clues.path.answer() else { return false };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.lines.contains_key(&(scope.account().clone(), answer))
    }

    /// Returns the line whose newest answer a request's history ends with, although messages before it differ. `None` if
    /// there are several.
    pub(super) fn find(&self, scope: &Scope, clues: &Clues) -> Option<Arc<Line<S>>> {
        let key = (scope.account().clone(), clues.path.answer()?);
        let known: Vec<Arc<Line<S>>> = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.lines.get(&key)?.iter().filter_map(Weak::upgrade).collect()
        };
        if known.len() > MOST_ALIKE {
            return None;
        }
        let mut found = known.into_iter().filter(|line| line.outline().answered(clues));
        let line = found.next()?;
        found.all(|other| other.name == line.name).then_some(line)
    }
}
