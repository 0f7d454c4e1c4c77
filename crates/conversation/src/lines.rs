//! The recently used lines, and the search for the line of a request.
//!
//! A client sends its whole history with each call, and often no identifier of the conversation. So a line is
//! recognized by its messages: a request continues the line that shares the longest beginning with its history. The
//! client's identifiers only narrow the search.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_session::Error;
use lookback_store::Store;

use super::choose::summarized;
use super::clues::Clues;
use super::line::Line;
use super::load;
use super::matched::{Compaction, Match};
use super::outline::Outline;
use super::query::Query;
use super::relation::Relation;
use super::scope::Scope;
use super::scopes::{Scopes, chosen};
use super::summaries::{Summaries, Summary};

/// The recently used lines. Others are read from the store when a request of their scope comes.
///
/// `S` is the [state](Line::state) that the owner attaches to each line.
#[derive(Default)]
pub struct Lines<S = ()> {
    scopes: Mutex<Scopes<S>>,
    /// The summaries to which clients have compacted lines.
    summaries: Summaries<S>,
}

/// A request's clues, and the lines of its scope that were read from the store for it.
struct Search<S> {
    clues: Clues,
    loaded: Vec<Arc<Line<S>>>,
    /// Whether it continues a line in memory.
    is_known: bool,
}

impl<S: Default> Lines<S> {
    /// Returns the line that a request continues, or begins one.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read, or if the lines of the scope have to be read from the store, and
    /// that fails.
    pub async fn find(&self, store: &Arc<dyn Store>, scope: &Scope, query: Query<'_, '_>) -> Result<Match<S>, Error> {
        let Search { clues, loaded, is_known } = self.search(store, scope, query).await?;
        let resent = clues.path.resent();
        // A conversation that the client identifies needs no summary to be recognized.
        let summary = if is_known || clues.is_named { None } else { self.summaries.find(scope, query.request) };
        let mut scopes = self.scopes();
        let now = scopes.tick();
        let family = scopes.enter(scope, loaded);
        let is_first = family.is_empty();
        let continues = chosen(family, &clues).or_else(|| {
            let summary = summary?;
            let line = scopes.summarized(scope, &clues, &summary)?;
            self.summaries.forget(&summary);
            Some((line, Relation::Rewritten))
        });
        let begun = || (Line::new(scope.new_name(is_first), Outline::default()), Relation::New);
        let (line, relation) = continues.unwrap_or_else(begun);
        line.outline().begin(clues, relation, now);
        scopes.add(scope, line.clone());
        scopes.forget_oldest();
        Ok(Match::new(line, relation, resent, query))
    }

    /// Finds the line that a client compacts with this call. The match is [apart](Match::is_apart) from all lines, and
    /// the call should not be recorded. Pass its answer to [`compacted`](Self::compacted).
    ///
    /// # Errors
    /// The same as [`find`](Self::find).
    pub async fn find_compacting(
        &self,
        store: &Arc<dyn Store>,
        scope: &Scope,
        query: Query<'_, '_>,
    ) -> Result<Match<S>, Error> {
        let Search { clues, loaded, .. } = self.search(store, scope, query).await?;
        let family = self.scopes().enter(scope, loaded).clone();
        let line = summarized(family.iter().map(|line| line.outline()), &clues);
        let line = line.and_then(|index| family.get(index).cloned());
        let apart = Line::new(scope.new_name(false), Outline::default());
        let compaction = Compaction { scope: scope.clone(), dialect: query.request.dialect(), line };
        Ok(Match::new(apart, Relation::New, clues.path.resent(), query).with_compaction(compaction))
    }

    /// Reads the clues of a request, and the lines of its scope from the store if necessary.
    async fn search(&self, store: &Arc<dyn Store>, scope: &Scope, query: Query<'_, '_>) -> Result<Search<S>, Error> {
        let remembered = self.scopes().get(scope).cloned();
        let Some(family) = remembered else {
            let loaded = load::lines(store, scope, &[]).await?;
            return Ok(Search { clues: query.clues(scope, &loaded)?, loaded, is_known: false });
        };
        let clues = query.clues(scope, &family)?;
        let is_known = chosen(&family, &clues).is_some();
        // Another process may have begun the line, but only if the history has an answer.
        let is_elsewhere = !is_known && clues.path.has_answers();
        let loaded = if is_elsewhere { load::lines(store, scope, &family).await? } else { Vec::new() };
        Ok(Search { clues, loaded, is_known })
    }
}

impl<S> Lines<S> {
    /// Remembers the model's answer to a compaction, so that a history that begins with it is recognized. If the client
    /// identifies the conversation, nothing needs to be remembered.
    pub fn compacted(&self, matched: &Match<S>, answer: &str) {
        if let Some(Compaction { scope, dialect, line }) = matched.compaction()
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
