//! The errors of a server: whether they are temporary, and how they are reported. No error contains a row or a
//! password.

use std::io::ErrorKind;
use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use lookback_network::{Failure, Remote};
use lookback_store::StoreError;

/// Converts the driver's error of a try of a call that may take this long.
pub(super) fn failure(remote: &Remote, patience: Duration, error: tokio_postgres::Error) -> Failure {
    let (may_pass, is_unclear) = match error.code() {
        Some(code) => {
            let may_pass = *code == SqlState::T_R_SERIALIZATION_FAILURE
                || *code == SqlState::T_R_DEADLOCK_DETECTED
                || *code == SqlState::TOO_MANY_CONNECTIONS
                // Stopping a server may signal each of its processes. The statement is then rolled back.
                || *code == SqlState::QUERY_CANCELED
                || is_gone(code);
            (may_pass, is_gone(code))
        }
        None => (is_lost(&error), is_lost(&error)),
    };
    Failure::new(explain(remote, patience, error), may_pass, is_unclear)
}

/// Records why a connection failed.
pub(super) fn record(remote: &Remote, error: &tokio_postgres::Error) {
    match error.as_db_error() {
        Some(said) => remote.record(Some(&Said::new(said))),
        None => remote.record(Some(error)),
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

fn explain(remote: &Remote, patience: Duration, error: tokio_postgres::Error) -> StoreError {
    let place = remote.place.clone();
    let Some(said) = error.as_db_error() else {
        return match is_lost(&error) {
            true => remote.out_of_reach(patience, &error),
            false => StoreError::Unreachable { place, source: Box::new(error) },
        };
    };
    let code = said.code();
    let source = Box::new(Said::new(said));
    match code.code().get(..2) {
        _ if is_gone(code) || *code == SqlState::TOO_MANY_CONNECTIONS => remote.out_of_reach(patience, &*source),
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
