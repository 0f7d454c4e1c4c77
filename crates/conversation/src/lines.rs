//! The lines that were used lately, and the search for that of a request.
//!
//! A client sends its whole history with each call, and often does not say which conversation it is. So a line is known
//! by what was said in it: the longest known beginning of a request's history is the line that it goes on with. What a
//! client says about itself only narrows the search.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_session::Error;
use lookback_store::Store;

use super::choose::summarized;
use super::clues::Clues;
use super::line::Line;
use super::load;
use super::outline::Outline;
use super::query::Query;
use super::relation::Relation;
use super::scope::Scope;
use super::scopes::{Scopes, chosen};
use super::summaries::{Summaries, Summary};
use super::turn::{Compaction, Turn};

/// The lines that were used lately. Others are read from the store when a request of their scope comes.
///
/// `S` is the [state](Line::state) that the owner attaches to each line.
#[derive(Default)]
pub struct Lines<S = ()> {
    scopes: Mutex<Scopes<S>>,
    /// What clients have compacted them to.
    summaries: Summaries<S>,
}

/// A request that was read, and lines of its scope that had to be read for it.
struct Search<S> {
    clues: Clues,
    loaded: Vec<Arc<Line<S>>>,
    /// Whether it goes on with a line that is remembered.
    is_known: bool,
}

impl<S: Default> Lines<S> {
    /// Returns the line that a request goes on with, or begins one.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read, or if the lines of the scope have to be read from the store, and
    /// that fails.
    pub async fn find(&self, store: &Arc<dyn Store>, scope: &Scope, query: Query<'_, '_>) -> Result<Turn<S>, Error> {
        let Search { clues, loaded, is_known } = self.search(store, scope, query).await?;
        let resent = clues.path.resent();
        // A conversation that the client names needs nothing else to be recognized.
        let summary = if is_known || clues.is_named { None } else { self.summaries.find(scope, query.request) };
        let mut scopes = self.scopes();
        let now = scopes.tick();
        let family = scopes.enter(scope, loaded);
        let is_first = family.is_empty();
        let goes_on = chosen(family, &clues).or_else(|| {
            let summary = summary?;
            let line = scopes.summarized(scope, &clues, &summary)?;
            self.summaries.forget(&summary);
            Some((line, Relation::Rewritten))
        });
        let begun = || (Line::new(scope.new_name(is_first), Outline::default()), Relation::New);
        let (line, relation) = goes_on.unwrap_or_else(begun);
        line.outline().begin(clues, relation, now);
        scopes.add(scope, line.clone());
        scopes.forget_oldest();
        Ok(Turn::new(line, relation, resent, query))
    }

    /// Returns a turn for a call with which a client compacts its history. It is [apart](Turn::is_apart) from all lines, so
    /// nothing of it should be recorded. Its answer goes to [`compacted`](Self::compacted).
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn find_compacting(
        &self,
        store: &Arc<dyn Store>,
        scope: &Scope,
        query: Query<'_, '_>,
    ) -> Result<Turn<S>, Error> {
        let Search { clues, loaded, .. } = self.search(store, scope, query).await?;
        let family = self.scopes().enter(scope, loaded).clone();
        let line = summarized(family.iter().map(|line| line.outline()), &clues);
        let line = line.and_then(|index| family.get(index).cloned());
        let apart = Line::new(scope.new_name(false), Outline::default());
        let compaction = Compaction { scope: scope.clone(), dialect: query.request.dialect(), line };
        Ok(Turn::new(apart, Relation::New, clues.path.resent(), query).with_compaction(compaction))
    }

    /// Reads a request, and the lines of its scope from the store if they are not known.
    async fn search(&self, store: &Arc<dyn Store>, scope: &Scope, query: Query<'_, '_>) -> Result<Search<S>, Error> {
        let remembered = self.scopes().get(scope).cloned();
        let Some(family) = remembered else {
            let loaded = load::lines(store, scope, &[]).await?;
            return Ok(Search { clues: query.clues(scope, &loaded)?, loaded, is_known: false });
        };
        let clues = query.clues(scope, &family)?;
        let is_known = chosen(&family, &clues).is_some();
        // Another process may have begun the line since. It did not if nobody has answered yet.
        let is_elsewhere = !is_known && clues.path.has_answers();
        let loaded = if is_elsewhere { load::lines(store, scope, &family).await? } else { Vec::new() };
        Ok(Search { clues, loaded, is_known })
    }
}

impl<S> Lines<S> {
    /// Takes note of what the model answered to a compaction, so that the history which begins with it is recognized. A
    /// conversation that the client names is recognized without.
    pub fn compacted(&self, turn: &Turn<S>, answer: &str) {
        if let Some(Compaction { scope, dialect, line }) = turn.compaction()
            && !scope.is_named()
        {
            self.summaries.remember(Summary::new(scope.clone(), *dialect, answer, line.as_ref()));
        }
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes<S>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Lines<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}
