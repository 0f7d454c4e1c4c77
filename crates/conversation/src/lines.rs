//! The recently used lines, and the search for the line of a request.
//!
//! A client sends its whole history with each call, and often no identifier of the conversation. So a line is
//! recognized by its messages: a request continues the line that shares the longest beginning with its history. The
//! client's identifiers only narrow the search.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback_session::Error;
use lookback_store::Store;

use super::answers::Answers;
use super::choose::{Choice, summarized};
use super::clues::Clues;
use super::line::Line;
use super::load;
use super::matched::{Compaction, Match};
use super::outline::Outline;
use super::query::Query;
use super::relation::Relation;
use super::scope::Scope;
use super::scopes::{Family, Scopes, chosen};
use super::summaries::{Summaries, Summary};

/// The recently used lines. Others are read from the store when a request of their scope comes.
///
/// `S` is the [state](Line::state) that the owner attaches to each line.
#[derive(Default)]
pub struct Lines<S = ()> {
    scopes: Mutex<Scopes<S>>,
    /// The summaries to which clients have compacted lines.
    summaries: Summaries<S>,
    answers: Arc<Answers<S>>,
}

impl<S: Default> Lines<S> {
    /// Returns the line that a request continues, or begins one.
    ///
    /// If a person asks for a summary of the conversation, or the model may call none of the line's tools, the client may
    /// be compacting its history. The match is then [apart](Match::is_apart), like one of
    /// [`find_compacting`](Self::find_compacting). If the call was a turn, the next request has it in its history.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read, or if the lines of the scope have to be read from the store, and
    /// that fails.
    pub async fn find(&self, store: &Arc<dyn Store>, scope: &Scope, query: Query<'_, '_>) -> Result<Match<S>, Error> {
        let (clues, family) = self.search(store, scope, query).await?;
        if may_compact(&family, &clues) {
            return Ok(self.compacting(scope, query, &family, &clues));
        }
        // With a line that has all answers of the history, nothing else is needed, nor if the client names the line.
        let has_all = |choice: Choice| choice.common >= clues.path.base();
        let is_sure = clues.is_named || chosen(&family, &clues).is_some_and(|(_, choice)| has_all(choice));
        let answered = if is_sure { None } else { self.answers.find(scope, &clues) };
        let summary = if is_sure || answered.is_some() { None } else { self.summaries.find(scope, query.request) };
        let resent = clues.path.resent();
        let mut scopes = self.scopes();
        let now = scopes.tick();
        // Each request of a client that sends only its last messages begins differently.
        if let Some(line) = &answered {
            let left = line.outline().moved_to.replace(scope.clone());
            left.filter(|left| left != scope).iter().for_each(|left| scopes.leave(left, line));
        }
        let family = scopes.enter(scope, Vec::new());
        let is_first = family.is_empty();
        let changed = |line: Arc<Line<S>>| {
            let outline = line.outline();
            let is_shorter = clues.path.len() < outline.path.len();
            let is_same =
                outline.path.begins_like(&clues.path) && outline.path.common(&clues.path) == outline.path.len();
            drop(outline);
            let relation = match (is_shorter, is_same) {
                (true, _) => Relation::Rewritten,
                (false, true) => Relation::Continued,
                (false, false) => Relation::Edited,
            };
            (line, relation)
        };
        let continues = || chosen(family, &clues).map(|(line, choice)| (line, choice.relation));
        let found = answered.map(changed).or_else(continues);
        let continues = found.or_else(|| {
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
        let matched = Match::new(line, relation, resent, query);
        Ok(matched.with_answers(self.answers.clone(), scope.account().clone()))
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
        let (clues, family) = self.search(store, scope, query).await?;
        Ok(self.compacting(scope, query, &family, &clues))
    }

    /// Returns a match that is apart, with the line that the client compacts, if that is known.
    fn compacting(&self, scope: &Scope, query: Query<'_, '_>, family: &Family<S>, clues: &Clues) -> Match<S> {
        let line = summarized(family.iter().map(|line| line.outline()), clues);
        let line = line.and_then(|index| family.get(index).cloned());
        if let Some(line) = &line {
            line.outline().put_aside = true;
        }
        let apart = Line::new(scope.new_name(false), Outline::default());
        let compaction = Compaction { scope: scope.clone(), dialect: query.request.dialect(), line };
        Match::new(apart, Relation::New, clues.path.resent(), query).with_compaction(compaction)
    }

    /// Reads the clues of a request, and the lines of its scope, also from the store if necessary.
    async fn search(
        &self,
        store: &Arc<dyn Store>,
        scope: &Scope,
        query: Query<'_, '_>,
    ) -> Result<(Clues, Family<S>), Error> {
        let remembered = self.scopes().get(scope).cloned();
        if let Some(family) = &remembered {
            let clues = self.clues(scope, query, family)?;
            // Another process may have begun the line, but only if the history has an answer.
            if chosen(family, &clues).is_some() || !clues.path.has_answers() {
                return Ok((clues, family.clone()));
            }
        }
        let loaded = load::lines(store, scope, remembered.as_deref().unwrap_or_default()).await?;
        for line in &loaded {
            let outline = line.outline();
            let answers = [outline.newest_answer(), outline.replied];
            drop(outline);
            answers.into_iter().flatten().for_each(|answer| self.answers.remember(scope.account(), answer, line));
        }
        let mut scopes = self.scopes();
        let family = scopes.enter(scope, loaded).clone();
        scopes.forget_oldest();
        drop(scopes);
        Ok((self.clues(scope, query, &family)?, family))
    }

    fn clues(&self, scope: &Scope, query: Query<'_, '_>, family: &Family<S>) -> Result<Clues, Error> {
        let clues = query.clues(scope, family)?;
        Ok(Clues { has_recorded_answer: self.answers.knows(scope, &clues), ..clues })
    }
}

/// Returns whether a client may be compacting a line of this family, although it does not use the words of a known client:
/// a person asks for a summary of a conversation, or the model may call no tool of a line with the same history. If a
/// client has kept such a call in its history before, it was a turn, and so is this one.
fn may_compact<S>(family: &Family<S>, clues: &Clues) -> bool {
    let mut with_history = family.iter().filter(|line| line.outline().has_history_of(clues));
    let keeps_all = family.iter().any(|line| line.outline().keeps_all(clues));
    let is_silent = !clues.may_call && with_history.clone().all(|line| line.outline().has_tools());
    let is_known = with_history.next().is_some();
    let asks = clues.asks_for_summary || is_known && is_silent;
    clues.is_from_person && clues.path.has_answers() && !keeps_all && asks
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
