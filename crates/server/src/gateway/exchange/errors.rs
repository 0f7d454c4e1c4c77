//! Errors of an upstream, also those that a stream begins with.

use std::time::Duration;

use axum::http::response;
use hyper::body::Incoming;
use lookback_wire::dialect::Dialect;
use tokio::time::timeout;

use crate::gateway::exchange::relay::Answer;
use crate::gateway::http::copy::Copy;
use crate::gateway::http::encoding;

/// The most bytes of an error body that are read.
const ERROR: usize = 1 << 20;
/// How long the beginning of a stream is held back, in dialects whose streams may begin with an error.
const HELD: Duration = Duration::from_millis(1500);

/// Returns an answer, and its text if it is an error.
pub(super) async fn read_error(
    parts: &response::Parts,
    incoming: Incoming,
    dialect: Dialect,
    pause: Duration,
) -> (Answer, Option<String>) {
    if parts.status.is_success() {
        let mut answer = Answer::new(incoming, Copy::new(&parts.headers, dialect), pause);
        let error = error_at_the_beginning(&mut answer, dialect).await;
        return (answer, error);
    }
    let mut answer = Answer::new(incoming, None, pause);
    if !parts.status.is_client_error() && !parts.status.is_server_error() {
        return (answer, None);
    }
    answer.read_rest(ERROR).await;
    let error = encoding::decoded(&parts.headers, &answer.bytes(), ERROR).unwrap_or_default();
    let error = String::from_utf8_lossy(&error).into_owned();
    (answer, Some(error))
}

/// Reads the beginning of a stream until the model says something, if an error could come instead. Returns the error.
async fn error_at_the_beginning(answer: &mut Answer, dialect: Dialect) -> Option<String> {
    let is_stream = answer.copy().is_some_and(Copy::is_stream);
    if !is_stream || !dialect.has_errors_in_streams() {
        return None;
    }
    let is_open = |answer: &Answer| answer.copy().is_some_and(|copy| !copy.has_begun() && copy.error().is_none());
    // Frames are read whole or not at all, so nothing is lost at the timeout.
    let _ = timeout(HELD, async { while is_open(answer) && answer.read().await.is_some() {} }).await;
    answer.copy().filter(|copy| !copy.has_begun()).and_then(Copy::error).map(str::to_owned)
}
