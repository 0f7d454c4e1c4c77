//! Changes through the inspector, if they are enabled: forget a fact, resolve a blocker, delete a session.
//!
//! A page asks for confirmation first, and only its form makes the change.

use axum::Extension;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use lookback_facts::{FactId, MemoryError, Source, Speaker};
use lookback_inspector::Change;
use lookback_store::LogName;
use lookback_store::purge;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{Fault, Inspector};

/// A requested change: first in an address, and then in a form.
#[derive(Deserialize)]
pub(super) struct Wish {
    name: String,
    change: Kind,
    #[serde(default)]
    fact: String,
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Forget,
    Resolve,
    Delete,
}

/// Returns the page that asks for confirmation.
pub(super) async fn ask(
    Extension(inspector): Extension<Inspector>,
    Query(wish): Query<Wish>,
) -> Result<Response, Fault> {
    let log = inspector.editable(&wish.name).await?;
    let change = wish.change(&inspector, &log).await?;
    Ok(Html(change.to_html(log.as_str(), None)).into_response())
}

/// Makes the change of a form.
pub(super) async fn make(
    Extension(inspector): Extension<Inspector>,
    Form(wish): Form<Wish>,
) -> Result<Response, Fault> {
    let log = inspector.editable(&wish.name).await?;
    // The fact or session may have changed since the page was shown.
    let change = wish.change(&inspector, &log).await?;
    let memory = inspector.memory(&log).await?;
    let why = wish.why.trim();
    let by = Source::new(Speaker::Person);
    let done = match &change {
        Change::Forget(fact) if why.is_empty() => memory.forget(fact.id, by).await,
        Change::Forget(fact) => memory.forget_because(fact.id, why, by).await,
        Change::Resolve(fact) => memory.resolve(fact.id, why, by).await,
        Change::Delete { .. } => {
            purge(&*inspector.store, &log).await?;
            inspector.cache.forget(&log);
            return Ok(Redirect::to("./").into_response());
        }
        _ => return Err(Fault::broken()),
    };
    match done {
        Ok(()) => {
            let name = utf8_percent_encode(log.as_str(), NON_ALPHANUMERIC);
            Ok(Redirect::to(&format!("session?name={name}#facts")).into_response())
        }
        Err(MemoryError::Refused(refused)) => {
            let page = Html(change.to_html(log.as_str(), Some(&refused.to_string())));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

impl Wish {
    async fn change(&self, inspector: &Inspector, log: &LogName) -> Result<Change, Fault> {
        if matches!(self.change, Kind::Delete) {
            let entries = inspector.known(log.as_str()).await?.records;
            return Ok(Change::Delete { entries });
        }
        let gone =
            || Fault::new(StatusCode::NOT_FOUND, "the session has no such fact, or it was forgotten or replaced");
        let id: FactId = self.fact.parse().map_err(|_| gone())?;
        let fact = inspector.memory(log).await?.get(id).await?.ok_or_else(gone)?;
        Ok(if matches!(self.change, Kind::Resolve) { Change::Resolve(fact) } else { Change::Forget(fact) })
    }
}

impl Inspector {
    /// Returns the name of a session, or an error if changes are not enabled.
    async fn editable(&self, name: &str) -> Result<LogName, Fault> {
        if !self.may_edit {
            return Err(Fault::new(
                StatusCode::FORBIDDEN,
                "nothing is changed here; start `lookback inspect` with --edit",
            ));
        }
        Ok(self.known(name).await?.name)
    }
}
