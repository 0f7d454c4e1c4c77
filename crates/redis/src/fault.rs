//! The errors of a server: whether they are temporary, and how they are reported. No error contains a record or a
//! password.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use lookback_network::{describe, out_of_reach};
use lookback_store::StoreError;

/// An error inside a call.
#[derive(Debug)]
pub(super) enum Failure {
    Driver(RedisError),
    /// There was no answer in time.
    Late,
    /// An error that needs no explanation.
    Store(StoreError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Failure::Driver(error)
    }
}

/// The codes of temporary errors of a server.
const PASSING: [&str; 10] =
    ["ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS", "READONLY", "TRYAGAIN", "UNBLOCKED"];

impl Failure {
    /// Returns whether the same call may succeed a moment later: the connection was lost, the server restarts, or
    /// another one takes over.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Failure::Driver(error) => may_pass(error),
            Failure::Late | Failure::Store(_) => false,
        }
    }

    /// Returns whether the server may have carried out the request.
    pub(super) fn is_unclear(&self) -> bool {
        match self {
            Failure::Late => true,
            Failure::Driver(error) => code(error).is_none() && is_of_network(error),
            Failure::Store(_) => false,
        }
    }

    /// Returns whether the connection should not be used again.
    pub(super) fn ends_connection(&self) -> bool {
        // Only a new connection leads to the new primary after a fail-over.
        self.is_unclear() || matches!(self, Failure::Driver(error) if code(error).as_deref() == Some("READONLY"))
    }
}

/// Returns the first word of a server's error.
pub(super) fn code(error: &RedisError) -> Option<String> {
    if let Some(code) = error.code() {
        return Some(code.to_owned());
    }
    let of_several = error.clone().into_server_errors()?;
    of_several.first().map(|(_, error)| error.code().to_owned())
}

/// Returns whether another try may succeed a moment later.
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

/// Converts the driver's errors.
pub(super) fn explain(place: &str, patience: Duration, failure: Failure) -> StoreError {
    let (place, may_pass) = (place.to_owned(), failure.may_pass());
    let error = match failure {
        Failure::Store(error) => return error,
        Failure::Late => return StoreError::Late { place, limit: patience },
        Failure::Driver(error) => error,
    };
    let Some(code) = code(&error) else {
        return match error.kind() {
            ErrorKind::AuthenticationFailed => {
                let source = Box::new(Said::new("AUTH".to_owned(), &error));
                StoreError::Denied { place, source }
            }
            ErrorKind::MasterNameNotFoundBySentinel => StoreError::Missing { place },
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => StoreError::NotAStore { place },
            _ if may_pass => out_of_reach(&place, patience, describe(&error)),
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
        code if PASSING.contains(&code) => out_of_reach(&place, patience, source.to_string()),
        _ => StoreError::Backend { place, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_accepted_is_not_tried_again() {
        let passes = |kind: io::ErrorKind| {
            let failure = Failure::Driver(io::Error::new(kind, "as the system says").into());
            // The request may have been sent before the connection broke.
            assert!(failure.is_unclear());
            failure.may_pass()
        };
        assert!(passes(io::ErrorKind::ConnectionRefused) && passes(io::ErrorKind::TimedOut));
        assert!(!passes(io::ErrorKind::InvalidData) && !passes(io::ErrorKind::InvalidInput));
    }
}
