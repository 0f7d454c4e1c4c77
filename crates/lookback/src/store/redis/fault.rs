//! What goes wrong with a server, whether it may pass, and how it is reported. No error has a record or a password in
//! it.

use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::store::StoreError;

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

/// What a server says while it cannot do what it could before, or will be able to.
const PASSING: [&str; 10] =
    ["ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS", "READONLY", "TRYAGAIN", "UNBLOCKED"];

impl Failure {
    /// Whether the same call may succeed a moment later: the connection was lost, the server restarts, or another one
    /// takes over.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Failure::Driver(error) => match code(error) {
                Some(code) => PASSING.contains(&code.as_str()),
                // While another one takes over, Sentinels know none.
                None => is_of_network(error) || error.kind() == ErrorKind::MasterNameNotFoundBySentinel,
            },
            _ => false,
        }
    }

    /// Whether it is unknown if the server did what it was asked.
    pub(super) fn is_unclear(&self) -> bool {
        match self {
            Failure::Late => true,
            Failure::Driver(error) => code(error).is_none() && is_of_network(error),
            Failure::Store(_) => false,
        }
    }

    /// Whether the connection should not be used again.
    pub(super) fn ends_connection(&self) -> bool {
        // A server that was the primary once is found by way of its old connection only.
        self.is_unclear() || matches!(self, Failure::Driver(error) if code(error).as_deref() == Some("READONLY"))
    }
}

/// The first word of an error of the server.
pub(super) fn code(error: &RedisError) -> Option<String> {
    if let Some(code) = error.code() {
        return Some(code.to_owned());
    }
    let of_several = error.clone().into_server_errors()?;
    of_several.first().map(|(_, error)| error.code().to_owned())
}

fn is_of_network(error: &RedisError) -> bool {
    // A certificate that is not accepted stays so.
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    let is_refused = source.is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData);
    (error.is_io_error() || error.kind() == ErrorKind::ClusterConnectionNotFound) && !is_refused
}

/// What a server said, without what it quotes.
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
    let place = place.to_owned();
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
        code if PASSING.contains(&code) => StoreError::Unreachable { place, source },
        _ => StoreError::Backend { place, source },
    }
}
