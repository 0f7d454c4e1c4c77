//! The body of a request: read within limits, or passed on piece by piece.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Body as _;
use serde::Deserialize;
use tokio::time::timeout;

/// The reason that the body of a request was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    #[error("the body of the request has more bytes than this gateway accepts")]
    Length,
    #[error("the JSON of the request is nested deeper than this gateway accepts")]
    Nesting,
    #[error("the body of the request did not arrive in time")]
    Late,
    #[error("the body of the request did not arrive completely")]
    Cut,
}

impl Unread {
    /// Returns the status of the answer. It is never 413, because clients then compact their conversation.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Unread::Length | Unread::Nesting | Unread::Cut => StatusCode::BAD_REQUEST,
            Unread::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// Reads the body of a request, of at most `limit` bytes, each piece of which comes within `patience`.
pub(crate) async fn read(mut body: Body, limit: usize, patience: Duration) -> Result<Bytes, Unread> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = timeout(patience, body.frame()).await.map_err(|_| Unread::Late)? {
        let Ok(data) = frame.map_err(|_| Unread::Cut)?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limit {
            return Err(Unread::Length);
        }
        pieces.push(data);
    }
    let body = match pieces.len() {
        1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    };
    Ok(body)
}

/// Returns a body that is passed on piece by piece, without a limit on its length. It fails if a piece does not arrive
/// in time.
pub(crate) fn patient(body: Body, pause: Duration) -> Body {
    // An empty body has a known length, which a body of pieces does not have.
    if body.is_end_stream() {
        return body;
    }
    let next = move |mut body: Body| async move {
        let frame = match timeout(pause, body.frame()).await {
            Ok(frame) => frame?.map_err(|_| Unread::Cut),
            Err(_) => Err(Unread::Late),
        };
        Some((frame, body))
    };
    Body::new(StreamBody::new(Box::pin(unfold(body, next))))
}

/// Returns the model that a body names.
pub(crate) fn model_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        model: Option<String>,
    }
    serde_json::from_slice::<Asked>(body).ok()?.model
}

/// Returns the nesting depth of a JSON text, counted by its brackets.
pub(crate) fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn nesting_is_counted_outside_of_strings() {
        assert_eq!(nesting(br#"{"a":[1,{"b":"]]\"{{"}]}"#), 3);
        assert_eq!(nesting(b"1"), 0);
        assert_eq!(nesting("[".repeat(1000).as_bytes()), 1000);
    }
}
