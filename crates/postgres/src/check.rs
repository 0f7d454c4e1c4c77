//! Checks the tables: the rows of the logs, and the texts of their records.

use std::time::Duration;

use lookback_engine::transcript::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Database;
use super::read::{get, record};
use super::{PostgresStore, unsigned};
use lookback_store::texts::{Compared, Found, hash_of};
use lookback_store::{LogName, Scope, StoreError, checksum};

/// How long checking all tables may take.
const LONGEST: Duration = Duration::from_secs(600);
/// How many records are read at once.
const CHUNK: i64 = 1_000;

/// Returns descriptions of the problems of the tables.
pub(super) async fn check(PostgresStore { database, .. }: PostgresStore) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT name, length, bytes, texts, has, has_bytes, has_texts FROM (
             SELECT logs.name, logs.length, logs.bytes, logs.texts,
                 (SELECT count(*) FROM {0}.entries WHERE log = logs.id) AS has,
                 (SELECT coalesce(sum(octet_length(body)), 0) FROM {0}.entries WHERE log = logs.id) AS has_bytes,
                 (SELECT count(*) FROM {0}.texts WHERE log = logs.id) AS has_texts
             FROM {0}.logs AS logs
         ) AS counted
         WHERE (length, bytes, texts) IS DISTINCT FROM (has, has_bytes, has_texts) ORDER BY name",
        database.schema
    );
    let mut found = Vec::new();
    for row in &database.rows_within(LONGEST, &sql, &[]).await? {
        let name: &str = get(&database, row, 0)?;
        let number = |column| get::<i64>(&database, row, column);
        let (says, has) = ((number(1)?, number(2)?, number(3)?), (number(4)?, number(5)?, number(6)?));
        found.push(format!(
            "the row of `{name}` has {} entries of {} bytes and {} texts, but the log has {} of {} and {}",
            says.0, says.1, says.2, has.0, has.1, has.2
        ));
    }
    let sql = format!("SELECT id, scope, name, length, used FROM {}.logs ORDER BY id", database.schema);
    for row in &database.rows_within(LONGEST, &sql, &[]).await? {
        let log = Log {
            id: get(&database, row, 0)?,
            scope: Scope::unchecked(get(&database, row, 1)?),
            name: LogName::unchecked(get(&database, row, 2)?),
            length: get(&database, row, 3)?,
            used: get(&database, row, 4)?,
        };
        // Contents may have been erased between the two queries, so a difference is checked again.
        if log.differs(&database).await?.is_some() {
            found.extend(log.differs(&database).await?);
        }
    }
    Ok(found)
}

/// Returns descriptions of the data in the tables that belongs to no listed log.
pub(super) async fn orphans(PostgresStore { database, .. }: PostgresStore) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT DISTINCT log FROM (SELECT log FROM {0}.entries UNION ALL SELECT log FROM {0}.texts) AS records
         WHERE NOT EXISTS (SELECT 1 FROM {0}.logs WHERE id = log)",
        database.schema
    );
    let mut found = Vec::new();
    for row in &database.rows_within(LONGEST, &sql, &[]).await? {
        found.push(format!("the records of log {} belong to no name", get::<i64>(&database, row, 0)?));
    }
    let sql = format!("SELECT id, scope FROM {}.logs", database.schema);
    for row in &database.rows_within(LONGEST, &sql, &[]).await? {
        if !Scope::unchecked(get(&database, row, 1)?).is_known() {
            found.push(format!("the log with the number {} belongs to no tenant", get::<i64>(&database, row, 0)?));
        }
    }
    Ok(found)
}

/// A row of `logs`.
struct Log {
    id: i64,
    scope: Scope,
    name: LogName,
    length: i64,
    used: Option<Millis>,
}

impl Log {
    /// Returns a description of the problem of its texts. Ignores records that were appended after the row was read.
    async fn differs(&self, database: &Database) -> Result<Option<String>, StoreError> {
        let sql = format!(
            "SELECT position, time, array_to_string(terms, ' ') FROM {}.texts WHERE log = $1 AND position < $2
             ORDER BY number",
            database.schema
        );
        let params = &[(&self.id as _, Type::INT8), (&self.length as _, Type::INT8)];
        let mut texts = Vec::new();
        for row in &database.rows_within(LONGEST, &sql, params).await? {
            let (position, time, terms): (i64, _, &str) =
                (get(database, row, 0)?, get(database, row, 1)?, get(database, row, 2)?);
            texts.push(Found { position: unsigned(position), time, hash: hash_of(terms.split(' ')) });
        }
        let mut compared = Compared::new(&self.name, &self.scope.terms(), self.used, texts);
        let sql = format!(
            "SELECT position, checksum, body FROM {}.entries WHERE log = $1 AND position >= $2 AND position < $3
             ORDER BY position",
            database.schema
        );
        let mut at = 0;
        while at < self.length {
            let end = self.length.min(at.saturating_add(CHUNK));
            let params = &[(&self.id as _, Type::INT8), (&at as _, Type::INT8), (&end as _, Type::INT8)];
            for row in &database.rows_within(LONGEST, &sql, params).await? {
                self.see(database, row, &mut compared)?;
            }
            at = end;
        }
        Ok(compared.finish())
    }

    fn see(&self, database: &Database, row: &Row, compared: &mut Compared<'_>) -> Result<(), StoreError> {
        match record(database, &self.name, row, 0) {
            Ok(Some(record)) => {
                let is_whole = record.checksum == checksum(&self.name, record.position, &record.body);
                compared.see(record.position, is_whole.then_some(record.body));
            }
            Ok(None) => {}
            Err(StoreError::Damaged { position, .. }) => compared.see(position, None),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
