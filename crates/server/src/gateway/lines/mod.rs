//! Lines: which conversation a request goes on with, and which requests begin one.
//!
//! A client sends its whole history with each call, and often does not say which conversation it is. So a line is known
//! by what was said in it: the longest known beginning of a request's history is the line that it goes on with. What a
//! client says about itself only narrows the search.

mod choose;
mod dates;
mod load;
mod scope;
mod summaries;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lookback::message::PartRef;
use lookback::session::Resent;
use lookback::tokens::Models;
use lookback::{Error, LogName, Preamble, RawRequest, RequestError, Role, Session, Store};
use tokio::sync::Mutex as AsyncMutex;
use xxhash_rust::xxh3::xxh3_64;

pub use self::choose::How;
use self::choose::{Ask, Known, Path, Said, Tools, beginning, choose, opening};
pub(super) use self::scope::Scope;
use self::summaries::Summaries;
use super::adds::Add;
use super::aside::{Offered, Watch};
use super::calibrations::Calibrations;
use super::payoff::Spending;
use super::summarizer::SummaryModel;

/// The most scopes that are remembered. Others are read from the store again when a request comes.
const MOST_SCOPES: usize = 4096;

/// The most lines of a scope that are remembered. Older ones are not gone on with.
const MOST_LINES: usize = 256;

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

#[derive(Default)]
struct Scopes {
    lines: HashMap<Scope, Family>,
    /// Counts requests, to tell what was used least.
    clock: u64,
}

/// The lines of a scope.
#[derive(Clone, Default)]
struct Family {
    lines: Vec<Arc<Line>>,
}

/// An open session, and what watches over it.
pub(super) struct Open {
    pub(super) session: Session,
    pub(super) watch: Watch,
    /// The model that writes its summaries.
    pub(super) summarizer: Option<SummaryModel>,
}

/// A line of conversation, which is a session in the store.
pub(super) struct Line {
    pub(super) name: LogName,
    /// The session, once it was opened. Whoever changes it waits for whoever does.
    pub(super) session: AsyncMutex<Option<Open>>,
    known: Mutex<Known>,
    /// What it has cost.
    spent: Mutex<Spending>,
}

impl Line {
    fn new(name: LogName, known: Known) -> Arc<Line> {
        Arc::new(Line { name, session: AsyncMutex::new(None), known: Mutex::new(known), spent: Mutex::default() })
    }

    pub(super) fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose line is looked for.
pub(super) struct Asked<'a, 'b> {
    pub(super) request: &'a RawRequest<'b>,
    pub(super) preamble: &'a Preamble,
    /// The client says that it asks again.
    pub(super) retry: bool,
    /// What is added to it.
    pub(super) adds: &'a [Add],
    /// The upstream that it goes to.
    pub(super) upstream: &'a str,
    /// What it asks for.
    pub(super) model: Model,
}

/// The model that a request asks for, as far as windows depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    /// Its name, if it is known.
    pub(super) name: Option<String>,
    /// The most tokens of a request and its answer together, if that is known. It may depend on the request.
    pub(super) window: Option<u64>,
    /// Whether the provider is asked to shorten the conversation.
    pub(super) is_shortened: bool,
}

impl Model {
    /// Reads what a request asks for. The path may name the model, and a header a larger context window.
    pub(super) fn of(request: &RawRequest<'_>, path: Option<&str>, betas: &str) -> Model {
        let name = path.map(str::to_owned).or_else(|| request.model());
        let known = name.as_deref().and_then(|name| Models::builtin().find(name));
        let window = known.map(|model| model.window_with(betas));
        Model { name, window, is_shortened: request.is_shortened_by_provider() }
    }
}

impl Asked<'_, '_> {
    /// Returns whether the last message is from a person.
    fn asks(&self) -> bool {
        let last = self.request.len().checked_sub(1).and_then(|last| self.request.message(last).ok());
        let is_result = |part: PartRef<'_>| matches!(part, PartRef::ToolResult(_));
        last.is_some_and(|last| last.role() == Role::User && !last.parts().any(is_result))
    }

    /// Reads what matters for the choice. What a line remembers of these bytes is not read again.
    fn read(&self, scope: &Scope, lines: &[Arc<Line>]) -> Result<Ask, RequestError> {
        let Asked { request, retry, .. } = *self;
        let known: Vec<MutexGuard<'_, Known>> = lines.iter().map(|line| line.known()).collect();
        let remembered = |index: usize, bytes: u64| known.iter().find_map(|known| known.path.at(index, bytes));
        let said = |index: usize| {
            let bytes = xxh3_64(request.bytes(index).unwrap_or_default().as_bytes());
            match remembered(index, bytes) {
                Some(said) => Ok(said),
                None => Ok(Said::of(request.message(index)?, Some(bytes))),
            }
        };
        let path = Path::new((0..request.len()).map(said).collect::<Result<_, RequestError>>()?);
        let opening = {
            let bytes = xxh3_64(request.bytes(path.first()).unwrap_or_default().as_bytes());
            let remembered = known.iter().find_map(|known| known.path.opening_at(path.first(), bytes));
            remembered.or_else(|| Some(opening(request.message(path.first()).ok()?)))
        };
        let path = path.with_opening(opening);
        let hash = Tools::hash_of(self.preamble);
        let remembered = known.iter().map(|known| &known.tools).find(|tools| tools.hash == hash).cloned();
        drop(known);
        let last = match request.len().checked_sub(1) {
            Some(last) => beginning(&request.message(last)?.text()),
            None => String::new(),
        };
        let tools = remembered.unwrap_or_else(|| Tools::of(self.preamble));
        Ok(Ask { path, last, tools, retry, named: scope.is_named() })
    }
}

/// The line of a request, until the request is over.
pub(super) struct Turn {
    pub(super) line: Arc<Line>,
    pub(super) how: How,
    /// The messages of the request.
    pub(super) resent: Vec<Resent>,
    /// Whether its last message is from a person, and not the result of a tool.
    pub(super) asks: bool,
    /// Whether what the provider reports can be compared with what was counted.
    pub(super) is_measured: bool,
    /// What is added to the request.
    pub(super) adds: Vec<Add>,
    /// The upstream that it goes to.
    pub(super) upstream: String,
    /// The model that it asks for.
    pub(super) model: Model,
    /// The tools that the gateway offers with it.
    pub(super) offered: Vec<Offered>,
    /// What the model answered, if the answer came whole.
    answer: Option<Resent>,
    /// The compaction that it is, if it is beside a line.
    compaction: Option<Compaction>,
}

/// A call with which a client compacts its history. It is part of no line.
struct Compaction {
    scope: Scope,
    /// The line whose history it has, if one is known.
    line: Option<Arc<Line>>,
}

impl Turn {
    fn new(line: Arc<Line>, how: How, resent: Vec<Resent>, asked: &Asked<'_, '_>) -> Turn {
        let (upstream, model) = (asked.upstream.to_owned(), asked.model.clone());
        Turn {
            line,
            how,
            resent,
            asks: false,
            is_measured: true,
            adds: Vec::new(),
            upstream,
            model,
            offered: Vec::new(),
            answer: None,
            compaction: None,
        }
    }

    /// Returns whether it is part of no line, because its client compacts its history with it.
    pub(super) fn is_apart(&self) -> bool {
        self.compaction.is_some()
    }

    /// Records that the model answered, so that a request with the answer is known to go on.
    pub(super) fn answered(&mut self, answer: Resent) {
        self.answer = Some(answer);
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
    /// Returns an error if a message cannot be read, or if the lines of the scope have to be read from the store, and
    /// that fails.
    pub(super) async fn find(
        &self,
        store: &Arc<dyn Store>,
        scope: &Scope,
        asked: Asked<'_, '_>,
    ) -> Result<Turn, Error> {
        let ask = self.look(store, scope, &asked).await?;
        let resent = ask.path.resent();
        let mut scopes = self.scopes();
        scopes.clock += 1;
        let now = scopes.clock;
        // The scope may have been forgotten meanwhile.
        let chosen = scopes.lines.entry(scope.clone()).or_default().choose(&ask);
        let chosen = chosen.or_else(|| {
            let summarized = || self.summaries.take(scope, asked.request, |line| scopes.summarized(scope, &ask, line));
            Some(((!scope.is_named()).then(summarized)??, How::Rewritten))
        });
        let family = scopes.lines.entry(scope.clone()).or_default();
        let (line, how) = match chosen {
            Some((line, how)) => {
                // Another scope's, if its client has compacted it.
                if family.lines.iter().all(|other| other.name != line.name) {
                    family.add(line.clone());
                }
                (line, how)
            }
            None => {
                let line = Line::new(scope.new_name(family.lines.is_empty()), Known::default());
                family.add(line.clone());
                (line, How::New)
            }
        };
        line.known().begin(ask, now);
        scopes.forget_oldest();
        let mut turn = Turn::new(line, how, resent, &asked);
        (turn.asks, turn.adds) = (asked.asks(), asked.adds.to_vec());
        Ok(turn)
    }

    /// Reads a request, and the lines of its scope from the store if they are not known.
    async fn look(&self, store: &Arc<dyn Store>, scope: &Scope, asked: &Asked<'_, '_>) -> Result<Ask, Error> {
        let remembered = self.scopes().lines.get(scope).cloned();
        let (ask, read) = match remembered {
            Some(family) => {
                let ask = asked.read(scope, &family.lines)?;
                // Another gateway may have begun the line since. It did not if nobody has answered yet.
                let is_elsewhere = ask.path.has_answers() && family.choose(&ask).is_none();
                let read = if is_elsewhere { load::lines(store, scope, &family.lines).await? } else { Vec::new() };
                (ask, read)
            }
            None => {
                let read = load::lines(store, scope, &[]).await?;
                (asked.read(scope, &read)?, read)
            }
        };
        let mut scopes = self.scopes();
        let family = scopes.lines.entry(scope.clone()).or_default();
        // Another request may have begun a line or read the same ones meanwhile.
        for line in read {
            if family.lines.iter().all(|other| other.name != line.name) {
                family.add(line);
            }
        }
        Ok(ask)
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
        let ask = self.look(store, scope, &asked).await?;
        let family = self.scopes().lines.get(scope).cloned().unwrap_or_default();
        let line = only(family.lines.iter().map(|line| (line, line.known().is_in(&ask))));
        let apart = Line::new(scope.new_name(false), Known::default());
        let mut turn = Turn::new(apart, How::New, ask.path.resent(), &asked);
        turn.compaction = Some(Compaction { scope: scope.clone(), line });
        Ok(turn)
    }

    /// Takes note of what the model answered to a compaction.
    pub(super) fn compacted(&self, turn: &Turn, answer: &str) {
        if let Some(Compaction { scope, line }) = &turn.compaction {
            self.summaries.remember(scope.clone(), answer, line.as_ref());
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

impl Scopes {
    /// Returns the line that goes on with a summary in place of its history: this one, or the only one whose newest messages
    /// follow the summary.
    fn summarized(&self, scope: &Scope, ask: &Ask, line: Option<Arc<Line>>) -> Option<Arc<Line>> {
        if let Some(line) = line {
            let goes_on = line.known().has_tools_of(ask);
            return goes_on.then_some(line);
        }
        let neighbours = self.lines.iter().filter(|(other, _)| other.has_account_of(scope));
        let mut lines: Vec<&Arc<Line>> = neighbours.flat_map(|(_, family)| &family.lines).collect();
        // Some are in several scopes.
        lines.sort_by_key(|line| &line.name);
        lines.dedup_by_key(|line| &line.name);
        only(lines.into_iter().map(|line| (line, line.known().kept_in(ask))))
    }

    /// Forgets the scopes that were not used for the longest time, if there are too many.
    fn forget_oldest(&mut self) {
        while self.lines.len() > MOST_SCOPES {
            let used = |family: &Family| family.lines.iter().map(|line| line.known().used).max().unwrap_or(0);
            let is_busy = |family: &Family| family.lines.iter().any(|line| line.known().is_busy());
            let idle = self.lines.iter().filter(|(_, family)| !is_busy(family));
            let Some(oldest) = idle.min_by_key(|(_, family)| used(family)).map(|(scope, _)| scope.clone()) else {
                return;
            };
            self.lines.remove(&oldest);
        }
    }
}

/// Returns the line that fits best, unless several fit as well.
fn only<'a, F: Ord>(lines: impl Iterator<Item = (&'a Arc<Line>, Option<F>)>) -> Option<Arc<Line>> {
    let mut fits: Vec<(F, &Arc<Line>)> = lines.filter_map(|(line, fit)| Some((fit?, line))).collect();
    fits.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (best, line) = fits.pop()?;
    fits.last().is_none_or(|(next, _)| *next < best).then(|| line.clone())
}

impl Family {
    /// Returns the line that a request goes on with, and how.
    fn choose(&self, ask: &Ask) -> Option<(Arc<Line>, How)> {
        let known: Vec<MutexGuard<'_, Known>> = self.lines.iter().map(|line| line.known()).collect();
        let (index, how) = choose(known.iter().map(|known| &**known), ask)?;
        Some((self.lines.get(index)?.clone(), how))
    }

    /// Adds a line, and forgets the one that was not used for the longest time, if there are too many. It stays in the
    /// store.
    fn add(&mut self, line: Arc<Line>) {
        if self.lines.len() >= MOST_LINES {
            let idle = self.lines.iter().enumerate().filter(|(_, line)| !line.known().is_busy());
            if let Some((oldest, _)) = idle.min_by_key(|(_, line)| line.known().used) {
                self.lines.remove(oldest);
            }
        }
        self.lines.push(line);
    }
}
