//! Appending records, exactly once.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::PoisonError;

use lookback_core::transcript::Millis;
use tokio_postgres::types::Type;

use super::connection::Database;
use super::fault::{Failure, explain};
use super::{signed, unsigned};
use crate::search::terms;
use crate::store::network::Tries;
use crate::store::{LogName, Record, Scope, StoreError, checksum};

/// Appends of which it is not known whether they were written: their nonces by their logs. If the caller appends the same
/// again, it is recognized.
pub(super) type Unresolved = HashMap<(Scope, LogName), Attempt>;

/// How many of them are kept.
const MOST_UNRESOLVED: usize = 1_000;

/// An append, and what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    at: u64,
    checksums: Vec<i64>,
    nonce: i64,
}

pub(super) async fn append(
    database: &Database,
    scope: &Scope,
    log: &LogName,
    at: u64,
    records: Vec<Record>,
    time: Option<Millis>,
) -> Result<(), StoreError> {
    if records.is_empty() {
        let end = end(database, scope, log).await?;
        return if end == at { Ok(()) } else { Err(StoreError::Conflict { at, end }) };
    }
    let rows = Rows::new(database, scope, log, at, records, time);
    let key = (scope.clone(), log.clone());
    let earlier = unresolved(database).remove(&key).filter(|earlier| earlier.is_same(&rows.attempt));
    let mut is_repeated = earlier.is_some();
    let attempt = earlier.unwrap_or_else(|| rows.attempt.clone());
    let mut tries = Tries::new(database.patience);
    loop {
        let failure = match rows.write(database, &tries, attempt.nonce).await {
            Ok(true) => return Ok(()),
            Ok(false) if is_repeated && attempt.is_written(database, scope, log).await? => return Ok(()),
            Ok(false) => {
                let end = end(database, scope, log).await?;
                if end != at {
                    return Err(StoreError::Conflict { at, end });
                }
                // The log was erased meanwhile, or begun.
                Failure::Store(StoreError::Locked { place: database.place.clone() })
            }
            Err(failure) => failure,
        };
        is_repeated |= failure.is_unclear();
        let is_raced = matches!(failure, Failure::Store(StoreError::Locked { .. }));
        if !(failure.may_pass() || is_raced) || !tries.again().await {
            if is_repeated {
                let mut unresolved = unresolved(database);
                if unresolved.len() < MOST_UNRESOLVED {
                    unresolved.insert(key, attempt);
                }
            }
            return Err(explain(&database.place, database.patience, failure));
        }
    }
}

fn unresolved(database: &Database) -> std::sync::MutexGuard<'_, Unresolved> {
    database.unresolved.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attempt {
    /// Whether another append has the same records at the same place.
    fn is_same(&self, other: &Attempt) -> bool {
        self.at == other.at && self.checksums == other.checksums
    }

    /// Whether it was this append that wrote the records at its place.
    async fn is_written(&self, database: &Database, scope: &Scope, log: &LogName) -> Result<bool, StoreError> {
        let schema = &database.schema;
        let sql = format!(
            "SELECT nonce FROM {schema}.logs JOIN {schema}.entries ON log = id
             WHERE scope = $1 AND name = $2 AND position = $3"
        );
        let (scope, log, at) = (scope.as_str(), log.as_str(), signed(self.at));
        let rows = database.rows(&sql, &[(&scope, Type::TEXT), (&log, Type::TEXT), (&at, Type::INT8)]).await?;
        Ok(rows.first().and_then(|row| row.try_get::<_, i64>(0).ok()) == Some(self.nonce))
    }
}

/// Where a log ends; 0 if there is none.
async fn end(database: &Database, scope: &Scope, log: &LogName) -> Result<u64, StoreError> {
    let sql = format!("SELECT length FROM {}.logs WHERE scope = $1 AND name = $2", database.schema);
    let rows = database.rows(&sql, &[(&scope.as_str(), Type::TEXT), (&log.as_str(), Type::TEXT)]).await?;
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
    /// Of the records that have a text.
    positions: Vec<i64>,
    times: Vec<Option<Millis>>,
    /// The terms of each, with spaces between.
    terms: Vec<String>,
    attempt: Attempt,
}

impl Rows {
    fn new(
        database: &Database,
        scope: &Scope,
        log: &LogName,
        at: u64,
        records: Vec<Record>,
        time: Option<Millis>,
    ) -> Self {
        // The keys of a hasher are random.
        let nonce = RandomState::new().hash_one(at).cast_signed();
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
            attempt: Attempt { at, checksums: Vec::new(), nonce },
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
            rows.attempt.checksums.push(checksum(log, position, &record.body).cast_signed());
            rows.checkpoints.push(record.checkpoint);
            rows.bodies.push(record.body.into_bytes());
        }
        rows
    }

    /// Writes the rows if the log ends where the writer believes. Returns `false` if it does not.
    async fn write(&self, database: &Database, tries: &Tries, nonce: i64) -> Result<bool, Failure> {
        let (count, texts) = (signed(self.bodies.len() as u64), signed(self.positions.len() as u64));
        let rows = database
            .try_rows(
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
                    (&self.attempt.checksums, Type::INT8_ARRAY),
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

/// The statement of an append. It compares the length and writes all rows, or none. Two writers of a log wait for each
/// other at its row in `logs`.
fn sql(schema: &str, is_first: bool) -> String {
    let moved = if is_first {
        format!(
            "INSERT INTO {schema}.logs (scope, name, length, bytes, texts, created, used)
             SELECT $1, $2, $4, $5, $6, $7, $7 WHERE $3 = 0
             ON CONFLICT (scope, name) DO NOTHING RETURNING id, texts"
        )
    } else {
        format!(
            "UPDATE {schema}.logs SET length = length + $4, bytes = bytes + $5, texts = texts + $6,
                 used = greatest(used, $7)
             WHERE scope = $1 AND name = $2 AND length = $3 RETURNING id, texts"
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
             SELECT id, texts - $6 + row.number - 1, row.position, row.time, string_to_array(row.terms, ' ')
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
