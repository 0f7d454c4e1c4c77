//! Records that are appended together.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::time::SystemTime;

use lookback_engine::transcript::Millis;

use super::Record;

/// Records to append to a log: all or none (see [`Store::append`](super::Store::append)).
///
/// ```
/// use lookback_store::{Append, Record};
///
/// let append = Append::new(0, [Record::new("{}")]).time(1_700_000_000_000);
/// assert_eq!(append.records.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Append {
    /// The number of records that the writer believes the log has.
    pub at: u64,
    /// The records, in order.
    pub records: Vec<Record>,
    /// The writer's clock, if it has one: the log's creation time on its first append, and its time of last use on
    /// every append.
    pub time: Option<Millis>,
    /// The idempotency key: a repeated append has the key of the first one.
    pub key: u64,
}

impl Append {
    /// Creates an append of these records, without a time, and with a random key.
    pub fn new(at: u64, records: impl IntoIterator<Item = Record>) -> Append {
        // The keys of a hasher are random, but a process that was forked has copies of them.
        let key = RandomState::new().hash_one((at, process::id(), SystemTime::now()));
        Append { at, records: records.into_iter().collect(), time: None, key }
    }

    /// Sets the time.
    #[must_use]
    pub fn time(self, time: impl Into<Option<Millis>>) -> Append {
        Append { time: time.into(), ..self }
    }

    /// Sets the key, if this repeats an append whose answer was lost.
    #[must_use]
    pub fn key(self, key: u64) -> Append {
        Append { key, ..self }
    }
}
