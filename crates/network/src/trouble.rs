//! The reason why a server cannot be reached, which a call reports instead of a timeout.

use std::error::Error;
use std::iter::successors;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lookback_store::StoreError;

/// The reason why the last connection to a server failed; none after the next success.
#[derive(Debug, Default)]
pub struct Trouble(Mutex<Option<String>>);

impl Trouble {
    /// Records the reason why a connection failed.
    pub fn record(&self, cause: String) {
        *self.lock() = Some(cause);
    }

    /// Clears the reason after a success.
    pub fn end(&self) {
        self.lock().take();
    }

    /// Returns the error for a caller that gives up now, if the last connection failed.
    pub fn error(&self, place: &str, patience: Duration) -> Option<StoreError> {
        self.lock().clone().map(|cause| out_of_reach(place, patience, cause))
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        // Each change is one assignment, so a panic leaves the value intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a server could not be reached, and how long it was tried.
#[derive(Debug, thiserror::Error)]
#[error("{cause}, tried for {patience:?}")]
struct Tried {
    cause: String,
    patience: Duration,
}

/// Returns the error of a server that could not be reached in time.
pub fn out_of_reach(place: &str, patience: Duration, cause: String) -> StoreError {
    StoreError::Unreachable { place: place.to_owned(), source: Box::new(Tried { cause, patience }) }
}

/// Returns the texts of an error and of its causes. Some drivers repeat the text of the cause, which is returned once.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_last_cause_is_told_until_the_server_is_there() {
        let (trouble, second) = (Trouble::default(), Duration::from_secs(1));
        assert!(trouble.error("redis://host", second).is_none());
        trouble.record("the host was not found".to_owned());
        trouble.record(describe(&io::Error::other("the certificate is not valid")));
        let error = trouble.error("redis://host", second).unwrap();
        assert!(error.is_unclear());
        assert_eq!(
            describe(&error),
            "the store redis://host cannot be reached; check that its server runs, and its address: the certificate is \
             not valid, tried for 1s"
        );
        trouble.end();
        assert!(trouble.error("redis://host", second).is_none());
    }
}
