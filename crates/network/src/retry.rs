//! The tries of a call, with the waits between them.

use std::time::Duration;

use tokio::time::Instant;

use lookback_store::StoreError;

/// Longer than any process lives, and small enough to be added to a time.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
/// The first and the longest wait between two tries.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// The time limit of a call, for all of its tries.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The time at which the call ends.
    pub deadline: Instant,
    /// How long the call may take.
    pub patience: Duration,
}

/// A failed try.
#[derive(Debug)]
pub struct Failure {
    error: StoreError,
    may_pass: bool,
    is_unclear: bool,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::new(error, false, false)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Failure {
    /// Creates the failure of a try. `error` is that of the call if there is no other try, `may_pass` is whether the
    /// same call may succeed a moment later, and `is_unclear` whether the server may have carried out the request.
    pub fn new(error: StoreError, may_pass: bool, is_unclear: bool) -> Self {
        Failure { error, may_pass, is_unclear }
    }

    /// Returns the error of an append that a try may have written.
    pub fn of_append(self, place: &str) -> StoreError {
        match self.error {
            error if !self.is_unclear || error.is_unclear() => error,
            // The log was read, and does not have the records.
            error @ StoreError::Conflict { .. } => error,
            error => StoreError::Unreachable { place: place.to_owned(), source: Box::new(error) },
        }
    }
}

/// Tries a call until it succeeds, or until there is no time for another try: it would be interrupted, and would hide
/// why the last one failed. The returned failure is unclear if that of any try was.
pub async fn retry<T, F>(patience: Duration, mut once: impl FnMut(Limit) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut begun = Instant::now();
    let limit = Limit { deadline: begun.checked_add(patience).unwrap_or(begun + FOREVER), patience };
    let (mut wait, mut is_unclear) = (WAITS.0, false);
    loop {
        let failure = match once(limit).await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        is_unclear |= failure.is_unclear;
        let needs = begun.elapsed().min(WAITS.1);
        if !failure.may_pass || Instant::now() + wait + needs >= limit.deadline {
            return Err(Failure { is_unclear, ..failure });
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAITS.1);
        begun = Instant::now();
    }
}
