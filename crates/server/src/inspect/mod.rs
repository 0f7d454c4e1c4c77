//! The inspector: pages that show, for each call of a store's sessions, what a model saw.
//!
//! It is read-only, unless [changes](Inspector::with_edits) are enabled. Contents of sessions are escaped in its pages,
//! and pages load nothing from elsewhere.

mod blocking;
mod cache;
mod edit;
mod gate;
mod http;
mod related;
mod trial;

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Query;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream;
use lookback_engine::Settings;
use lookback_facts::{Fact, Memory, MemoryError, Scope};
use lookback_inspector::{Contents, Found, KnownFact, Listed, Overview, Parts, Sort, Story, Trial};
use lookback_replay::lost::ClientCompaction;
use lookback_replay::prices::Price;
use lookback_session as session;
use lookback_store::{IntoStore, LogInfo};
use lookback_store::{LogName, Store, StoreError};
use serde::Deserialize;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use self::cache::{Edition, Known, SessionCache};
pub(crate) use self::gate::secured;
pub use self::http::serve;
pub(crate) use self::related::related;
use crate::connections::Endless;

/// The reason that a damaged session cannot be read.
const DAMAGED: &str = "its log is damaged";
/// How long the overview reads new sessions, and how long it searches facts.
const PATIENCE: Duration = Duration::from_millis(700);
/// The largest session that the overview waits for, in bytes.
const SOON: u64 = 16 << 20;
/// The most messages that a search finds, and the most facts.
const MOST_FOUND: usize = 50;
/// How often the log of a followed session is checked.
const LOOKS_EVERY: Duration = Duration::from_millis(500);
/// The most pages that are notified of changes. Others have to ask again.
const MOST_FOLLOWERS: usize = 32;
/// How long those pages wait before they ask again.
const ASKS_EVERY: Duration = Duration::from_secs(10);

/// The inspector of a store.
///
/// ```no_run
/// use lookback_replay::prices::Prices;
/// use lookback_sqlite::SqliteStore;
/// use lookback_server::inspect::{Inspector, serve};
/// use lookback_server::{ConnectionLimits, ListenOptions};
///
/// let store = SqliteStore::open("memory.db")?;
/// let price = Prices::builtin().find("anthropic-5m").ok_or("no such price")?;
/// let inspector = Inspector::new(store, "memory.db", price.clone());
/// let options = ListenOptions { address: "127.0.0.1:8788".parse()?, token: None, hosts: vec![], limits: ConnectionLimits::default() };
/// serve(inspector, options, |address| println!("http://{address}/"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Inspector {
    store: Arc<dyn Store>,
    place: Arc<str>,
    cache: Arc<SessionCache>,
    /// Returns the workspace whose shared facts a session knows.
    workspace: Arc<dyn Fn(&LogName) -> String + Send + Sync>,
    /// Lets one policy be tried out at a time, because a trial takes long and occupies a core.
    trial: Arc<Semaphore>,
    /// The places of the pages that are notified of changes.
    followers: Arc<Semaphore>,
    may_edit: bool,
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Inspector {
    /// Creates the inspector of a store. `place` is the store's name for people. The prices determine all costs.
    pub fn new(store: impl IntoStore, place: impl Into<Arc<str>>, price: Price) -> Inspector {
        // The same counter as that of a session without a model.
        let counter = Settings::for_model(lookback_wire::dialect::Dialect::default(), "gpt-4o").counter;
        let store = store.into_store();
        Inspector {
            cache: Arc::new(SessionCache::new(store.clone(), counter, price)),
            store,
            place: place.into(),
            workspace: Arc::new(|_| Memory::WORKSPACE.to_owned()),
            trial: Arc::new(Semaphore::new(1)),
            followers: Arc::new(Semaphore::new(MOST_FOLLOWERS)),
            may_edit: false,
        }
    }

    /// Sets the workspace of each session, whose facts it knows. By default, all sessions use [`Memory::WORKSPACE`].
    #[must_use]
    pub fn with_workspaces(self, of: impl Fn(&LogName) -> String + Send + Sync + 'static) -> Inspector {
        Inspector { workspace: Arc::new(of), ..self }
    }

    /// Lets its pages forget facts, resolve blockers and delete sessions. Each change asks for confirmation.
    #[must_use]
    pub fn with_edits(self) -> Inspector {
        Inspector { may_edit: true, ..self }
    }
}

/// Returns the routes of an inspector, which each request must have as an extension. The caller must check access.
pub(crate) fn pages(prefix: &str) -> Router {
    let at = |path: &str| format!("{prefix}/{path}");
    Router::new()
        .route(&at(""), get(overview))
        .route(&at("session"), get(page))
        .route(&at("part"), get(part))
        .route(&at("request"), get(request))
        .route(&at("live"), get(live))
        .route(&at("edit"), get(edit::ask).post(edit::make))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    filter: String,
    #[serde(default)]
    sort: String,
    #[serde(default)]
    words: String,
}

async fn overview(Extension(inspector): Extension<Inspector>, Query(asked): Query<Asked>) -> Result<Response, Fault> {
    let filter = asked.filter.trim().to_lowercase();
    let mut logs = inspector.store.list("").await?;
    let derived: HashSet<LogName> = logs.extract_if(.., |log| log.name.is_derived()).map(|log| log.name).collect();
    logs.sort_by_key(|log| std::cmp::Reverse(log.used));
    let names: Vec<LogName> = logs.iter().map(|log| log.name.clone()).collect();
    let (until, mut unread) = (Instant::now() + PATIENCE, Vec::new());
    let mut sessions = Vec::with_capacity(logs.len());
    for log in logs {
        if log.records == 0 {
            // The session was opened but never used, or it cannot be read.
            let fault = match inspector.store.info(&log.name).await {
                Err(StoreError::Damaged { .. }) => DAMAGED,
                Err(StoreError::Newer { .. }) => "a newer version of Lookback wrote it",
                _ => continue,
            };
            sessions.push(Listed::new(log.name.as_str(), log.bytes).used(log.used).fault(fault));
            continue;
        }
        let mut known = inspector.cache.known(&log);
        // All other sessions are read in the background, and the page does not wait for them.
        if matches!(known, Known::Unread(_)) && log.bytes <= SOON && Instant::now() < until {
            inspector.cache.learn(&log).await?;
            known = inspector.cache.known(&log);
        }
        let listed = Listed::new(log.name.as_str(), log.bytes).used(log.used);
        sessions.push(match known {
            Known::Figures(figures) => listed.figures(Some(figures)),
            Known::Damaged => listed.fault(DAMAGED),
            Known::Unread(before) => {
                unread.push(log);
                listed.figures(before)
            }
        });
    }
    let is_all = unread.is_empty();
    SessionCache::read_on(&inspector.cache, unread);
    let mut overview = Overview::new(&*inspector.place, sessions);
    overview.is_all = is_all;
    overview.sessions.retain(|session| session.name.to_lowercase().contains(&filter));
    overview.sort = Sort::named(&asked.sort);
    overview.sort.sort(&mut overview.sessions);
    overview.filter = asked.filter;
    if !asked.words.trim().is_empty() {
        let found = lookback_store::messages::search(&*inspector.store, None, asked.words.as_str(), MOST_FOUND).await?;
        let hits = found.into_iter().map(|hit| (hit.session.to_string(), hit.position, hit.excerpt));
        let (facts, is_all) = inspector.facts_with(&asked.words, &names, &derived).await?;
        overview.found = Some(Found::new(asked.words, hits).facts(facts, is_all));
    }
    Ok(Html(overview.to_html()).into_response())
}

#[derive(Deserialize)]
struct Place {
    name: String,
    call: Option<u64>,
    policy: Option<String>,
}

async fn page(Extension(inspector): Extension<Inspector>, Query(place): Query<Place>) -> Result<Response, Fault> {
    let log = inspector.known(&place.name).await?;
    let read = inspector.cache.read(&log).await?;
    let log = log.name;
    let events = inspector.memory(&log).await?.events().await?;
    let related = related(&inspector.store, &log).await?.into_iter();
    let related = related.map(|other| (other.session.to_string(), other.messages)).collect();
    let may_edit = inspector.may_edit;
    let (price, counter) = (inspector.cache.price().clone(), inspector.cache.counter());
    let policy = place.policy.filter(|text| !text.trim().is_empty());
    let permit = match policy {
        Some(_) => inspector.trial.clone().acquire_owned().await.ok(),
        None => None,
    };
    // Dropped with this future if the client disconnects.
    let (waits, is_waited_for) = oneshot::channel::<Infallible>();
    let html = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let tried = policy.as_deref();
        let tried = tried.map(|text| (text, trial::replayed(text, &read.timeline, counter, &price, is_waited_for)));
        let facts = KnownFact::all(log.as_str(), &read.timeline, &events);
        let mut story = Story::new(log.as_str(), &read.timeline, &price);
        story = story.with_parts(Parts::Served { edition: read.edition.to_string() }).with_facts(facts);
        story = story.with_client_compactions(ClientCompaction::in_log(&read.timeline)).with_related(related);
        if may_edit {
            story = story.with_edits();
        }
        if let Some(call) = place.call {
            story = story.at(call);
        }
        let mut trial = Trial::default();
        if let Some((text, tried)) = &tried {
            trial.text = (*text).to_owned();
            match tried {
                Ok(tried) => {
                    trial.toml = Some(tried.toml.clone());
                    story = story.with_alternative(text, &tried.timeline);
                }
                Err(fault) => trial.fault = Some(fault.clone()),
            }
        }
        story.with_trial(trial).to_html(Contents::Shown)
    });
    let html = html.await;
    drop(waits);
    Ok(Html(html.map_err(|_| Fault::broken())?).into_response())
}

#[derive(Deserialize)]
struct Rows {
    name: String,
    edition: String,
    row: Option<usize>,
}

/// Returns the contents of one row, or of all rows: the whole message, and its forms under other edits.
async fn part(Extension(inspector): Extension<Inspector>, Query(asked): Query<Rows>) -> Result<Response, Fault> {
    let log = inspector.known(&asked.name).await?;
    let read = inspector.cache.read(&log).await?;
    // The rows are numbered as when the page was made.
    if read.edition.to_string() != asked.edition {
        return Err(Fault::new(StatusCode::CONFLICT, "the session has changed since the page was made"));
    }
    let forms = |row| lookback_inspector::forms(&read.timeline, &read.pairs, row).ok_or_else(Fault::no_row);
    match asked.row {
        Some(row) => Ok(axum::Json(forms(row)?).into_response()),
        None => {
            let all: Result<Vec<_>, Fault> = (0..read.timeline.rows.len()).map(forms).collect();
            Ok(axum::Json(all?).into_response())
        }
    }
}

#[derive(Deserialize)]
struct OfCall {
    name: String,
    call: u64,
}

/// Returns the exact request of a call, for copying.
async fn request(Extension(inspector): Extension<Inspector>, Query(asked): Query<OfCall>) -> Result<Response, Fault> {
    let log = inspector.known(&asked.name).await?;
    let read = inspector.cache.read(&log).await?;
    let call = read.timeline.call(asked.call).ok_or_else(Fault::no_call)?;
    let view = session::adapter::view_at(&*inspector.store, &log.name, call.receipt.position).await?;
    let text = lookback_inspector::request(&view, read.timeline.dialect).ok_or_else(Fault::broken)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Sends the edition of a log whenever it changes. If too many pages listen, sends it once, with a time to ask again.
async fn live(Extension(inspector): Extension<Inspector>, Query(place): Query<Place>) -> Result<Response, Fault> {
    let log = inspector.known(&place.name).await?.name;
    let store = inspector.store.clone();
    let told = |edition: Option<Edition>| {
        Event::default().data(edition.map_or("gone".to_owned(), |edition| edition.to_string()))
    };
    let Ok(place) = inspector.followers.clone().try_acquire_owned() else {
        let edition = store.info(&log).await?.map(|log| Edition::from_info(&log));
        let once = Ok::<_, Infallible>(told(edition).retry(ASKS_EVERY));
        return Ok(Sse::new(stream::iter([once])).into_response());
    };
    let told = stream::unfold((store, log, None, place), move |(store, log, before, place)| async move {
        loop {
            // Sends nothing while the store fails.
            let edition = store.info(&log).await.map(|log| log.map(|log| Edition::from_info(&log)));
            if let Ok(edition) = edition
                && before != Some(edition)
            {
                return Some((Ok::<_, Infallible>(told(edition)), (store, log, Some(edition), place)));
            }
            sleep(LOOKS_EVERY).await;
        }
    });
    let mut response = Sse::new(told).keep_alive(KeepAlive::default()).into_response();
    response.extensions_mut().insert(Endless);
    Ok(response)
}

impl Inspector {
    /// Returns the information about a session's log, which must exist.
    async fn known(&self, name: &str) -> Result<LogInfo, Fault> {
        let log: LogName = name.parse().map_err(|_| Fault::no_session())?;
        match self.store.info(&log).await? {
            Some(known) if !log.is_derived() => Ok(known),
            _ => Err(Fault::no_session()),
        }
    }

    /// Finds facts by words within a time limit, in the most recently used sessions first. Also returns whether all
    /// sessions were searched. `derived` contains the names of derived logs, which show which sessions have facts.
    async fn facts_with(
        &self,
        words: &str,
        sessions: &[LogName],
        derived: &HashSet<LogName>,
    ) -> Result<(Vec<(String, Fact)>, bool), Fault> {
        let until = Instant::now() + PATIENCE;
        let (mut found, mut workspaces) = (Vec::new(), HashSet::new());
        for session in sessions {
            // Shared facts are searched once.
            let is_first = workspaces.insert((self.workspace)(session));
            if !is_first && !derived.contains(&session.facts_of()) {
                continue;
            }
            if found.len() >= MOST_FOUND || Instant::now() > until {
                return Ok((found, false));
            }
            let facts = match self.memory(session).await?.search(words, MOST_FOUND).await {
                Ok(facts) => facts,
                // A damaged log must not hide the facts of others.
                Err(MemoryError::Store(StoreError::Damaged { .. })) => continue,
                Err(error) => return Err(error.into()),
            };
            let facts = facts.into_iter().filter(|fact| is_first || fact.id.scope == Scope::Session);
            found.extend(facts.map(|fact| (session.to_string(), fact)));
        }
        Ok((found, true))
    }

    /// Opens the memory of a session.
    async fn memory(&self, log: &LogName) -> Result<Memory, Fault> {
        Ok(Memory::open_in(self.store.clone(), log.as_str(), &(self.workspace)(log)).await?)
    }
}

/// The answer if a page cannot be shown.
#[derive(Debug)]
struct Fault {
    status: StatusCode,
    says: String,
}

impl Fault {
    fn new(status: StatusCode, says: impl Into<String>) -> Fault {
        Fault { status, says: says.into() }
    }

    fn no_session() -> Fault {
        Fault::new(StatusCode::NOT_FOUND, "there is no such session")
    }

    fn no_call() -> Fault {
        Fault::new(StatusCode::NOT_FOUND, "the session has no such call")
    }

    fn no_row() -> Fault {
        Fault::new(StatusCode::NOT_FOUND, "the session has no such message")
    }

    fn broken() -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made")
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<MemoryError> for Fault {
    fn from(error: MemoryError) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = (self.status, format!("{}\n", self.says)).into_response();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, text);
        response
    }
}
