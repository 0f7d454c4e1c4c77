//! A server as each store knows it: its address, and the reason why it cannot be reached, which a call reports instead
//! of a timeout.

use std::error::Error;
use std::iter::successors;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ClientConfig;

use super::tls::{lock, tls_config};
use lookback_store::StoreError;

/// How long one host may take to accept a connection.
const LONGEST_FOR_A_HOST: Duration = Duration::from_secs(2);
/// How long one host may take at least, even if a call has little time.
const SHORTEST_FOR_A_HOST: Duration = Duration::from_millis(250);

/// A server, or several servers that act as one.
#[derive(Debug)]
pub struct Remote {
    /// The URL without the password.
    pub place: String,
    /// How long a call tries to reach it.
    pub patience: Duration,
    /// The reason why the last connection failed; none after the next success.
    last_error: Mutex<Option<String>>,
    /// The reason why a certificate was refused. A driver that tries several addresses may report another error.
    refused: Arc<Mutex<Option<String>>>,
}

impl Remote {
    /// Creates the description of a server at this URL, which must not have a password.
    pub fn new(place: String, patience: Duration) -> Self {
        Remote { place, patience, last_error: Mutex::default(), refused: Arc::default() }
    }

    /// Returns how long one host may take, so that there is time for another one.
    pub fn patience_for_a_host(&self) -> Duration {
        (self.patience / 4).clamp(SHORTEST_FOR_A_HOST, LONGEST_FOR_A_HOST)
    }

    /// Creates the TLS configuration for all connections, and reads the trusted certificates once, because a system has
    /// many. With `verify`, a server must show a certificate that is valid for its name. If `roots` is a file, only its
    /// certificates are trusted.
    pub fn tls(&self, verify: bool, roots: Option<&Path>) -> Result<ClientConfig, StoreError> {
        tls_config(verify, roots, self.refused.clone()).map_err(|error| self.broken(error))
    }

    /// Records why the last connection failed, or that it succeeded.
    pub fn record(&self, failed: Option<&(dyn Error + 'static)>) {
        *lock(&self.last_error) = failed.map(describe);
        if failed.is_none() {
            lock(&self.refused).take();
        }
    }

    /// Returns the error of a certificate that was refused, and forgets it.
    pub fn refused(&self) -> Option<StoreError> {
        lock(&self.refused).take().map(|why| self.unreachable(why))
    }

    /// Returns the error for a caller that gives up now, after this time, if the last connection failed.
    pub fn last_error(&self, patience: Duration) -> Option<StoreError> {
        lock(&self.last_error).clone().map(|cause| self.unreachable(Tried { cause, patience }))
    }

    /// Returns the error of a server that could not be reached in time.
    pub fn out_of_reach(&self, patience: Duration, error: &(dyn Error + 'static)) -> StoreError {
        self.unreachable(Tried { cause: describe(error), patience })
    }

    fn unreachable(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::Unreachable { place: self.place.clone(), source: source.into() }
    }
}

/// The reason why a server could not be reached, and how long it was tried.
#[derive(Debug, thiserror::Error)]
#[error("{cause}, tried for {patience:?}")]
struct Tried {
    cause: String,
    patience: Duration,
}

/// Returns the texts of an error and of its causes. Some drivers repeat the text of the cause, which is returned once.
fn describe(error: &(dyn Error + 'static)) -> String {
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
        let (remote, second) = (Remote::new("redis://host".to_owned(), Duration::MAX), Duration::from_secs(1));
        assert!(remote.last_error(second).is_none());
        remote.record(Some(&io::Error::other("the host was not found")));
        remote.record(Some(&io::Error::other("the certificate is not valid")));
        let error = remote.last_error(second).unwrap();
        assert!(error.is_unclear());
        assert_eq!(
            describe(&error),
            "the store redis://host cannot be reached; check that its server runs, and its address: the certificate is \
             not valid, tried for 1s"
        );
        remote.record(None);
        assert!(remote.last_error(second).is_none());
    }
}
