//! The gateway's own answers, in the dialect of the client.
//!
//! They avoid the words by which clients recognize that a request is too long.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use lookback_wire::dialect::Dialect;

/// Returns an error of the gateway itself.
pub(crate) fn error(status: StatusCode, message: &str, dialect: Option<Dialect>) -> Response<Body> {
    let body = dialect.unwrap_or_default().error_body(status.as_u16(), message);
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
