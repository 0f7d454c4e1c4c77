//! Lines: which conversation a request goes on with, and which requests begin one.
//!
//! A client sends its whole history with each call, and often does not say which conversation it is. So a line is known
//! by what was said in it: the longest known beginning of a request's history is the line that it goes on with. What a
//! client says about itself only narrows the search.

mod asked;
mod choose;
mod dates;
mod family;
mod line;
mod load;
mod path;
mod scope;
mod summaries;
mod turn;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lookback_session::Error;
use lookback_store::Store;

pub(super) use self::asked::{Asked, Model};
pub use self::choose::How;
use self::choose::{Ask, Known, summarized};
use self::family::{Scopes, chosen};
pub(super) use self::line::{Line, Open};
pub(super) use self::scope::Scope;
use self::summaries::{Summaries, Summary};
use self::turn::Compaction;
pub(super) use self::turn::Turn;
use super::calibrations::Calibrations;

/// The most sessions that are kept open. Others are opened from the store again, which costs what their window does.
const MOST_OPEN: usize = 512;

/// The lines that were used lately.
#[derive(Default)]
pub(super) struct Lines {
    scopes: Mutex<Scopes>,
    /// The lines with an open session, and when each was used last when it was looked at.
    open: Mutex<VecDeque<(Weak<Line>, u64)>>,
    /// What clients have compacted them to.
    summaries: Summaries,
    /// What their token counts have taught.
    pub(super) calibrations: Calibrations,
}

/// A request that was read, and lines of its scope that had to be read for it.
struct Looked {
    ask: Ask,
    read: Vec<Arc<Line>>,
    /// Whether it goes on with a line that is remembered.
    is_known: bool,
}

impl Lines {
    /// Returns the line that a request goes on with, or begins one.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read, or if the lines of the scope have to be read from the store, and
    /// that fails.
    pub(super) async fn find(
        &self,
        store: &Arc<dyn Store>,
        scope: &Scope,
        asked: Asked<'_, '_>,
    ) -> Result<Turn, Error> {
        let Looked { ask, read, is_known } = self.look(store, scope, &asked).await?;
        let resent = ask.path.resent();
        // A conversation that the client names needs nothing else to be recognized.
        let summary = if is_known || ask.named { None } else { self.summaries.find(scope, asked.request) };
        let mut scopes = self.scopes();
        let now = scopes.tick();
        let family = scopes.enter(scope, read);
        let is_first = family.is_empty();
        let goes_on = chosen(family, &ask).or_else(|| {
            let summary = summary?;
            let line = scopes.summarized(scope, &ask, &summary)?;
            self.summaries.forget(&summary);
            Some((line, How::Rewritten))
        });
        let begun = || (Line::new(scope.new_name(is_first), Known::default()), How::New);
        let (line, how) = goes_on.unwrap_or_else(begun);
        line.known().begin(ask, how, now);
        scopes.add(scope, line.clone());
        scopes.forget_oldest();
        Ok(Turn::new(line, how, resent, &asked))
    }

    /// Returns a turn for a call with which a client compacts its history. Nothing of it is recorded.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(super) async fn compaction(
        &self,
        store: &Arc<dyn Store>,
        scope: &Scope,
        asked: Asked<'_, '_>,
    ) -> Result<Turn, Error> {
        let Looked { ask, read, .. } = self.look(store, scope, &asked).await?;
        let family = self.scopes().enter(scope, read).clone();
        let line = summarized(family.iter().map(|line| line.known()), &ask);
        let line = line.and_then(|index| family.get(index).cloned());
        let apart = Line::new(scope.new_name(false), Known::default());
        let compaction = Compaction { scope: scope.clone(), dialect: asked.request.dialect(), line };
        Ok(Turn::compacting(apart, ask.path.resent(), &asked, compaction))
    }

    /// Reads a request, and the lines of its scope from the store if they are not known.
    async fn look(&self, store: &Arc<dyn Store>, scope: &Scope, asked: &Asked<'_, '_>) -> Result<Looked, Error> {
        let remembered = self.scopes().get(scope).cloned();
        let Some(family) = remembered else {
            let read = load::lines(store, scope, &[]).await?;
            return Ok(Looked { ask: asked.read(scope, &read)?, read, is_known: false });
        };
        let ask = asked.read(scope, &family)?;
        let is_known = chosen(&family, &ask).is_some();
        // Another gateway may have begun the line since. It did not if nobody has answered yet.
        let is_elsewhere = !is_known && ask.path.has_answers();
        let read = if is_elsewhere { load::lines(store, scope, &family).await? } else { Vec::new() };
        Ok(Looked { ask, read, is_known })
    }

    /// Takes note of what the model answered to a compaction. A conversation that the client names is recognized without.
    pub(super) fn compacted(&self, turn: &Turn, answer: &str) {
        let compaction = turn.compaction().filter(|compaction| !compaction.scope.is_named());
        if let Some(Compaction { scope, dialect, line }) = compaction {
            self.summaries.remember(Summary::new(scope.clone(), *dialect, answer, line.as_ref()));
        }
    }

    /// Takes note that the session of a line was opened, and closes one that was not used for long, if there are too many.
    pub(super) fn opened(&self, line: &Arc<Line>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back((Arc::downgrade(line), line.known().used));
        // Whoever was used meanwhile gets another chance.
        for _ in 0..open.len() {
            if open.len() <= MOST_OPEN {
                return;
            }
            let Some((weak, seen)) = open.pop_front() else { return };
            let Some(line) = weak.upgrade() else { continue };
            let known = line.known();
            let (used, is_busy) = (known.used, known.is_busy());
            drop(known);
            let closed =
                used == seen && !is_busy && line.session.try_lock().is_ok_and(|mut session| session.take().is_some());
            if !closed {
                open.push_back((weak, used));
            }
        }
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
