//! Appends records exactly once.

use lookback_engine::transcript::Millis;
use tokio::task::spawn_blocking;
use tokio_postgres::types::Type;

use super::connection::{Database, Params};
use super::{PostgresStore, signed, unsigned};
use lookback_network::{Failure, Limit, retry};
use lookback_store::search::terms;
use lookback_store::{Append, LogName, StoreError, checksum};

pub(super) async fn append(store: PostgresStore, log: LogName, append: Append) -> Result<(), StoreError> {
    let (at, key, remote) = (append.at, append.key, &store.database.remote);
    let rows = if append.records.is_empty() {
        None
    } else {
        let (of, name) = (store.clone(), log.clone());
        // Computing the terms takes time in proportion to the texts, and this thread serves all connections.
        let rows = spawn_blocking(move || Rows::new(&of, &name, append)).await;
        Some(rows.map_err(|error| remote.broken(error))?)
    };
    let done = retry(remote.patience, |limit| once(&store, limit, &log, (at, key), rows.as_ref())).await;
    done.map_err(|failure| failure.of_append(&remote.place))
}

/// Tries an append once. Succeeds, too, if an earlier try has written the records.
async fn once(
    store: &PostgresStore,
    limit: Limit,
    log: &LogName,
    (at, key): (u64, u64),
    rows: Option<&Rows>,
) -> Result<(), Failure> {
    if let Some(rows) = rows
        && rows.write(&store.database, limit).await?
    {
        return Ok(());
    }
    let (end, found) = end(store, limit, log, at).await?;
    if found == Some(key) || (end == at && rows.is_none()) {
        Ok(())
    } else if end == at {
        // The log was erased or started in the meantime.
        let error = StoreError::Locked { place: store.database.remote.place.clone() };
        Err(Failure::new(error, true, false))
    } else {
        Err(StoreError::Conflict { at, end }.into())
    }
}

/// Returns the end of a log, and the key of the append that wrote the record at this position; 0 and `None` if they do
/// not exist.
async fn end(store: &PostgresStore, limit: Limit, log: &LogName, at: u64) -> Result<(u64, Option<u64>), Failure> {
    let PostgresStore { database, scope } = store;
    let sql = format!(
        "SELECT length, (SELECT key FROM {0}.entries WHERE log = id AND position = $3)
         FROM {0}.logs WHERE scope = $1 AND name = $2",
        database.schema
    );
    let (scope, log, at) = (scope.as_str(), log.as_str(), signed(at));
    let params: Params<'_> = &[(&scope, Type::TEXT), (&log, Type::TEXT), (&at, Type::INT8)];
    let rows = database.try_rows(limit, &sql, params).await?;
    let Some(row) = rows.first() else { return Ok((0, None)) };
    let key = row.try_get::<_, Option<i64>>(1).ok().flatten();
    Ok((row.try_get(0).map_or(0, unsigned), key.map(i64::cast_unsigned)))
}

/// The rows of an append, as the parameters of one statement.
struct Rows {
    sql: String,
    scope: String,
    log: String,
    at: i64,
    bytes: i64,
    time: Option<Millis>,
    checkpoints: Vec<bool>,
    bodies: Vec<Vec<u8>>,
    /// The positions of the records with a text, and their times.
    positions: Vec<i64>,
    times: Vec<Option<Millis>>,
    /// The terms of each text, separated by spaces.
    terms: Vec<String>,
    checksums: Vec<i64>,
    key: i64,
}

impl Rows {
    fn new(PostgresStore { database, scope }: &PostgresStore, log: &LogName, append: Append) -> Self {
        let Append { at, records, time, key, .. } = append;
        let mut rows = Rows {
            sql: sql(&database.schema, at == 0),
            scope: scope.as_str().to_owned(),
            log: log.as_str().to_owned(),
            at: signed(at),
            bytes: 0,
            time,
            checkpoints: Vec::new(),
            bodies: Vec::new(),
            positions: Vec::new(),
            times: Vec::new(),
            terms: Vec::new(),
            checksums: Vec::new(),
            key: key.cast_signed(),
        };
        let of_tenant = scope.terms();
        for (index, mut record) in (0..).zip(records) {
            let position = at.saturating_add(index);
            record.time = record.time.or(time);
            let mut terms = if log.is_derived() { Vec::new() } else { terms(&record) };
            if !terms.is_empty() {
                terms.extend_from_slice(&of_tenant);
                rows.positions.push(signed(position));
                rows.times.push(record.time);
                rows.terms.push(terms.join(" "));
            }
            rows.bytes = rows.bytes.saturating_add(signed(record.body.len() as u64));
            rows.checksums.push(checksum(log, position, &record.body).cast_signed());
            rows.checkpoints.push(record.checkpoint);
            rows.bodies.push(record.body.into_bytes());
        }
        rows
    }

    /// Writes the rows if the log ends where the writer believes. Returns `false` if it ends elsewhere.
    async fn write(&self, database: &Database, limit: Limit) -> Result<bool, Failure> {
        let (count, texts) = (signed(self.bodies.len() as u64), signed(self.positions.len() as u64));
        let rows = database
            .try_fixed(
                limit,
                &self.sql,
                &[
                    (&self.scope, Type::TEXT),
                    (&self.log, Type::TEXT),
                    (&self.at, Type::INT8),
                    (&count, Type::INT8),
                    (&self.bytes, Type::INT8),
                    (&texts, Type::INT8),
                    (&self.time, Type::INT8),
                    (&self.key, Type::INT8),
                    (&self.checkpoints, Type::BOOL_ARRAY),
                    (&self.checksums, Type::INT8_ARRAY),
                    (&self.bodies, Type::BYTEA_ARRAY),
                    (&self.positions, Type::INT8_ARRAY),
                    (&self.times, Type::INT8_ARRAY),
                    (&self.terms, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        Ok(!rows.is_empty())
    }
}

/// Returns the statement of an append. It compares the length and writes all rows, or none. Two writers of a log wait
/// for each other at its row in `logs`.
fn sql(schema: &str, is_first: bool) -> String {
    let moved = if is_first {
        format!(
            "INSERT INTO {schema}.logs (scope, name, length, bytes, texts, created, used)
             SELECT $1, $2, $4, $5, $6, $7, $7 WHERE $3 = 0
             ON CONFLICT (scope, name) DO NOTHING RETURNING id"
        )
    } else {
        format!(
            "UPDATE {schema}.logs SET length = length + $4, bytes = bytes + $5, texts = texts + $6,
                 used = greatest(used, $7)
             WHERE scope = $1 AND name = $2 AND length = $3 RETURNING id"
        )
    };
    format!(
        "WITH moved AS ({moved}), wrote AS (
             INSERT INTO {schema}.entries (log, position, checkpoint, checksum, key, body)
             SELECT id, $3 + row.number - 1, row.checkpoint, row.checksum, $8, row.body
             FROM moved, unnest($9::bool[], $10::bigint[], $11::bytea[])
                 WITH ORDINALITY AS row (checkpoint, checksum, body, number)
         ), said AS (
             INSERT INTO {schema}.texts (log, number, position, time, terms)
             SELECT id, row.number + coalesce((SELECT max(number) FROM {schema}.texts WHERE log = id), -1),
                 row.position, row.time, string_to_array(row.terms, ' ')
             FROM moved, unnest($12::bigint[], $13::bigint[], $14::text[])
                 WITH ORDINALITY AS row (position, time, terms, number)
         )
         SELECT id FROM moved"
    )
}

pub(super) async fn touch(store: PostgresStore, log: LogName, time: Millis) -> Result<bool, StoreError> {
    let PostgresStore { database, scope } = &store;
    let sql = format!(
        "UPDATE {}.logs SET used = greatest(used, $3) WHERE scope = $1 AND name = $2 RETURNING id",
        database.schema
    );
    let params = &[(&scope.as_str() as _, Type::TEXT), (&log.as_str() as _, Type::TEXT), (&time as _, Type::INT8)];
    Ok(!database.rows(&sql, params).await?.is_empty())
}
