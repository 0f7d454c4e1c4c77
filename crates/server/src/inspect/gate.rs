//! Who may look: whoever has the token, if there is one, from a page of this server or from no page.

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::host::{is_local, says_host};
use crate::serving::unread;
use crate::token::Token;

/// The cookie that has the token.
const COOKIE: &str = "lookback";

/// What a request must have.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    pub(super) token: Option<Token>,
    /// The hosts that may be named besides this machine.
    pub(super) hosts: Vec<String>,
    /// Whether forms may be sent.
    pub(super) may_edit: bool,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    token: Option<String>,
}

/// Passes a request on if it may look, and tells browsers what they may do with the answer.
pub(super) async fn admit(
    State(gate): State<Gate>,
    Query(entry): Query<Entry>,
    request: Request,
    next: Next,
) -> Response {
    if let Err((status, says)) = gate.check(&request) {
        return secured(unread((status, format!("{says}\n")).into_response()));
    }
    if let Some(token) = &gate.token {
        // The address with the token is opened once. From then on, the browser has it in a cookie.
        if entry.token.as_deref().is_some_and(|given| token.is(given)) {
            return secured(remembered(request.uri().path(), entry.token.as_deref().unwrap_or_default()));
        }
        if !(token.is_in(request.headers()) || cookie(request.headers()).is_some_and(|given| token.is(given))) {
            let says = "open the address that the program printed, with its token\n";
            return secured((StatusCode::UNAUTHORIZED, says).into_response());
        }
    }
    secured(next.run(request).await)
}

impl Gate {
    fn check(&self, request: &Request) -> Result<(), (StatusCode, &'static str)> {
        let (target, headers) = (request.uri(), request.headers());
        let is_form = *request.method() == Method::POST && self.may_edit;
        if !is_form && !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "this server only shows"));
        }
        says_host(target, headers).map_err(|wrong| (StatusCode::BAD_REQUEST, wrong))?;
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_allowed =
            |allowed: &String| host == allowed || host.rsplit_once(':').is_some_and(|(name, _)| name == allowed);
        if !is_local(target, headers) && !self.hosts.iter().any(is_allowed) {
            return Err((StatusCode::FORBIDDEN, "this server has another name"));
        }
        // No page of another site reads from here, or shows it in a frame.
        let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        let is_own = |origin: &[u8]| {
            let name = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
            name == Some(host.as_bytes())
        };
        if origin.is_some_and(|origin| !is_own(origin)) {
            return Err((StatusCode::FORBIDDEN, "a page of another site asks"));
        }
        // Browsers say with every form where it comes from.
        if is_form && origin.is_none() {
            return Err((StatusCode::FORBIDDEN, "the form does not say which page it comes from"));
        }
        Ok(())
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Leads to the same page without the token in its address.
fn remembered(path: &str, token: &str) -> Response {
    // Two slashes would lead to another site.
    let mut response = Redirect::to(&format!("/{}", path.trim_start_matches('/'))).into_response();
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Adds what a browser has to know of every answer.
pub(crate) fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The page's own policy is in the page. This one holds for everything else, and for frames.
    let policy = HeaderValue::from_static("frame-ancestors 'none'; object-src 'none'; base-uri 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    response
}
