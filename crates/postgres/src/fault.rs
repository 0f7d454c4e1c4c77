//! The errors of a server: whether they are temporary, and how they are reported. No error contains a row or a
//! password.

use std::io::ErrorKind;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};

use lookback_network::{describe, out_of_reach};
use lookback_store::StoreError;

/// An error inside a call.
#[derive(Debug)]
pub(super) enum Failure {
    Driver(tokio_postgres::Error),
    Pool(PoolError),
    /// There was no answer in time.
    Late,
    /// An error that needs no explanation.
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Driver(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Failure::Driver(error),
            PoolError::Timeout(_) => Failure::Late,
            other => Failure::Pool(other),
        }
    }
}

impl Failure {
    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Failure::Driver(error) => error.code(),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed a moment later: the connection was lost, the server restarts, or two
    /// transactions conflicted.
    pub(super) fn may_pass(&self) -> bool {
        match (self, self.code()) {
            (Failure::Driver(_), Some(code)) => {
                *code == SqlState::T_R_SERIALIZATION_FAILURE
                    || *code == SqlState::T_R_DEADLOCK_DETECTED
                    || *code == SqlState::TOO_MANY_CONNECTIONS
                    // Stopping a server may signal each of its processes. The statement is then rolled back.
                    || *code == SqlState::QUERY_CANCELED
                    || is_gone(code)
            }
            (Failure::Driver(error), None) => is_lost(error),
            // No connection was free in time, but there may be time left.
            (Failure::Late, _) => true,
            _ => false,
        }
    }

    /// Returns a description of why a connection failed.
    pub(super) fn describe(&self) -> String {
        match self {
            Failure::Driver(error) => match error.as_db_error() {
                Some(said) => Said::new(said).to_string(),
                None => describe(error),
            },
            Failure::Pool(error) => describe(error),
            Failure::Late => "there was no answer in time".to_owned(),
            Failure::Store(error) => describe(error),
        }
    }

    /// Returns whether the server may have carried out the request.
    pub(super) fn is_unclear(&self) -> bool {
        match (self, self.code()) {
            (Failure::Late, _) => true,
            (Failure::Driver(_), Some(code)) => is_gone(code),
            (Failure::Driver(error), None) => is_lost(error),
            _ => false,
        }
    }
}

/// Returns whether the connection was lost.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || is_of_network(error) || is_unexpected(error)
}

/// Returns whether the server sent something other than an answer. If it shuts down while a connection begins, it sends
/// a notice that the driver does not expect there. Only the text distinguishes this error.
fn is_unexpected(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_none() && error.to_string().starts_with("unexpected message from server")
}

/// Returns whether the server closes connections: it shuts down, has crashed, or is starting.
fn is_gone(code: &SqlState) -> bool {
    // A dropped database is a permanent error.
    (code.code().starts_with("57P") && *code != SqlState::DATABASE_DROPPED) || code.code().starts_with("08")
}

fn is_of_network(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    // An unsendable value and a refused certificate are permanent errors.
    source.is_some_and(|error| !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
}

/// The server's message, without the details that may quote a row.
#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL: {message} ({code})")]
struct Said {
    code: String,
    message: String,
}

impl Said {
    fn new(error: &DbError) -> Self {
        Said { code: error.code().code().to_owned(), message: error.message().to_owned() }
    }
}

/// Converts the driver's errors.
pub(super) fn explain(place: &str, patience: Duration, failure: Failure) -> StoreError {
    let (place, may_pass) = (place.to_owned(), failure.may_pass());
    let error = match failure {
        Failure::Store(error) => return error,
        Failure::Late => return StoreError::Late { place, limit: patience },
        Failure::Pool(error) => return StoreError::Backend { place, source: Box::new(error) },
        Failure::Driver(error) => error,
    };
    let Some(said) = error.as_db_error() else {
        return match may_pass {
            true => out_of_reach(&place, patience, describe(&error)),
            false => StoreError::Unreachable { place, source: Box::new(error) },
        };
    };
    let code = said.code();
    let source = Box::new(Said::new(said));
    match code.code().get(..2) {
        _ if is_gone(code) || *code == SqlState::TOO_MANY_CONNECTIONS => {
            out_of_reach(&place, patience, source.to_string())
        }
        Some("28") => StoreError::Denied { place, source },
        Some("3D") => StoreError::Missing { place },
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Denied { place, source },
        _ if *code == SqlState::DISK_FULL => StoreError::Full { place },
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { place },
        _ if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED => {
            StoreError::Locked { place }
        }
        _ => StoreError::Backend { place, source },
    }
}
