//! The gateway's REST API under `/lookback`: the sessions, facts and figures of its store.
//!
//! The OpenAPI document is generated from this code, so the two cannot disagree.

mod access;
mod compress;
mod costs;
mod facts;
mod fault;
mod guardrail;
mod messages;
mod number;
mod search;
mod sessions;
mod time;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::access::admit;
use self::facts::{Id, Kind, Level};
pub(super) use self::fault::Fault;
use self::fault::{FaultBody, FaultText};
use self::number::Number;
use self::sessions::Name;
pub(super) use self::sessions::PRICES;
use crate::gateway::admission::Shared;
use crate::gateway::http::headers;

/// Returns the service.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let (calls, document) = described();
    let document = Json(document);
    let unknown = || async { Fault::new(StatusCode::NOT_FOUND, "there is no such path; see /lookback/openapi.json") };
    let wrong = || async { Fault::new(StatusCode::METHOD_NOT_ALLOWED, "the path does not take this method") };
    let router = Router::new()
        .nest("/lookback/v1", calls.method_not_allowed_fallback(wrong))
        .route("/lookback", any(unknown))
        .route("/lookback/", any(unknown))
        .route("/lookback/{*path}", any(unknown))
        .layer(from_fn_with_state(shared.clone(), admit));
    // The document contains no data, and a client needs it before it knows what to send.
    router.route("/lookback/openapi.json", get(move || async move { document }))
}

/// Returns the routes, and the document that describes them.
fn described() -> (Router, utoipa::openapi::OpenApi) {
    let router = OpenApiRouter::new()
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::show, sessions::delete))
        .routes(routes!(messages::list))
        .routes(routes!(messages::window))
        .routes(routes!(sessions::calls))
        .routes(routes!(search::message))
        .routes(routes!(search::recall))
        .routes(routes!(search::search))
        .routes(routes!(facts::of_session, facts::state))
        .routes(routes!(facts::shared))
        .routes(routes!(facts::show, facts::forget))
        .routes(routes!(facts::resolve))
        .routes(routes!(compress::compress))
        .routes(routes!(guardrail::litellm))
        .routes(routes!(costs::payoff));
    let (router, calls) = router.split_for_parts();
    (router, Document::openapi().nest("/lookback/v1", calls))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lookback",
        description = "The sessions of a gateway: their messages, windows, costs and facts. A gateway without keys \
                       answers only requests from its own machine, and needs no key.",
    ),
    tags(
        (name = "sessions", description = "Conversations and their windows"),
        (name = "windows", description = "Windows of requests that the gateway does not send"),
        (name = "facts", description = "Knowledge beyond the window"),
        (name = "figures", description = "The cost of sessions with and without windows"),
    ),
    security(("key" = []), ("bearer" = [])),
    components(schemas(FaultBody, FaultText, Id, Kind, Level, Name, Number)),
    modifiers(&Keys),
)]
struct Document;

/// Adds the ways to send a key of the gateway to the document.
struct Keys;

impl utoipa::Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(headers::KEY)));
        components.add_security_scheme("key", key);
        let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        components.add_security_scheme("bearer", bearer);
    }
}

#[cfg(test)]
mod tests {
    use super::described;

    /// To update the document after a change: `UPDATE_OPENAPI=1 cargo test -p lookback-server openapi`.
    #[test]
    fn the_openapi_document_of_the_docs_is_the_one_that_is_served() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
        let served = described().1.to_pretty_json().unwrap() + "\n";
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(file, &served).unwrap();
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), served);
    }
}
