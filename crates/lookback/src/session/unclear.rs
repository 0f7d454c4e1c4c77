//! Messages of which it is not known whether they were written: if they are pushed again, they are found in the log.

use lookback_core::transcript::{Entry, Position};

use super::{Error, Session};
use crate::store::{Record, checksum};

/// An append whose answer was lost.
pub(super) struct Unclear {
    at: Position,
    /// The checksums of its records.
    records: Vec<u64>,
    /// The digests of the messages that were pushed; none if something else was written.
    messages: Vec<u128>,
}

impl Unclear {
    pub(super) fn new(records: Vec<u64>, at: Position) -> Self {
        Unclear { at, records, messages: Vec::new() }
    }
}

impl Session {
    /// The checksums of records that are about to be appended.
    pub(super) fn checksums(&self, at: Position, records: &[Record]) -> Vec<u64> {
        (at..).zip(records).map(|(position, record)| checksum(&self.name, position, &record.body)).collect()
    }

    /// Remembers what was pushed if it is not known whether it was written.
    pub(super) fn remember_pushed<T>(&mut self, messages: Vec<u128>, result: Result<T, Error>) -> Result<T, Error> {
        if let (Err(_), Some(unclear)) = (&result, &mut self.unclear) {
            unclear.messages = messages;
        }
        result
    }

    /// Returns the positions of these messages if the last call was to push them, its answer was lost, and the log has
    /// them.
    pub(super) async fn pushed_before(&mut self, messages: &[u128]) -> Result<Option<Vec<Position>>, Error> {
        let Some(Unclear { at, records, .. }) = self.unclear.as_ref().filter(|unclear| unclear.messages == messages)
        else {
            return Ok(None);
        };
        let at = *at;
        let bodies = self.store.read(&self.name, at..at + records.len() as u64).await?;
        let found: Vec<u64> =
            (at..).zip(&bodies).map(|(position, body)| checksum(&self.name, position, body)).collect();
        let is_written = found == *records;
        if is_written {
            self.refresh().await?;
        }
        self.unclear = None;
        let is_message = |body: &String| matches!(serde_json::from_str(body), Ok(Entry::Message(_)));
        let positions = (at..).zip(&bodies).filter(|(_, body)| is_message(body)).map(|(position, _)| position);
        Ok(is_written.then(|| positions.collect()))
    }
}
