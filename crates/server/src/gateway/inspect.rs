//! The inspector of the gateway's store, under `/inspect`. Each key sees the sessions of its tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lookback_replay::prices::Prices;
use lookback_store::Tenant;

use crate::gateway::admission::Admission;
use crate::gateway::admission::Shared;
use crate::gateway::admission::caller::workspace;
use crate::gateway::http::headers;
use crate::gateway::rest::{Fault, PRICES, admit};
use crate::inspect::{Inspector, pages, secured};

/// The most tenants with an inspector. Beyond that, all inspectors are dropped, and read their sessions again.
const MOST: usize = 64;

/// The inspectors by tenant. They cache the sessions that they have read.
type Inspectors = Arc<Mutex<HashMap<Option<Tenant>, Inspector>>>;

/// Returns the service.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    pages("/inspect")
        .route("/inspect", get(|| async { Redirect::permanent("/inspect/") }))
        .layer(from_fn_with_state(Inspectors::default(), of_tenant))
        .layer(from_fn_with_state(shared.clone(), admit))
        .layer(from_fn(keyed))
}

/// Takes the password of basic authentication as the key.
async fn keyed(mut request: Request, next: Next) -> Response {
    if let Some(key) = password(request.headers()) {
        request.headers_mut().remove(header::AUTHORIZATION);
        request.headers_mut().insert(headers::KEY, key);
    }
    let mut response = secured(next.run(request).await);
    if response.status() == StatusCode::UNAUTHORIZED {
        let asks = HeaderValue::from_static("Basic realm=\"a key of the gateway as the password\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, asks);
    }
    response
}

fn password(headers: &HeaderMap) -> Option<HeaderValue> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = given.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let at = decoded.iter().position(|byte| *byte == b':')?;
    HeaderValue::from_bytes(decoded.get(at + 1..)?).ok()
}

/// Attaches the inspector of a key's tenant to a request.
async fn of_tenant(
    State(inspectors): State<Inspectors>,
    Extension(admission): Extension<Admission>,
    mut request: Request,
    next: Next,
) -> Response {
    let known = inspectors.lock().unwrap_or_else(PoisonError::into_inner).get(&admission.caller.tenant).cloned();
    let inspector = match known {
        Some(inspector) => inspector,
        None => match (admission.store(), Prices::builtin().find(PRICES)) {
            (Ok(store), Some(price)) => {
                let tenant = admission.caller.tenant.clone();
                let made = Inspector::new(store, "the gateway's store", price.clone())
                    .with_workspaces(move |session| workspace(tenant.as_ref(), session).to_owned());
                let mut inspectors = inspectors.lock().unwrap_or_else(PoisonError::into_inner);
                if inspectors.len() >= MOST {
                    inspectors.clear();
                }
                inspectors.entry(admission.caller.tenant.clone()).or_insert(made).clone()
            }
            (Err(error), _) => return Fault::from(error).into_response(),
            (Ok(_), None) => {
                return Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "there are no prices").into_response();
            }
        },
    };
    request.extensions_mut().insert(inspector);
    next.run(request).await
}
