//! The window of a request: takes the messages over into the session of its line, and makes the body to send.

mod sending;

use std::borrow::Cow;
use std::sync::Arc;

use lookback_conversation::{Query, Scope};
use lookback_engine::transcript::Origin;
use lookback_engine::view::View;
use lookback_engine::{Settings, policy::Policy};
use lookback_facts::{Memory, MemoryError};
use lookback_replay::prices::Prices;
use lookback_session::Batch;
use lookback_session::adapter;
use lookback_session::{Error, Session};
use lookback_store::{MemoryStore, Store, StoreError};
use lookback_wire::edit::Edit;
use lookback_wire::message::{PartRef, ResultItem};
use lookback_wire::{
    dialect::{Dialect, Preamble, RawRequest, Response, TooLong},
    message::Role,
};
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub(crate) use self::sending::Sending;
use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::admission::caller::workspace;
use crate::gateway::config::additions::Add;
use crate::gateway::lines::hidden_exchange::{self, Offered, OwnCall, Watch};
use crate::gateway::lines::shadow::Shadow;
use crate::gateway::lines::turn::{Model, Turn};
use crate::gateway::lines::{Line, Match, Open};
use crate::gateway::report::event::Event;
use crate::gateway::report::habits::Habit;
use crate::gateway::report::note::{Compacted, Cut, Shadowed, is_shortened};
use crate::gateway::report::payoff::Arm;

/// The reason that a request has no window.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWindow {
    #[error(transparent)]
    Session(#[from] Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// With the reason that the store's server cannot be reached, if known.
    #[error("the store did not answer in time")]
    Late(#[source] Option<StoreError>),
    #[error("the session was closed meanwhile")]
    Closed,
}

/// Makes the windows of a caller.
#[derive(Clone)]
pub(crate) struct Windows {
    store: Arc<dyn Store>,
    admission: Admission,
}

impl Windows {
    /// Opens the store of the caller.
    ///
    /// # Errors
    /// Returns an error if the store of the tenant cannot be opened.
    pub(crate) fn open(admission: &Admission) -> Result<Windows, StoreError> {
        Ok(Windows { store: admission.store()?, admission: admission.clone() })
    }

    /// Finds the line of a request.
    pub(crate) async fn line(&self, scope: &Scope, query: Query<'_, '_>) -> Result<Match, NoWindow> {
        self.patiently(async { Ok(self.admission.shared.lines.recent.find(&self.store, scope, query).await?) }).await
    }

    /// Finds the place of a call with which a client compacts its history.
    pub(crate) async fn compaction(&self, scope: &Scope, query: Query<'_, '_>) -> Result<Match, NoWindow> {
        self.patiently(async {
            Ok(self.admission.shared.lines.recent.find_compacting(&self.store, scope, query).await?)
        })
        .await
    }

    /// Takes a request that belongs to no line over into a temporary session, unless it already has one.
    pub(crate) async fn apart(
        &self,
        turn: &mut Turn,
        request: &RawRequest<'_>,
        preamble: &Preamble,
    ) -> Result<(), NoWindow> {
        if turn.matched.line.state.session.lock().await.is_none() {
            let scratch = Windows { store: Arc::new(MemoryStore::new()), admission: self.admission.clone() };
            scratch.record(turn, request, preamble).await?;
        }
        Ok(())
    }

    /// Waits for work that involves the store, up to its time limit.
    async fn patiently<T>(&self, work: impl Future<Output = Result<T, NoWindow>>) -> Result<T, NoWindow> {
        // Boxed, because the futures of a session are large, and the stack of a thread is small.
        let late = |_| NoWindow::Late(self.store.last_error());
        timeout(self.admission.current.config.timeouts.store, Box::pin(work)).await.map_err(late)?
    }

    /// Runs work on the open session of a line, and excludes others meanwhile.
    async fn with_open<T>(
        &self,
        line: &Line,
        work: impl AsyncFnOnce(&mut Open) -> Result<T, NoWindow>,
    ) -> Result<T, NoWindow> {
        self.patiently(async {
            let mut open = line.state.session.lock().await;
            work(open.as_mut().ok_or(NoWindow::Closed)?).await
        })
        .await
    }

    /// Takes a request over into the session of its line, and makes the window.
    pub(crate) async fn record(
        &self,
        turn: &mut Turn,
        request: &RawRequest<'_>,
        preamble: &Preamble,
    ) -> Result<Sending, NoWindow> {
        self.patiently(async {
            let is_held = self.arm(turn) == Arm::HeldOut;
            let alone = Policy::never_compact();
            let policy = if is_held { &alone } else { self.admission.current.policy(turn) };
            let mut open = turn.matched.line.state.session.lock().await;
            let Open { session, watch, .. } = self.opened(&mut open, turn, request.dialect(), policy).await?;
            if session.view().history_len() == 0 {
                // A history that the client brings was sent with it, and its tools decide how results are shortened.
                let offered = hidden_exchange::offered(&turn.adds, request, preamble, session.view());
                session.set_preamble(&hidden_exchange::preamble(request, preamble, &offered)).await?;
            }
            let synced =
                adapter::sync_resent(session, &turn.matched.resent, |index| Ok(request.message(index).cloned()?))
                    .await?;
            if !is_held {
                turn.offered = hidden_exchange::offered(&turn.adds, request, preamble, session.view());
            }
            adapter::set_target(session, &turn.model.target);
            let preamble = hidden_exchange::preamble(request, preamble, &turn.offered);
            session.set_preamble(&preamble).await?;
            let habit = turn.matched.line.state.habits().asked(preamble.cached_digest());
            self.advise(turn, habit);
            if is_held {
                // If the session was cut before it was held out, its window differs from the request.
                let is_measured = !session.view().is_cut() && !is_shortened(session.view());
                let window = session.window().await?.tokens();
                let tokens = is_measured.then_some(window);
                return Ok(Sending { body: None, tokens, cut: None, shadow: None, compacted: None, is_measured });
            }
            // If the last message is the model's, the model continues it, so no note can follow.
            let is_begun = turn.matched.resent.last().is_some_and(|last| last.role == Role::Assistant);
            if turn.adds.is_empty() || is_begun {
                return Ok(self.sending(session, turn, request, false).await?);
            }
            // Notes may have to repeat what a compaction removes, so the compaction comes first.
            let before = session.window().await?.entries().iter().rev().find_map(Compacted::from_entry);
            let mut notes = watch.late(synced.known, synced.new);
            notes.extend(watch.notes(&turn.adds, session, turn.matched.is_from_person, synced.new).await);
            hidden_exchange::write(session, notes).await?;
            let sending = self.sending(session, turn, request, false).await?;
            Ok(Sending { compacted: sending.compacted.or(before), ..sending })
        })
        .await
    }

    /// Reports a habit of the client that costs money, if there is one.
    fn advise(&self, turn: &Turn, habit: Option<Habit>) {
        if let Some(habit) = habit {
            self.admission.shared.emit(&Event::Advice { session: turn.name().to_string(), habit });
        }
    }

    /// Follows a request in the shadow of its conversation, if the gateway only watches.
    pub(crate) async fn shadow(&self, turn: &Turn, request: &RawRequest<'_>, preamble: &Preamble) -> Option<Shadowed> {
        let mut shadow = turn.matched.line.state.shadow.lock().await;
        if !self.admission.current.config.shadow {
            *shadow = None;
            return None;
        }
        let (dialect, policy) = (request.dialect(), self.admission.current.policy(turn));
        let settings = || self.settings(turn, dialect, policy);
        // The model would have the tools that are added.
        let offered = hidden_exchange::offered(&turn.adds, request, preamble, &View::default());
        let preamble = hidden_exchange::preamble(request, preamble, &offered);
        let followed: Result<_, Error> = async {
            let shadow = match &mut *shadow {
                Some(shadow) => shadow,
                None => shadow.insert(Shadow::open(turn.name().as_str(), settings()).await?),
            };
            if !has(shadow.settings(), dialect, &turn.model, policy) {
                shadow.change(settings()).await?;
            }
            shadow.follow(&turn.matched.resent, (request, &preamble), &turn.model.target).await
        }
        .await;
        let failed = |error: &Error| {
            let what = format!("there would be no window for {}: {}", turn.name(), chained(error));
            self.admission.shared.emit(&Event::failure(what));
        };
        followed.inspect_err(failed).ok()
    }

    /// Returns the body of a request whose messages are certainly sent unchanged, so that it can be sent before it is
    /// recorded. It is `None` if it is the body that arrived.
    pub(crate) fn ahead(&self, turn: &Turn, request: &RawRequest<'_>, preamble: &Preamble) -> Option<Option<String>> {
        if self.arm(turn) == Arm::HeldOut {
            return Some(None);
        }
        // If the session is locked, another request is about to change it.
        let open = turn.matched.line.state.session.try_lock().ok()?;
        let is_same =
            |session: &&Session| is_for(session, request.dialect(), &turn.model, self.admission.current.policy(turn));
        let session = open.as_ref().filter(|open| !open.watch.has_late()).map(|open| &open.session).filter(is_same);
        let adds_notes = turn.adds.iter().any(|add| !matches!(add, Add::MemoryTools | Add::Recall | Add::CacheMarkers));
        let is_plain =
            |session: &&Session| !adds_notes && !session.view().has_beside() && !is_shortened(session.view());
        let session = session.filter(is_plain)?;
        let offered = hidden_exchange::offered(&turn.adds, request, preamble, session.view());
        let known = usize::try_from(session.view().history_len()).unwrap_or(usize::MAX);
        let shortens = session.settings().policy.shortens_arrivals();
        let is_long = |part: PartRef<'_>| has_media(part) || shortens && matches!(part, PartRef::ToolResult(_));
        let is_text = |index: usize| request.message(index).is_ok_and(|message| !message.parts().any(is_long));
        let bytes = (known..request.len()).map(|index| request.bytes(index).map_or(0, str::len) as u64).sum();
        let preamble = hidden_exchange::preamble(request, preamble, &offered);
        let has_room = session.view().preamble().unwrap_or(&Preamble::default()).is_same(&preamble)
            && (known..request.len()).all(is_text)
            && adapter::has_room(session, &turn.matched.resent, bytes);
        has_room.then(|| changed(request, turn, &offered, None))
    }

    /// Returns the arm of the turn's line.
    pub(crate) fn arm(&self, turn: &Turn) -> Arm {
        let config = &self.admission.current.config;
        if config.shadow {
            return Arm::HeldOut;
        }
        turn.matched.about().map_or(Arm::Windowed, |line| Arm::for_session(line.name.as_str(), config.holdout))
    }

    /// Returns whether the turn's line is left alone, to be compared with others.
    pub(crate) fn is_compared(&self, turn: &Turn) -> bool {
        !self.admission.current.config.shadow && self.arm(turn) == Arm::HeldOut
    }

    /// Makes the window smaller, because the upstream refused it as too long.
    pub(crate) async fn smaller(
        &self,
        turn: &Turn,
        request: &RawRequest<'_>,
        cause: TooLong,
    ) -> Result<Sending, NoWindow> {
        self.with_open(&turn.matched.line, async |Open { session, .. }| {
            session.overflow(cause).await?;
            Ok(self.sending(session, turn, request, true).await?)
        })
        .await
    }

    /// Returns the repaired request. Nothing else is left out, except reasoning if `reasoning` is set.
    pub(crate) async fn repaired(
        &self,
        turn: &Turn,
        request: &RawRequest<'_>,
        reasoning: bool,
    ) -> Result<Sending, NoWindow> {
        self.with_open(&turn.matched.line, async |Open { session, .. }| {
            if reasoning {
                adapter::leave_out_reasoning(session).await?;
            }
            Ok(self.sending(session, turn, request, true).await?)
        })
        .await
    }

    /// Answers the tool calls of an answer that the client does not get. Returns the request that continues with them,
    /// and the cost of the answer in US dollars.
    pub(crate) async fn aside(
        &self,
        turn: &Turn,
        request: &RawRequest<'_>,
        mut response: Response,
        calls: &[OwnCall],
    ) -> Result<(Sending, Option<f64>), NoWindow> {
        self.with_open(&turn.matched.line, async |Open { session, watch, .. }| {
            let dollars = dollars(session, &response);
            // If another request of the line arrived meanwhile, returns to the place of this one.
            adapter::sync_resent(session, &turn.matched.resent, |index| Ok(request.message(index).cloned()?)).await?;
            if !turn.is_measured {
                response.input = None;
            }
            response.message = request.resendable(response.message);
            let at = adapter::answered_aside(session, response).await?.first().copied();
            for result in watch.results(session, calls, at).await {
                session.append(Batch::from(result).origin(Origin::Lookback).at(None)).await?;
            }
            Ok((self.sending(session, turn, request, false).await?, dollars))
        })
        .await
    }

    /// Answers calls of an answer whose other calls the client answers. The client's next request has the results.
    pub(crate) async fn answer_later(&self, turn: &Turn, calls: &[OwnCall]) -> Result<(), NoWindow> {
        self.with_open(&turn.matched.line, async |Open { session, watch, .. }| {
            watch.answer_later(session, calls).await;
            Ok(())
        })
        .await
    }

    /// Records the model's answer, which the window shows with these edits, and the provider's usage report. Returns the
    /// cost in US dollars, if known.
    pub(crate) async fn answered(
        &self,
        turn: &mut Turn,
        mut response: Response,
        edits: Vec<Edit>,
    ) -> Result<Option<f64>, NoWindow> {
        let answer = response.message.clone();
        // A held-out session is not made smaller either.
        response.fills_window &= self.arm(turn) == Arm::Windowed;
        let recorded = async |Open { session, .. }: &mut Open| {
            let dollars = dollars(session, &response);
            // If another request of the line arrived meanwhile, the report is not about the session's last window.
            let is_newest = session.view().history_len() == turn.matched.resent.len() as u64;
            // If the provider shortens the conversation, the report is about the shortened one.
            if !is_newest || turn.model.is_shortened {
                response.input = None;
            }
            let told = turn.matched.line.state.habits().answered(turn.lacks_markers, response.input, response.cached);
            self.advise(turn, told);
            let whole = self.admission.current.config.shadow.then(|| response.clone());
            if !turn.is_measured {
                response.input = None;
            }
            adapter::answered_joined(session, response, edits).await?;
            let model = session.settings().model.as_deref();
            if let Some((model, calibration)) = session.view().calibrations().find(|(named, _)| Some(*named) == model) {
                self.admission.shared.lines.calibrations.learn(&turn.upstream, model, calibration);
            }
            Ok((dollars, whole))
        };
        let (dollars, whole) = self.with_open(&turn.matched.line, recorded).await?;
        if let Some(response) = whole {
            self.shadow_answered(turn, response).await;
        }
        turn.matched.answered(&answer);
        Ok(dollars)
    }

    /// Records an answer in the shadow of its conversation, in the background. The next request of the line waits for it.
    async fn shadow_answered(&self, turn: &Turn, response: Response) {
        let mut shadow = turn.matched.line.state.shadow.clone().lock_owned().await;
        let price = turn.model.name.as_deref().and_then(|model| Prices::builtin().find(model));
        let (admission, name) = (self.admission.clone(), turn.name().clone());
        spawn_blocking(move || {
            let Some(shadow) = &mut *shadow else { return };
            match Handle::current().block_on(shadow.answered(response, price)) {
                Ok(Some(more)) => admission.shared.shadows.add(admission.caller.tenant.as_ref(), more),
                Ok(None) => {}
                Err(error) => {
                    let what = format!("the shadow of {name} was not continued: {}", chained(&error));
                    admission.shared.emit(&Event::failure(what));
                }
            }
        });
    }

    /// Returns the session of a line, opened with the settings of the turn.
    async fn opened<'o>(
        &self,
        open: &'o mut Option<Open>,
        turn: &Turn,
        dialect: Dialect,
        policy: &Policy,
    ) -> Result<&'o mut Open, NoWindow> {
        let summarizer = self.admission.current.config.summarizer.as_ref();
        let is_same =
            |open: &Open| is_for(&open.session, dialect, &turn.model, policy) && open.summarizer.as_ref() == summarizer;
        if !open.as_ref().is_some_and(is_same) {
            let is_new = open.is_none();
            *open = Some(self.open_session(&turn.matched.line, self.settings(turn, dialect, policy)).await?);
            if is_new {
                self.admission.shared.lines.opened(&turn.matched.line);
            }
        }
        open.as_mut().ok_or(NoWindow::Closed)
    }

    /// Returns the settings of a turn's session.
    fn settings(&self, turn: &Turn, dialect: Dialect, policy: &Policy) -> Settings {
        let calibrations = &self.admission.shared.lines.calibrations;
        let calibration = turn.model.name.as_deref().map(|name| calibrations.get(&turn.upstream, name));
        let settings = turn.model.settings(dialect).policy(policy.clone());
        settings.calibration(calibration.unwrap_or_default())
    }

    async fn open_session(&self, line: &Line, settings: Settings) -> Result<Open, NoWindow> {
        let name = line.name.as_str();
        let session = Session::open(self.store.clone(), name, settings).await?;
        let summarizer = self.admission.current.config.summarizer.as_ref();
        let session = match summarizer {
            Some(model) => model.summarize(session),
            None => session,
        };
        let workspace = workspace(self.admission.caller.tenant.as_ref(), &line.name);
        let memory = Memory::open_in(self.store.clone(), name, workspace).await?;
        Ok(Open { session, watch: Watch::new(memory), summarizer: summarizer.cloned() })
    }

    /// Makes the window. The request is sent unchanged unless a limit was exceeded, now or before, or it has additions
    /// or needs a repair.
    async fn sending(
        &self,
        session: &mut Session,
        turn: &Turn,
        request: &RawRequest<'_>,
        mend: bool,
    ) -> Result<Sending, Error> {
        let window = session.window().await?;
        let tokens = window.tokens();
        let view = window.view();
        let cut = Cut::from_view(view);
        let is_other = mend || cut.is_some() || view.has_beside();
        let messages = if is_other { Some(window.messages()?) } else { None };
        let body = changed(request, turn, &turn.offered, messages.as_deref());
        let compacted = window.entries().iter().rev().find_map(Compacted::from_entry);
        Ok(Sending { body, tokens: Some(tokens), cut, shadow: None, compacted, is_measured: true })
    }
}

/// Returns the body of a request with these messages, if they are others, and with the additions of its turn. `None` if
/// nothing changes.
fn changed(
    request: &RawRequest<'_>,
    turn: &Turn,
    offered: &[Offered],
    messages: Option<&[Cow<'_, RawValue>]>,
) -> Option<String> {
    let is_marked = turn.adds.contains(&Add::CacheMarkers) && request.takes_cache_marker();
    if messages.is_none() && !is_marked && offered.is_empty() {
        return None;
    }
    let mut body = request.change();
    if let Some(messages) = messages {
        body = body.messages(messages);
    }
    for tool in offered {
        body = body.tool(tool.name, tool.description, &tool.parameters);
    }
    if is_marked {
        body = body.cache_marker();
    }
    Some(body.write())
}

/// Returns the cost of an answer in US dollars, if known.
fn dollars(session: &Session, response: &Response) -> Option<f64> {
    let model = session.settings().model.as_deref().or(response.model.as_deref());
    model.and_then(|model| Prices::builtin().find(model))?.call_cost(response)
}

/// Returns whether a session has the settings of a request.
fn is_for(session: &Session, dialect: Dialect, model: &Model, policy: &Policy) -> bool {
    has(session.settings(), dialect, model, policy)
}

fn has(ours: &Settings, dialect: Dialect, model: &Model, policy: &Policy) -> bool {
    let is_same_model = ours.model == model.name && ours.model_window == model.window;
    let is_same_model = is_same_model && ours.provider == model.target.provider;
    let is_same_model = is_same_model && ours.cache_lifetime == model.cache_lifetime;
    is_same_model && ours.dialect == dialect && ours.policy == *policy
}

/// Returns whether a part is a picture or a file, or a result with one.
fn has_media(part: PartRef<'_>) -> bool {
    let in_result = |item: &ResultItem| matches!(item, ResultItem::Image(_) | ResultItem::Document(_));
    match part {
        PartRef::Image(_) | PartRef::Document(_) => true,
        PartRef::ToolResult(result) => result.content.iter().any(in_result),
        _ => false,
    }
}
