//! The errors inside a call, and their conversion to errors of the store.

use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;

use lookback_store::StoreError;

/// How long a search may take.
pub(super) const LONGEST_SEARCH: Duration = Duration::from_secs(10);

/// An error inside a call.
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Conflict {
        at: u64,
        end: u64,
    },
    /// An error that needs no explanation.
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

impl Fault {
    /// Returns whether another process or thread held a lock.
    pub(super) fn is_busy(&self) -> bool {
        let code = match self {
            Fault::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Returns the error of a call of the store at this path.
    pub(super) fn explained(self, path: &Path) -> StoreError {
        match self {
            Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                StoreError::Slow { place: path.display().to_string(), limit: LONGEST_SEARCH }
            }
            Fault::Sqlite(error) => explain(path, error),
            Fault::Conflict { at, end } => StoreError::Conflict { at, end },
            Fault::Store(error) => error,
        }
    }
}

/// Converts SQLite's errors. No error contains the contents of a record.
pub(super) fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    let place = path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { place },
        Some(ErrorCode::DiskFull) => StoreError::Full { place },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { place },
        // The file itself can be opened, so SQLite cannot create the files next to it.
        Some(ErrorCode::CannotOpen) if path.is_file() && std::fs::File::open(path).is_ok() => {
            StoreError::ReadOnly { place }
        }
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore { place },
        _ => StoreError::Backend { place, source: Box::new(error) },
    }
}
