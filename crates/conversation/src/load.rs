//! Reading the lines of a scope from the store, after a restart or if another process began them.

use std::sync::Arc;

use lookback_engine::Settings;
use lookback_engine::transcript::{Arrival, Origin};
use lookback_facts::tools;
use lookback_session::adapter::Resent;
use lookback_session::{Error, HistoryEntry, Session};
use lookback_store::{LogName, Store, StoreError};
use lookback_wire::message::Role;

use super::line::Line;
use super::outline::Outline;
use super::path::{Fingerprint, Path, opening, words};
use super::scope::Scope;
use super::tools::Tools;

/// The most lines of a scope that are read. Older ones are not continued.
const MOST: usize = 64;

/// Reads the lines of a scope, except those in memory, the oldest first.
pub(super) async fn lines<S: Default>(
    store: &Arc<dyn Store>,
    scope: &Scope,
    remembered: &[Arc<Line<S>>],
) -> Result<Vec<Arc<Line<S>>>, StoreError> {
    let listed = store.list(scope.prefix()).await?;
    let mut names: Vec<(u64, LogName)> =
        listed.into_iter().filter_map(|info| Some((scope.number(&info.name)?, info.name))).collect();
    names.sort();
    let first = names.len().saturating_sub(MOST);
    let mut lines = Vec::new();
    for (_, name) in names.into_iter().skip(first) {
        if remembered.iter().all(|line| line.name != name) {
            let outline = outline(store, &name).await?;
            lines.push(Line::new(name, outline));
        }
    }
    Ok(lines)
}

/// Reads the outline of a line from its log.
async fn outline(store: &Arc<dyn Store>, name: &LogName) -> Result<Outline, StoreError> {
    let opened = Session::open(store.clone(), name.as_str(), Settings::default()).await;
    let mut session = match opened {
        Ok(session) => session,
        Err(Error::Store(error)) => return Err(error),
        // A log that cannot be read is not continued.
        Err(_) => return Ok(Outline::default()),
    };
    let history = match session.history().await {
        Ok(history) => history,
        Err(Error::Store(error)) => return Err(error),
        Err(_) => return Ok(Outline::default()),
    };
    let (arrivals, path) = (|| arrivals(&history), path(&history));
    let answer = arrivals().rfind(|arrival| arrival.message.role() == Role::Assistant);
    let answer = answer.map(|answer| words(&answer.message)).unwrap_or_default();
    let replied = arrivals().rev().filter(|arrival| arrival.message.role() == Role::Assistant).nth(1);
    let replied = replied.filter(|arrival| arrival.origin == Origin::Model).map(|arrival| arrival.digest);
    let tools = session.view().preamble().map(Tools::from_preamble).unwrap_or_default();
    // Lookback's own tools were added by a gateway, and not declared by the client.
    Ok(Outline::new(path, tools.without(&tools::tools()), answer, replied))
}

/// Returns the messages of a history that are not Lookback's own.
fn arrivals(history: &[HistoryEntry]) -> impl DoubleEndedIterator<Item = &Arrival> {
    history.iter().map(|entry| &entry.arrival).filter(|arrival| arrival.origin != Origin::Lookback)
}

/// Returns the path of a history.
pub(super) fn path(history: &[HistoryEntry]) -> Path {
    let said =
        |arrival: &Arrival| Fingerprint { resent: Resent::new(arrival.digest, arrival.message.role()), bytes: None };
    let path = Path::new(arrivals(history).map(said).collect());
    let opening = arrivals(history).nth(path.first()).map(|first| opening(&first.message));
    path.with_opening(opening)
}
