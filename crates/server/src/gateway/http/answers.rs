//! The gateway's own answers, in the dialect of the client.
//!
//! They avoid the words by which clients recognize that a request is too long.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use lookback_wire::dialect::Dialect;
use serde_json::json;

/// Returns an error of the gateway itself.
pub(crate) fn error(status: StatusCode, message: &str, dialect: Option<Dialect>) -> Response<Body> {
    let (kind, canonical) = match status {
        StatusCode::UNAUTHORIZED => ("authentication_error", "UNAUTHENTICATED"),
        StatusCode::FORBIDDEN => ("permission_error", "PERMISSION_DENIED"),
        StatusCode::NOT_FOUND => ("not_found_error", "NOT_FOUND"),
        StatusCode::TOO_MANY_REQUESTS => ("rate_limit_error", "RESOURCE_EXHAUSTED"),
        status if status.is_client_error() => ("invalid_request_error", "INVALID_ARGUMENT"),
        _ => ("gateway_error", "UNAVAILABLE"),
    };
    let body = match dialect {
        Some(Dialect::Anthropic) => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Some(Dialect::Gemini) => {
            json!({"error": {"code": status.as_u16(), "message": message, "status": canonical}})
        }
        _ => json!({"error": {"message": message, "type": kind, "param": null, "code": null}}),
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
