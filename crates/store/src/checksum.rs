//! The checksum and the position that a store keeps with each record, and checks when it reads.

use std::ops::Range;

use xxhash_rust::xxh3::Xxh3Default;

use super::{Damage, LogName, StoreError};

/// Returns the checksum of a record: XXH3 (64 bits) over the name of its log, its position and its body.
///
/// It detects a record that was altered after it was written, for example by a failing disk, and a record that was
/// swapped with another. It does not protect against deliberate changes.
///
/// ```
/// use lookback_store::checksum;
///
/// let log = "chat-1".parse()?;
/// assert_eq!(checksum(&log, 0, "{}"), checksum(&log, 0, "{}"));
/// assert_ne!(checksum(&log, 0, "{}"), checksum(&log, 1, "{}"));
/// # Ok::<(), lookback_store::BadName>(())
/// ```
pub fn checksum(log: &LogName, position: u64, body: &str) -> u64 {
    let mut hash = Xxh3Default::new();
    // The length before the name separates it from the bytes that follow.
    hash.update(&(log.as_str().len() as u64).to_le_bytes());
    hash.update(log.as_str().as_bytes());
    hash.update(&position.to_le_bytes());
    hash.update(body.as_bytes());
    hash.digest()
}

/// A record as a store reads it back, with its position and checksum.
///
/// A store in another crate checks the records that it has read with [`StoredRecord::check`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Its position in the log.
    pub position: u64,
    /// Its checksum as it was written (see [`checksum`]).
    pub checksum: u64,
    /// Its body.
    pub body: String,
}

impl StoredRecord {
    /// Creates a record that was read.
    pub fn new(position: u64, checksum: u64, body: impl Into<String>) -> Self {
        StoredRecord { position, checksum, body: body.into() }
    }

    /// Checks the records that were read of a span, in order, and returns their bodies. `end` is the length of the log.
    ///
    /// # Errors
    /// Returns [`StoreError::Damaged`] for the first record of the span that is missing, at another position, or
    /// altered.
    ///
    /// ```
    /// use lookback_store::{StoredRecord, checksum};
    ///
    /// let log = "chat-1".parse()?;
    /// let read = || vec![StoredRecord::new(7, checksum(&log, 7, "{}"), "{}")];
    /// assert_eq!(StoredRecord::check(&log, 7..20, 8, read())?, ["{}"]);
    /// assert!(StoredRecord::check(&log, 7..20, 9, read()).is_err(), "record 8 is missing");
    /// assert!(StoredRecord::check(&log, 6..20, 8, read()).is_err(), "record 6 is missing");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(
        log: &LogName,
        span: Range<u64>,
        end: u64,
        read: impl IntoIterator<Item = StoredRecord>,
    ) -> Result<Vec<String>, StoreError> {
        let mut read = read.into_iter();
        let mut bodies = Vec::new();
        for position in span.start..span.end.min(end) {
            let found = read.next().filter(|record| record.position == position);
            let record = found.ok_or_else(|| StoreError::damaged(log, position, Damage::Gone))?;
            if record.checksum != checksum(log, position, &record.body) {
                return Err(StoreError::damaged(log, position, Damage::Altered));
            }
            bodies.push(record.body);
        }
        Ok(bodies)
    }
}

impl std::fmt::Debug for StoredRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredRecord")
            .field("position", &self.position)
            .field("body", &lookback_content::Redacted(&self.body))
            .finish_non_exhaustive()
    }
}
