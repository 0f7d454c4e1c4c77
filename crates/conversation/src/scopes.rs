//! The lines in memory, by their scopes.

use std::collections::HashMap;
use std::sync::Arc;

use super::choose::{Choice, choose};
use super::clues::Clues;
use super::line::Line;
use super::scope::Scope;
use super::summaries::Summary;

/// The most scopes in memory.
const MOST_SCOPES: usize = 4096;

/// The most lines of a scope in memory. Older ones are not continued.
const MOST_LINES: usize = 256;

/// The lines of a scope. After a compaction by the client, a line can be in two scopes.
pub(super) type Family<S> = Vec<Arc<Line<S>>>;

/// The recently used scopes.
#[derive(Default)]
pub(super) struct Scopes<S> {
    families: HashMap<Scope, Family<S>>,
    /// The number of requests so far, to find the least recently used lines.
    clock: u64,
}

impl<S> Scopes<S> {
    /// Returns the lines of a scope, if it is in memory.
    pub(super) fn get(&self, scope: &Scope) -> Option<&Family<S>> {
        self.families.get(scope)
    }

    /// Counts a request, and returns its number.
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Adds lines that were read from the store, and returns the lines of the scope. Lines that are already in memory
    /// are not added again: another request may have begun or read them meanwhile, or they may be in another scope.
    pub(super) fn enter(&mut self, scope: &Scope, read: Vec<Arc<Line<S>>>) -> &Family<S> {
        for line in read {
            // Mark the line as used, so that it is not forgotten before the search for the request's line ends.
            line.outline().used = self.clock;
            let remembered = self.of_account(scope).find(|other| other.name == line.name).cloned();
            self.add(scope, remembered.unwrap_or(line));
        }
        self.families.entry(scope.clone()).or_default()
    }

    /// Adds a line, unless the scope has it. If there are too many, forgets the least recently used line, which stays
    /// in the store.
    pub(super) fn add(&mut self, scope: &Scope, line: Arc<Line<S>>) {
        let family = self.families.entry(scope.clone()).or_default();
        if family.iter().any(|other| other.name == line.name) {
            return;
        }
        if family.len() >= MOST_LINES {
            let idle = family.iter().enumerate().filter(|(_, line)| !line.is_busy());
            if let Some((oldest, _)) = idle.min_by_key(|(_, line)| line.used()) {
                family.remove(oldest);
            }
        }
        family.push(line);
    }

    /// Removes a line from a scope whose beginning the client has left.
    pub(super) fn leave(&mut self, scope: &Scope, line: &Arc<Line<S>>) {
        if let Some(family) = self.families.get_mut(scope) {
            family.retain(|other| !Arc::ptr_eq(other, line));
            if family.is_empty() {
                self.families.remove(scope);
            }
        }
    }

    /// Returns the line that a request continues with a summary instead of its history: the only line whose newest
    /// messages follow the summary, or the line that was summarized.
    pub(super) fn summarized(&self, scope: &Scope, clues: &Clues, summary: &Summary<S>) -> Option<Arc<Line<S>>> {
        let mut kept = self.of_account(scope).filter(|line| line.outline().is_kept_in(clues));
        match kept.next() {
            Some(line) => kept.all(|other| other.name == line.name).then(|| line.clone()),
            None => summary.line()?.upgrade().filter(|line| line.outline().has_same_tools(clues)),
        }
    }

    /// Returns the lines of the same account.
    fn of_account(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Line<S>>> {
        self.families.iter().filter(|(other, _)| other.has_account_of(scope)).flat_map(|(_, family)| family)
    }

    /// Forgets the least recently used scopes, if there are too many.
    pub(super) fn forget_oldest(&mut self) {
        while self.families.len() > MOST_SCOPES {
            let used = |family: &Family<S>| family.iter().map(|line| line.used()).max().unwrap_or(0);
            let is_busy = |family: &Family<S>| family.iter().any(|line| line.is_busy());
            let idle = self.families.iter().filter(|(_, family)| !is_busy(family));
            let Some(oldest) = idle.min_by_key(|(_, family)| used(family)).map(|(scope, _)| scope.clone()) else {
                return;
            };
            self.families.remove(&oldest);
        }
    }
}

/// Returns the line of a family that a request continues, with the choice.
pub(super) fn chosen<S>(family: &Family<S>, clues: &Clues) -> Option<(Arc<Line<S>>, Choice)> {
    let choice = choose(family.iter().map(|line| line.outline()), clues)?;
    Some((family.get(choice.index)?.clone(), choice))
}
