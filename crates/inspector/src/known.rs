//! The facts that a session knew, and the calls at which it knew them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lookback_facts::{Fact, FactEntry, FactEvent, FactId, Facts, Scope, Source, history};
use lookback_replay::timeline::{Call, Timeline};

/// The most facts on a page.
pub(crate) const MOST: usize = 200;

/// A fact and the calls at which it was known.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KnownFact {
    /// The fact in its last state.
    pub fact: Fact,
    /// The first call at which it was known. The next call, if it was stated after the last one.
    pub from: u64,
    /// How it ended. `None` if it is current.
    pub ended: Option<Ended>,
    /// The events of this fact, of the facts that it replaced, and of those that replaced it.
    pub events: Vec<FactEvent>,
}

/// How a fact ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// The first call at which it was no longer known.
    pub call: u64,
    /// The fact that replaced it. `None` if it was resolved or forgotten.
    pub by: Option<FactId>,
}

impl KnownFact {
    /// Returns the facts of the session and the shared facts, current and ended, with the calls at which they were
    /// known. Current facts come first. Within each group, the newest come first. Returns at most 200.
    ///
    /// Compares the time of a statement with the arrival times of the answers. If the calls have no times, the position
    /// of the source message decides.
    pub fn all(session: &str, timeline: &Timeline, events: &[FactEvent]) -> Vec<KnownFact> {
        let (mut shared, mut own) = (Facts::new(Scope::Shared), Facts::new(Scope::Session));
        // The entries of a log are in order, so their calls never decrease.
        let (mut shared_call, mut own_call) = (1, 1);
        let mut known: BTreeMap<FactId, KnownFact> = BTreeMap::new();
        for event in events {
            let (facts, call) = match event.scope {
                Scope::Session => (&mut own, &mut own_call),
                _ => (&mut shared, &mut shared_call),
            };
            facts.apply(&event.entry);
            *call = call_of(session, timeline, &event.entry).max(*call);
            let Some(id) = event.fact() else { continue };
            if let Some(fact) = facts.get(id) {
                let anew = || KnownFact { fact: fact.clone(), from: *call, ended: None, events: Vec::new() };
                known.entry(id).or_insert_with(anew).fact = fact.clone();
            }
            let (ends, by) = match &event.entry {
                FactEntry::Stated(statement) => (statement.supersedes.as_slice(), Some(id)),
                _ => (std::slice::from_ref(&id), None),
            };
            for id in ends {
                let is_over = facts.over(*id).is_some() || (id.scope == event.scope && facts.get(*id).is_none());
                if let Some(known) = known.get_mut(id).filter(|known| is_over && known.ended.is_none()) {
                    known.ended = Some(Ended { call: *call, by });
                }
            }
        }
        for known in known.values_mut() {
            let id = known.fact.id;
            // A dispute begins and ends with changes of other facts. Likewise, a session may replace a shared fact for
            // itself only.
            if let Some(fact) = own.get(id).or_else(|| if own.over(id).is_none() { shared.get(id) } else { None }) {
                (known.fact, known.ended) = (fact.clone(), None);
            }
        }
        let mut known: Vec<KnownFact> = known.into_values().collect();
        known.sort_by_key(|known| (known.ended.is_some(), Reverse(known.from), known.fact.id));
        known.truncate(MOST);
        for known in &mut known {
            known.events = history(events, known.fact.id);
        }
        known
    }

    /// Returns whether it was known at a call.
    pub fn is_known_at(&self, call: u64) -> bool {
        self.from <= call && self.ended.as_ref().is_none_or(|ended| call < ended.call)
    }
}

/// Returns the number of the first call that was made after a statement.
fn call_of(session: &str, timeline: &Timeline, entry: &FactEntry) -> u64 {
    let has_times = timeline.calls.iter().any(|call| call.time.is_some());
    let is_here = |source: &&Source| source.session.as_deref().is_none_or(|name| name == session);
    let said = if has_times { entry.time() } else { None };
    let is_after = |call: &&Call| match (said, entry.source().filter(is_here)) {
        (Some(said), _) => call.time.is_some_and(|answered| said <= answered),
        (None, Some(Source { message: Some(message), .. })) => call.receipt.position > *message,
        // Without a time or a source message in this session, it counts as known from the first call.
        (None, _) => true,
    };
    timeline.calls.iter().find(is_after).map_or(timeline.next_call(), |call| call.receipt.number)
}
