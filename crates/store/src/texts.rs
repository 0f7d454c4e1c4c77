//! Compares the texts that a store's index has with the records that they were made from.

use std::iter::Peekable;
use std::vec::IntoIter;

use lookback_engine::transcript::{Entry, Label, Millis};
use xxhash_rust::xxh3::xxh3_64;

use super::LogName;
use super::Record;
use crate::search::terms;

/// An indexed text of a log.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// The position of its record.
    pub position: u64,
    /// When the message was said.
    pub time: Option<Millis>,
    /// The hash of its terms.
    pub hash: u64,
}

/// The text that an index should have for a record.
enum Expected {
    Nothing,
    /// The record is not an entry of a session, so its text is not known.
    Unknown,
    Text {
        /// When the message was said; `None` if the store took the time of the append.
        time: Option<Millis>,
        hash: u64,
    },
}

/// Returns a hash of terms that does not depend on their order.
pub fn hash_of<'a>(terms: impl IntoIterator<Item = &'a str>) -> u64 {
    terms.into_iter().fold(0, add)
}

/// Adds a term to a hash.
pub fn add(hash: u64, term: &str) -> u64 {
    hash.wrapping_add(xxh3_64(term.as_bytes()))
}

/// Walks through the records of a log and its indexed texts side by side.
#[derive(Debug)]
pub struct Compared<'a> {
    log: &'a LogName,
    /// The hash of the terms that all texts of the tenant have.
    of_tenant: u64,
    /// When the log was last used. A text whose time only the store knows is not later.
    used: Option<Millis>,
    found: Peekable<IntoIter<Found>>,
    label: Label,
    is_wrong: bool,
}

impl<'a> Compared<'a> {
    /// Creates a comparison. `found` are the texts of the log, in the order of their records.
    pub fn new(log: &'a LogName, of_tenant: &[String], used: Option<Millis>, found: Vec<Found>) -> Self {
        let (of_tenant, found) = (hash_of(of_tenant.iter().map(String::as_str)), found.into_iter().peekable());
        Compared { log, of_tenant, used, found, label: Label::default(), is_wrong: false }
    }

    /// Compares the next record. `body` is `None` if the record cannot be read; reading the log reports that.
    pub fn see(&mut self, position: u64, body: Option<String>) {
        if self.is_wrong {
            return;
        }
        // A text at an earlier position belongs to no record.
        let found = self.found.next_if(|found| found.position <= position);
        let is_here = found.is_none_or(|found| found.position == position);
        let is_right = is_here
            && match (self.expected(body), found) {
                (Expected::Unknown, _) | (Expected::Nothing, None) => true,
                (Expected::Text { time, hash }, Some(found)) => {
                    let is_then = match time {
                        Some(time) => found.time == Some(time),
                        None => found.time.is_none_or(|time| self.used.is_none_or(|used| time <= used)),
                    };
                    is_then && found.hash == hash
                }
                (Expected::Nothing, Some(_)) | (Expected::Text { .. }, None) => false,
            };
        self.is_wrong = !is_right;
    }

    /// Returns a description of the problem, after all records were compared.
    pub fn finish(mut self) -> Option<String> {
        let is_wrong = self.is_wrong || self.found.next().is_some();
        is_wrong.then(|| format!("the index of words differs from the entries of `{}`", self.log))
    }

    fn expected(&mut self, body: Option<String>) -> Expected {
        if self.log.is_derived() {
            return Expected::Nothing;
        }
        let Some(body) = body else { return Expected::Unknown };
        let Ok(entry) = serde_json::from_str::<Entry>(&body) else { return Expected::Unknown };
        let record = Record::from_read(entry, body, &mut self.label);
        let terms = terms(&record);
        if terms.is_empty() {
            return Expected::Nothing;
        }
        let hash = terms.iter().fold(self.of_tenant, |hash, term| add(hash, term));
        Expected::Text { time: record.time, hash }
    }
}
