//! Appends records exactly once.

use lookback_engine::transcript::Millis;
use tokio_postgres::types::Type;

use super::connection::{Database, Params};
use super::fault::{Failure, explain};
use super::{read, signed, unsigned};
use lookback_network::{Attempt, Tries, unclear};
use lookback_store::search::terms;
use lookback_store::{LogName, Record, Scope, StoreError, checksum};

pub(super) async fn append(
    database: &Database,
    scope: &Scope,
    log: &LogName,
    at: u64,
    records: Vec<Record>,
    time: Option<Millis>,
) -> Result<(), StoreError> {
    if records.is_empty() {
        let end = read::head(database, scope, log, None).await?.map_or(0, |head| head.end);
        return if end == at { Ok(()) } else { Err(StoreError::Conflict { at, end }) };
    }
    // Computing the terms takes time in proportion to the texts, and this thread serves all connections.
    let (schema, of, name) = (database.schema.clone(), scope.clone(), log.clone());
    let rows = tokio::task::spawn_blocking(move || Rows::new(&schema, &of, &name, at, records, time)).await;
    let rows =
        rows.map_err(|source| StoreError::Backend { place: database.place.clone(), source: Box::new(source) })?;
    let earlier = database.unresolved.take(scope, log, &rows.attempt);
    let mut is_repeated = earlier.is_some();
    let attempt = earlier.unwrap_or_else(|| rows.attempt.clone());
    let mut tries = Tries::new(database.patience);
    loop {
        let failure = match once(database, &tries, (scope, log), &rows, &attempt, is_repeated).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        is_repeated |= failure.is_unclear();
        // If the log now ends where the writer believed, it was erased or started in the meantime.
        let is_raced = matches!(failure, Failure::Store(StoreError::Locked { .. }));
        if !(failure.may_pass() || is_raced) || !tries.back_off().await {
            let is_refused = matches!(failure, Failure::Store(StoreError::Conflict { .. }));
            let error = explain(&database.place, database.patience, failure);
            if !is_repeated || is_refused {
                return Err(error);
            }
            database.unresolved.record(scope, log, attempt);
            return Err(unclear(&database.place, error));
        }
    }
}

/// Tries an append once. If an earlier try may have written the records, looks for them.
async fn once(
    database: &Database,
    tries: &Tries,
    (scope, log): (&Scope, &LogName),
    rows: &Rows,
    attempt: &Attempt,
    is_repeated: bool,
) -> Result<(), Failure> {
    if rows.write(database, tries, attempt.nonce).await? {
        return Ok(());
    }
    if is_repeated && is_written(database, tries, (scope, log), attempt).await? {
        return Ok(());
    }
    let (at, end) = (attempt.at, end(database, tries, scope, log).await?);
    let error =
        if end == at { StoreError::Locked { place: database.place.clone() } } else { StoreError::Conflict { at, end } };
    Err(Failure::Store(error))
}

/// Returns whether this append wrote the records at its position.
async fn is_written(
    database: &Database,
    tries: &Tries,
    (scope, log): (&Scope, &LogName),
    attempt: &Attempt,
) -> Result<bool, Failure> {
    let schema = &database.schema;
    let sql = format!(
        "SELECT nonce FROM {schema}.logs JOIN {schema}.entries ON log = id
         WHERE scope = $1 AND name = $2 AND position = $3"
    );
    let (scope, log, at) = (scope.as_str(), log.as_str(), signed(attempt.at));
    let params: Params<'_> = &[(&scope, Type::TEXT), (&log, Type::TEXT), (&at, Type::INT8)];
    let rows = database.try_rows(tries, &sql, params).await?;
    Ok(rows.first().and_then(|row| row.try_get::<_, i64>(0).ok()) == Some(attempt.nonce.cast_signed()))
}

/// Returns the end of a log; 0 if it does not exist.
async fn end(database: &Database, tries: &Tries, scope: &Scope, log: &LogName) -> Result<u64, Failure> {
    let sql = format!("SELECT length FROM {}.logs WHERE scope = $1 AND name = $2", database.schema);
    let params: Params<'_> = &[(&scope.as_str(), Type::TEXT), (&log.as_str(), Type::TEXT)];
    let rows = database.try_rows(tries, &sql, params).await?;
    Ok(rows.first().and_then(|row| row.try_get(0).ok()).map_or(0, unsigned))
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
    attempt: Attempt,
}

impl Rows {
    fn new(schema: &str, scope: &Scope, log: &LogName, at: u64, records: Vec<Record>, time: Option<Millis>) -> Self {
        let mut rows = Rows {
            sql: sql(schema, at == 0),
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
            attempt: Attempt::new(at, Vec::new()),
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
            rows.attempt.checksums.push(checksum(log, position, &record.body));
            rows.checkpoints.push(record.checkpoint);
            rows.bodies.push(record.body.into_bytes());
        }
        rows
    }

    /// Writes the rows if the log ends where the writer believes. Returns `false` if it ends elsewhere.
    async fn write(&self, database: &Database, tries: &Tries, nonce: u64) -> Result<bool, Failure> {
        let nonce = nonce.cast_signed();
        let checksums: Vec<i64> = self.attempt.checksums.iter().map(|checksum| checksum.cast_signed()).collect();
        let (count, texts) = (signed(self.bodies.len() as u64), signed(self.positions.len() as u64));
        let rows = database
            .try_fixed(
                tries,
                &self.sql,
                &[
                    (&self.scope, Type::TEXT),
                    (&self.log, Type::TEXT),
                    (&self.at, Type::INT8),
                    (&count, Type::INT8),
                    (&self.bytes, Type::INT8),
                    (&texts, Type::INT8),
                    (&self.time, Type::INT8),
                    (&nonce, Type::INT8),
                    (&self.checkpoints, Type::BOOL_ARRAY),
                    (&checksums, Type::INT8_ARRAY),
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
             INSERT INTO {schema}.entries (log, position, checkpoint, checksum, nonce, body)
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

pub(super) async fn touch(database: &Database, scope: &Scope, log: &LogName, time: Millis) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE {}.logs SET used = greatest(used, $3) WHERE scope = $1 AND name = $2 RETURNING id",
        database.schema
    );
    let params = &[(&scope.as_str() as _, Type::TEXT), (&log.as_str() as _, Type::TEXT), (&time as _, Type::INT8)];
    Ok(!database.rows(&sql, params).await?.is_empty())
}
