//! Access checks of the inspector: the token, the host name, and the page that a request comes from.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::percent_decode_str;

use crate::host::{is_at, is_local, is_one_of, says_host};
use crate::page::is_foreign;
use crate::serving::unread;
use crate::token::Token;

/// The requirements for requests.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    pub(super) token: Option<Token>,
    /// The host names that are allowed in addition to this machine.
    pub(super) hosts: Vec<String>,
    /// The address that the server listens on.
    pub(super) listens: IpAddr,
    /// Whether forms may be sent.
    pub(super) may_edit: bool,
}

/// Passes a request on if it meets the requirements, and adds security headers to the answer.
pub(super) async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    if let Err((status, says)) = gate.check(&request) {
        return secured(unread((status, format!("{says}\n")).into_response()));
    }
    let (target, headers) = (request.uri(), request.headers());
    if let Some(token) = &gate.token {
        // The address with the token is opened once. From then on, the browser sends a cookie.
        if given(target).is_some_and(|given| token.is(&given)) {
            return secured(remembered(target, headers, token));
        }
        let is_known = cookie(headers).is_some_and(|given| token.is_digest(given));
        if !(token.is_in(headers) || is_known) {
            let says = "open the address that the program printed, with its token\n";
            return secured(unread((StatusCode::UNAUTHORIZED, says).into_response()));
        }
    }
    secured(next.run(request).await)
}

impl Gate {
    fn check(&self, request: &Request) -> Result<(), (StatusCode, &'static str)> {
        let (target, headers) = (request.uri(), request.headers());
        let is_form = *request.method() == Method::POST && self.may_edit;
        if !is_form && !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "this server is read-only"));
        }
        says_host(target, headers).map_err(|wrong| (StatusCode::BAD_REQUEST, wrong))?;
        let is_ours = is_local(target, headers)
            || is_one_of(target, headers, &self.hosts)
            || is_at(target, headers, self.listens);
        if !is_ours {
            return Err((StatusCode::FORBIDDEN, "the request names an unknown host; allow it with --allow-host"));
        }
        // Pages of other sites may neither read from here nor cause work here. Links from them may be followed.
        if is_foreign(headers, !is_form) {
            return Err((StatusCode::FORBIDDEN, "the request comes from a page of another site"));
        }
        // Browsers send the origin with every form.
        if is_form && !headers.contains_key(header::ORIGIN) {
            return Err((StatusCode::FORBIDDEN, "the form does not say which page it comes from"));
        }
        Ok(())
    }
}

/// Returns the members of an address's query, not decoded.
fn members(target: &Uri) -> impl Iterator<Item = &str> {
    target.query().unwrap_or_default().split('&').filter(|member| !member.is_empty())
}

/// Returns the token in an address. A `+` in it stays a `+`.
fn given(target: &Uri) -> Option<String> {
    let given = members(target).find_map(|member| member.strip_prefix("token="))?;
    percent_decode_str(given).decode_utf8().ok().map(Into::into)
}

/// Returns the name of the cookie. It contains the port, because browsers send cookies to all ports of a host, and
/// several inspectors may run.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.parse::<u16>().is_ok());
    format!("lookback-{}", port.unwrap_or("80"))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(named, _)| *named == name).map(|(_, value)| value)
}

/// Redirects to the same page without the token in its address, and sets a cookie. The cookie has a digest of the
/// token, because browsers also send it to other programs on this host. The digest opens this inspector, but nothing
/// else.
fn remembered(target: &Uri, headers: &HeaderMap, token: &Token) -> Response {
    let others: Vec<&str> = members(target).filter(|member| !member.starts_with("token=")).collect();
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    // Two slashes would lead to another site.
    let mut response = Redirect::to(&format!("/{}{query}", target.path().trim_start_matches('/'))).into_response();
    let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Lax", cookie_name(headers), token.digest());
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Adds security headers to an answer.
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
    // A page has its own policy in a `meta` element. This one is for all other answers, and for frames.
    let policy = HeaderValue::from_static("frame-ancestors 'none'; object-src 'none'; base-uri 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    response
}
