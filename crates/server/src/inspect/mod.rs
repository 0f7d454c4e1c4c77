//! The inspector: pages that show what a model saw of the sessions of a store, at every call.
//!
//! It only reads, unless it may [change](Inspector::with_edits) a few things. Contents of sessions are text in its pages, and a
//! page loads nothing from elsewhere.

mod edit;
mod gate;
mod http;
mod shelf;
mod trial;

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
use lookback::memory::{Memory, MemoryError};
use lookback::store::IntoStore;
use lookback::{LogName, Price, Settings, Store, StoreError, session};
use lookback_inspector::{Contents, Found, KnownFact, Listed, Overview, Parts, Sort, Story, Trial};
use serde::Deserialize;
use tokio::time::sleep;

pub(crate) use self::gate::secured;
pub use self::http::serve;
use self::shelf::Shelf;

/// How long the overview reads sessions that it does not know yet.
const PATIENCE: Duration = Duration::from_millis(700);
/// How many messages a search finds at most.
const MOST_FOUND: usize = 50;
/// How often it is looked whether a session went on.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// The inspector of a store.
///
/// ```no_run
/// use lookback::{Prices, SqliteStore};
/// use lookback_server::inspect::{Inspector, serve};
/// use lookback_server::{ConnectionLimits, Door};
///
/// let store = SqliteStore::open("memory.db")?;
/// let price = Prices::builtin().find("anthropic-5m").ok_or("no such price")?;
/// let inspector = Inspector::new(store, "memory.db", price.clone());
/// let door = Door { address: "127.0.0.1:8788".parse()?, token: None, hosts: vec![], limits: ConnectionLimits::default() };
/// serve(inspector, door, |address| println!("http://{address}/"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Inspector {
    store: Arc<dyn Store>,
    place: Arc<str>,
    shelf: Arc<Shelf>,
    may_edit: bool,
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Inspector {
    /// Creates the inspector of a store. `place` names the store to people, and the prices are those of all costs.
    pub fn new(store: impl IntoStore, place: impl Into<Arc<str>>, price: Price) -> Inspector {
        // The counter of a session that is opened without a model.
        let counter = Settings::for_model(lookback::Dialect::default(), "gpt-4o").counter;
        let store = store.into_store();
        Inspector {
            shelf: Arc::new(Shelf::new(store.clone(), counter, price)),
            store,
            place: place.into(),
            may_edit: false,
        }
    }

    /// Lets its pages forget a fact, resolve a blocker, and delete a session. Each is asked for twice.
    #[must_use]
    pub fn with_edits(self) -> Inspector {
        Inspector { may_edit: true, ..self }
    }
}

/// Returns the pages of an inspector, which an extension of each request names. Whoever serves them has to check who asks.
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
    logs.retain(|log| log.records > 0 && !log.name.is_derived());
    logs.sort_by_key(|log| std::cmp::Reverse(log.used));
    let until = Instant::now() + PATIENCE;
    let (mut sessions, mut unread) = (Vec::with_capacity(logs.len()), Vec::new());
    for log in logs {
        let is_in_time = Instant::now() < until;
        let figures = inspector.shelf.figures(&log.name, log.records, is_in_time).await?;
        sessions.push(Listed::new(log.name.as_str(), log.bytes).used(log.used).figures(figures.clone()));
        if figures.is_none() && !is_in_time {
            unread.push((log.name, log.records));
        }
    }
    Shelf::read_on(&inspector.shelf, unread);
    let mut overview = Overview::new(&*inspector.place, sessions);
    overview.sessions.retain(|session| session.name.to_lowercase().contains(&filter));
    overview.sort = Sort::named(&asked.sort);
    overview.sort.sort(&mut overview.sessions);
    overview.filter = asked.filter;
    if !asked.words.trim().is_empty() {
        let found = session::search(&*inspector.store, None, asked.words.as_str(), MOST_FOUND).await?;
        let hits = found.into_iter().map(|hit| (hit.session.to_string(), hit.position, hit.excerpt));
        overview.found = Some(Found::new(asked.words, hits));
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
    let read = inspector.shelf.read(&log).await?;
    let events = Memory::open(inspector.store.clone(), log.as_str()).await?.events().await?;
    let may_edit = inspector.may_edit;
    let (price, counter) = (inspector.shelf.price().clone(), inspector.shelf.counter());
    let html = tokio::task::spawn_blocking(move || {
        let tried = place.policy.as_deref().filter(|text| !text.trim().is_empty());
        let tried = tried.map(|text| (text, trial::replayed(text, &read.timeline, counter, &price)));
        let facts = KnownFact::all(log.as_str(), &read.timeline, &events);
        let mut story = Story::new(log.as_str(), &read.timeline, &price);
        story = story.with_parts(Parts::Served { end: read.end }).with_facts(facts);
        if may_edit {
            story = story.with_edits();
        }
        if let Some(call) = place.call {
            story = story.at(call);
        }
        match &tried {
            Some((text, Ok(tried))) => {
                let toml = Some(tried.toml.clone());
                story = story.with_alternative(text, &tried.timeline);
                story = story.with_trial(Trial { text: (*text).to_owned(), toml, fault: None });
            }
            Some((text, Err(fault))) => {
                let (text, fault) = ((*text).to_owned(), Some(fault.clone()));
                story = story.with_trial(Trial { text, toml: None, fault });
            }
            None => story = story.with_trial(Trial::default()),
        }
        story.to_html(Contents::Shown)
    });
    Ok(Html(html.await.map_err(|_| Fault::broken())?).into_response())
}

#[derive(Deserialize)]
struct Row {
    name: String,
    row: usize,
}

/// The contents of one row: the whole message, and what was sent of it.
async fn part(Extension(inspector): Extension<Inspector>, Query(asked): Query<Row>) -> Result<Response, Fault> {
    let log = inspector.known(&asked.name).await?;
    let read = inspector.shelf.read(&log).await?;
    let forms = lookback_inspector::forms(&read.timeline, &read.pairs, asked.row).ok_or_else(Fault::no_row)?;
    Ok(axum::Json(forms).into_response())
}

#[derive(Deserialize)]
struct OfCall {
    name: String,
    call: u64,
}

/// The exact request of a call, to be copied.
async fn request(Extension(inspector): Extension<Inspector>, Query(asked): Query<OfCall>) -> Result<Response, Fault> {
    let log = inspector.known(&asked.name).await?;
    let read = inspector.shelf.read(&log).await?;
    let call = read.timeline.call(asked.call).ok_or_else(Fault::no_call)?;
    let view = session::view_at(&*inspector.store, &log, call.receipt.position).await?;
    let text = lookback_inspector::request(&view, read.timeline.dialect).ok_or_else(Fault::broken)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Tells the length of a log whenever it changes.
async fn live(Extension(inspector): Extension<Inspector>, Query(place): Query<Place>) -> Result<Response, Fault> {
    let log = inspector.known(&place.name).await?;
    let store = inspector.store.clone();
    let told = stream::unfold((store, log, None), |(store, log, before)| async move {
        loop {
            let end = store.head(&log, None).await.ok().flatten().map_or(0, |head| head.end);
            if before != Some(end) {
                return Some((Ok::<_, Infallible>(Event::default().data(end.to_string())), (store, log, Some(end))));
            }
            sleep(LOOKS_EVERY).await;
        }
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::default()).into_response())
}

impl Inspector {
    /// Returns the name of a session, which must exist.
    async fn known(&self, name: &str) -> Result<LogName, Fault> {
        let log: LogName = name.parse().map_err(|_| Fault::no_session())?;
        match self.store.head(&log, None).await? {
            Some(_) if !log.is_derived() => Ok(log),
            _ => Err(Fault::no_session()),
        }
    }
}

/// What is answered if a page cannot be shown.
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
