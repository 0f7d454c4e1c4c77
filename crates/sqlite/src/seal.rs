//! The seal of a row of `logs`: a checksum over data that no record has, such as the time of last use.

use lookback_engine::transcript::Millis;
use rusqlite::{Connection, OptionalExtension, Row, params};
use xxhash_rust::xxh3::Xxh3Default;

use super::{signed, unsigned};
use lookback_store::{LogName, Scope};

/// The contents of a log's row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealed {
    pub(super) id: i64,
    pub(super) length: i64,
    pub(super) bytes: i64,
    pub(super) created: Option<Millis>,
    pub(super) used: Option<Millis>,
    seal: i64,
}

impl Sealed {
    /// The columns that [`Sealed::from_row`] reads.
    pub(super) const COLUMNS: &str = "id, length, bytes, created, used, seal";

    /// Returns the row of an empty log.
    pub(super) fn new(id: i64, created: Option<Millis>, scope: &str, name: &str) -> Self {
        let new = Sealed { id, length: 0, bytes: 0, created, used: None, seal: 0 };
        Sealed { seal: new.checksum(scope, name), ..new }
    }

    /// Reads a row that begins with [`Sealed::COLUMNS`].
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (id, length, bytes) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Sealed { id, length, bytes, created: row.get(3)?, used: row.get(4)?, seal: row.get(5)? })
    }

    /// Looks up the row of a log.
    pub(super) fn find(connection: &Connection, scope: &Scope, log: &LogName) -> rusqlite::Result<Option<Self>> {
        const FIND: &str = "SELECT id, length, bytes, created, used, seal FROM logs WHERE scope = ?1 AND name = ?2";
        connection.prepare_cached(FIND)?.query_row([scope.as_str(), log.as_str()], Sealed::from_row).optional()
    }

    /// The number of its records.
    pub(super) fn end(&self) -> u64 {
        unsigned(self.length)
    }

    /// Adds records, and their bytes.
    pub(super) fn grow(&mut self, records: u64, bytes: usize) {
        self.length = self.length.saturating_add(signed(records));
        self.bytes = self.bytes.saturating_add(signed(bytes as u64));
    }

    fn checksum(&self, scope: &str, name: &str) -> i64 {
        let mut hash = Xxh3Default::new();
        for text in [scope, name] {
            // The length before each text separates it from the next.
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        for number in [self.id, self.length, self.bytes] {
            hash.update(&number.to_le_bytes());
        }
        for time in [self.created, self.used] {
            hash.update(&[u8::from(time.is_some())]);
            hash.update(&time.unwrap_or_default().to_le_bytes());
        }
        hash.digest().cast_signed()
    }

    /// Returns whether the row is unaltered.
    pub(super) fn is_whole(&self, scope: &str, name: &str) -> bool {
        self.seal == self.checksum(scope, name)
    }

    /// Writes the changed row. If `before` was altered, the new row counts as altered, too.
    pub(super) fn write(
        &self,
        before: &Sealed,
        connection: &Connection,
        scope: &str,
        name: &str,
    ) -> rusqlite::Result<()> {
        let seal = self.checksum(scope, name);
        let seal = if before.is_whole(scope, name) { seal } else { !seal };
        let sql = "UPDATE logs SET length = ?2, bytes = ?3, used = ?4, seal = ?5 WHERE id = ?1";
        let row = params![self.id, self.length, self.bytes, self.used, seal];
        connection.prepare_cached(sql)?.execute(row).map(|_| ())
    }
}

/// Returns the checksum of a row of `texts`.
pub(super) fn text_checksum(id: i64, position: i64, time: Option<Millis>) -> i64 {
    let mut hash = Xxh3Default::new();
    hash.update(&id.to_le_bytes());
    hash.update(&position.to_le_bytes());
    hash.update(&[u8::from(time.is_some())]);
    hash.update(&time.unwrap_or_default().to_le_bytes());
    hash.digest().cast_signed()
}
