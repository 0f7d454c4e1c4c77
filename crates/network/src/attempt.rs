//! Appends whose answer was lost: a repeated append is recognized by its nonce, and not written twice.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lookback_store::{LogName, Scope};

/// An append, with the data that identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The position of its first record.
    pub at: u64,
    /// The checksums of its records.
    pub checksums: Vec<u64>,
    /// A random number that is stored with each of its records.
    pub nonce: u64,
}

impl Attempt {
    /// Creates an attempt to append records with these checksums.
    pub fn new(at: u64, checksums: Vec<u64>) -> Self {
        // The keys of the hasher are random.
        Attempt { at, checksums, nonce: RandomState::new().hash_one(at) }
    }
}

/// Appends with an unknown outcome, the newest last.
#[derive(Debug, Default)]
pub struct Unresolved(Mutex<VecDeque<(Scope, LogName, Attempt)>>);

impl Unresolved {
    /// How many are remembered.
    const MOST: usize = 1_000;

    /// Removes and returns the append of the same records at the same position.
    pub fn take(&self, scope: &Scope, log: &LogName, attempt: &Attempt) -> Option<Attempt> {
        let mut kept = self.lock();
        let is_same = |(of, name, known): &(Scope, LogName, Attempt)| {
            of == scope && name == log && known.at == attempt.at && known.checksums == attempt.checksums
        };
        let index = kept.iter().position(is_same)?;
        kept.remove(index).map(|(_, _, attempt)| attempt)
    }

    /// Adds an append whose answer was lost.
    pub fn record(&self, scope: &Scope, log: &LogName, attempt: Attempt) {
        let mut kept = self.lock();
        if kept.len() == Unresolved::MOST {
            kept.pop_front();
        }
        kept.push_back((scope.clone(), log.clone(), attempt));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Scope, LogName, Attempt)>> {
        // Each change is a single call, so a panic leaves the list intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
