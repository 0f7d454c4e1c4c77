//! Lines: which conversation a request goes on with, and which requests begin one.
//!
//! A client sends its whole history with each call, and often does not say which conversation it is. So a line is known
//! by what was said in it: the longest known beginning of a request's history is the line that it goes on with. What a
//! client says about itself only narrows the search.

mod choose;
mod load;
mod scope;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookback::{LogName, Session, Store, StoreError};
use tokio::sync::Mutex as AsyncMutex;

pub(super) use self::choose::Ask;
pub use self::choose::How;
use self::choose::{Known, choose};
pub(super) use self::scope::Scope;

/// The most scopes that are remembered. Others are read from the store again when a request comes.
const MOST_SCOPES: usize = 4096;

/// The lines that were used lately.
#[derive(Default)]
pub(super) struct Lines {
    scopes: Mutex<Scopes>,
}

#[derive(Default)]
struct Scopes {
    lines: HashMap<Scope, Vec<Arc<Line>>>,
    /// Counts requests, to tell what was used least.
    clock: u64,
}

/// A line of conversation, which is a session in the store.
pub(super) struct Line {
    pub(super) name: LogName,
    /// The session, once it was opened. Whoever changes it waits for whoever does.
    pub(super) session: AsyncMutex<Option<Session>>,
    known: Mutex<Known>,
}

impl Line {
    fn new(name: LogName, known: Known) -> Arc<Line> {
        Arc::new(Line { name, session: AsyncMutex::new(None), known: Mutex::new(known) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of a request, until the request is over.
pub(super) struct Turn {
    pub(super) line: Arc<Line>,
    pub(super) how: How,
    /// What the model answered, as a digest, if the answer came whole.
    answer: Option<u128>,
}

impl Turn {
    /// Records that the model answered, so that a request with the answer is known to go on.
    pub(super) fn answered(&mut self, digest: u128) {
        self.answer = Some(digest);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.known().finish(self.answer);
    }
}

impl Lines {
    /// Returns the line that a request goes on with, or begins one.
    ///
    /// # Errors
    /// Returns an error if the lines of the scope have to be read from the store, and it fails.
    pub(super) async fn find(&self, store: &Arc<dyn Store>, scope: &Scope, ask: Ask) -> Result<Turn, StoreError> {
        if !self.scopes().lines.contains_key(scope) {
            let read = load::lines(store, scope).await?;
            self.scopes().lines.entry(scope.clone()).or_insert(read);
        }
        let mut scopes = self.scopes();
        scopes.clock += 1;
        let now = scopes.clock;
        let lines = scopes.lines.entry(scope.clone()).or_default();
        let found = choose(&lines.iter().map(|line| line.known().clone()).collect::<Vec<_>>(), &ask);
        let (line, how) = match found.and_then(|(index, how)| Some((lines.get(index)?.clone(), how))) {
            Some(found) => found,
            None => {
                let line = Line::new(scope.name(lines.len()), Known::default());
                lines.push(line.clone());
                (line, How::New)
            }
        };
        line.known().begin(ask, now);
        scopes.forget_oldest();
        Ok(Turn { line, how, answer: None })
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scopes {
    /// Forgets the scope that was not used for the longest time, if there are too many.
    fn forget_oldest(&mut self) {
        if self.lines.len() <= MOST_SCOPES {
            return;
        }
        let used = |lines: &Vec<Arc<Line>>| lines.iter().map(|line| line.known().used).max().unwrap_or(0);
        let is_busy = |lines: &Vec<Arc<Line>>| lines.iter().any(|line| line.known().is_busy());
        let idle = self.lines.iter().filter(|(_, lines)| !is_busy(lines));
        let oldest = idle.min_by_key(|(_, lines)| used(lines)).map(|(scope, _)| scope.clone());
        oldest.iter().for_each(|scope| drop(self.lines.remove(scope)));
    }
}
