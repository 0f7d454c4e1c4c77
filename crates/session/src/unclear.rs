//! Messages of which it is not known whether they were written: if they are pushed again, they are not written twice.

use lookback_engine::transcript::{Entry, Origin, Position};
use lookback_wire::message::Message;

use super::{Batch, Error, Session};
use lookback_store::now;
use lookback_store::{Record, StoreError};

/// What was pushed.
#[derive(PartialEq, Eq)]
pub(super) struct Pushed {
    origin: Origin,
    /// The digest of each message, and its JSON if it came as such: the digest leaves out what clients change.
    messages: Vec<(u128, Option<String>)>,
}

impl Pushed {
    pub(super) fn new(batch: &Batch) -> Self {
        let exactly = |message: &Message| (message.digest(), message.wire().map(|wire| wire.raw.get().to_owned()));
        Pushed { origin: batch.origin, messages: batch.messages.iter().map(|(message, _)| exactly(message)).collect() }
    }
}

/// An append whose answer was lost.
pub(super) struct Unclear {
    pub(super) at: Position,
    pub(super) records: Vec<Record>,
    pub(super) pushed: Option<Pushed>,
}

impl Session {
    /// Finishes the last call if it was to push the same and its answer was lost, and returns the positions of the messages.
    pub(super) async fn finish_push(&mut self, pushed: &Pushed) -> Result<Option<Vec<Position>>, Error> {
        let Some(unclear) = self.unclear.take().filter(|unclear| unclear.pushed.as_ref() == Some(pushed)) else {
            return Ok(None);
        };
        // The store recognizes the same append, and waits for what it would wait for.
        let written = match self.store.append(&self.name, unclear.at, unclear.records.clone(), now()).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict { .. }) => self.has(&unclear).await,
            Err(error) => Err(error),
        };
        let is_written = match written {
            Ok(true) => self.refresh().await.map(|()| true),
            other => other.map_err(Error::from),
        };
        if is_written.is_err() {
            self.unclear = Some(unclear);
            return is_written.map(|_| None);
        }
        let is_message = |record: &Record| matches!(serde_json::from_str(&record.body), Ok(Entry::Message(_)));
        let records = (unclear.at..).zip(&unclear.records);
        let positions = records.filter(|(_, record)| is_message(record)).map(|(position, _)| position);
        Ok(is_written?.then(|| positions.collect()))
    }

    /// Whether the log has these records in their place.
    async fn has(&self, unclear: &Unclear) -> Result<bool, StoreError> {
        let end = unclear.at + unclear.records.len() as u64;
        let there = self.store.read(&self.name, unclear.at..end).await?;
        Ok(there.iter().eq(unclear.records.iter().map(|record| &record.body)))
    }
}
