//! Appends with an unknown result: if the same messages are pushed again, they are not written twice.

use lookback_engine::transcript::{Entry, Origin, Position};
use lookback_wire::message::Message;

use super::{Batch, Error, Session};
use lookback_store::now;
use lookback_store::{Record, StoreError};

/// The messages of a push, for recognizing the same push.
#[derive(PartialEq, Eq)]
pub(super) struct Pushed {
    origin: Origin,
    /// The digest of each message, and its JSON if it has any, because the digest ignores what clients may change.
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
    /// If the last call pushed the same messages and its answer was lost, finishes it and returns the positions of the
    /// messages; `None` if the messages must be written.
    pub(super) async fn finish_push(&mut self, pushed: &Pushed) -> Result<Option<Vec<Position>>, Error> {
        let Some(unclear) = self.unclear.take().filter(|unclear| unclear.pushed.as_ref() == Some(pushed)) else {
            return Ok(None);
        };
        // The store recognizes a repeated append, and waits as for any other append.
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

    /// Whether the log has these records at their positions.
    async fn has(&self, unclear: &Unclear) -> Result<bool, StoreError> {
        let end = unclear.at + unclear.records.len() as u64;
        let there = self.store.read(&self.name, unclear.at..end).await?;
        Ok(there.iter().eq(unclear.records.iter().map(|record| &record.body)))
    }
}
