//! The errors of a server: whether they are temporary, and how they are reported. No error contains a record or a
//! password.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use lookback_network::{Failure, Remote};
use lookback_store::StoreError;

/// The codes of temporary errors of a server.
const PASSING: [&str; 10] =
    ["ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS", "READONLY", "TRYAGAIN", "UNBLOCKED"];

/// Converts the driver's error of a try of a call that may take this long.
pub(super) fn failure(remote: &Remote, patience: Duration, error: RedisError) -> Failure {
    let (may_pass, is_unclear) = (may_pass(&error), is_unclear(&error));
    Failure::new(explain(remote, patience, error), may_pass, is_unclear)
}

/// Returns whether the server may have carried out the request.
fn is_unclear(error: &RedisError) -> bool {
    code(error).is_none() && is_of_network(error)
}

/// Returns whether the connection should not be used again.
pub(super) fn ends_connection(error: &RedisError) -> bool {
    // Only a new connection leads to the new primary after a fail-over.
    is_unclear(error) || code(error).as_deref() == Some("READONLY")
}

/// Returns the first word of a server's error.
pub(super) fn code(error: &RedisError) -> Option<String> {
    if let Some(code) = error.code() {
        return Some(code.to_owned());
    }
    let of_several = error.clone().into_server_errors()?;
    of_several.first().map(|(_, error)| error.code().to_owned())
}

/// Returns whether the same call may succeed a moment later: the connection was lost, the server restarts, or another
/// one takes over.
pub(super) fn may_pass(error: &RedisError) -> bool {
    match code(error) {
        Some(code) => PASSING.contains(&code.as_str()),
        None => is_of_network(error) && !is_refused(error),
    }
}

fn is_of_network(error: &RedisError) -> bool {
    error.is_io_error() || error.kind() == ErrorKind::ClusterConnectionNotFound
}

/// Returns whether a certificate was refused, or the expected name is invalid. These errors are permanent.
fn is_refused(error: &RedisError) -> bool {
    let kind = system_error(error).map(io::Error::kind);
    matches!(kind, Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
}

/// Returns the system's error that caused a driver's error. The driver shares it between copies.
fn system_error(error: &RedisError) -> Option<&io::Error> {
    let source = error.source()?;
    match source.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(shared) => shared.downcast_ref(),
        None => source.downcast_ref(),
    }
}

/// The server's message, without quoted parts.
#[derive(Debug, thiserror::Error)]
#[error("Redis: {message} ({code})")]
struct Said {
    code: String,
    message: String,
}

impl Said {
    fn new(code: String, error: &RedisError) -> Self {
        let of_several = error.clone().into_server_errors();
        let details = of_several.as_ref().and_then(|all| all.first()).and_then(|(_, error)| error.details());
        let message = details.or(error.detail()).unwrap_or_else(|| error.category());
        let message = message.split(['\'', '"', '`']).next().unwrap_or_default().trim();
        Said { code, message: message.to_owned() }
    }
}

fn explain(remote: &Remote, patience: Duration, error: RedisError) -> StoreError {
    let place = remote.place.clone();
    let Some(code) = code(&error) else {
        return match error.kind() {
            ErrorKind::AuthenticationFailed => {
                let source = Box::new(Said::new("AUTH".to_owned(), &error));
                StoreError::Denied { place, source }
            }
            ErrorKind::MasterNameNotFoundBySentinel => StoreError::Missing { place },
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => StoreError::NotAStore { place },
            _ if may_pass(&error) => remote.out_of_reach(patience, &error),
            _ => StoreError::Unreachable { place, source: Box::new(error) },
        };
    };
    let source = Box::new(Said::new(code.clone(), &error));
    match code.as_str() {
        "NOAUTH" | "NOPERM" | "WRONGPASS" => StoreError::Denied { place, source },
        "OOM" => StoreError::Full { place },
        "MISCONF" if source.message.contains("No space left") => StoreError::Full { place },
        "READONLY" => StoreError::ReadOnly { place },
        "WRONGTYPE" => StoreError::NotAStore { place },
        code if PASSING.contains(&code) => remote.out_of_reach(patience, &*source),
        _ => StoreError::Backend { place, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_accepted_is_not_tried_again() {
        let passes = |kind: io::ErrorKind| {
            let error = RedisError::from(io::Error::new(kind, "as the system says"));
            // The request may have been sent before the connection broke.
            assert!(is_unclear(&error));
            may_pass(&error)
        };
        assert!(passes(io::ErrorKind::ConnectionRefused) && passes(io::ErrorKind::TimedOut));
        assert!(!passes(io::ErrorKind::InvalidData) && !passes(io::ErrorKind::InvalidInput));
    }
}
