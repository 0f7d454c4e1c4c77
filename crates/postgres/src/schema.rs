//! The tables, their version, and their creation when many processes start at once.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::Database;
use super::fault::{Failure, explain};
use super::unsigned;
use lookback_network::Tries;
use lookback_store::StoreError;

/// How long a creation or a migration may take, including the wait for another process.
const LONGEST: Duration = Duration::from_secs(600);
/// The version of the tables.
const VERSION: i64 = 1;
/// The key of the lock for creating and migrating tables: the bytes of "lookback".
const LOCK: i64 = 0x6c6f_6f6b_6261_636b;

/// Creates the tables if they do not exist, and migrates those of an older version.
pub(super) async fn prepare(database: &Database) -> Result<(), StoreError> {
    let mut tries = Tries::new(database.patience);
    loop {
        let done = match found(database, &tries).await {
            Ok(Some(VERSION)) => return Ok(()),
            Ok(Some(found)) if found > VERSION => {
                return Err(StoreError::Newer { place: database.place.clone(), found, known: VERSION });
            }
            Ok(found) => create(database, &tries, found).await,
            Err(failure) => Err(failure),
        };
        match done {
            Ok(()) => {}
            Err(failure) if (failure.may_pass() || is_raced(&failure)) && tries.back_off().await => {}
            Err(failure) => return Err(explain(&database.place, database.patience, failure)),
        }
    }
}

/// Returns whether another process created the same object at the same moment. `IF NOT EXISTS` does not prevent that.
fn is_raced(failure: &Failure) -> bool {
    let codes =
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    failure.code().is_some_and(|code| codes.contains(code))
}

/// Returns the version of the tables; `None` if they do not exist.
async fn found(database: &Database, tries: &Tries) -> Result<Option<i64>, Failure> {
    let encoding = "SELECT pg_encoding_to_char(encoding) = 'UTF8',
        to_regclass($1::text || '.version') IS NOT NULL, to_regclass($1::text || '.logs') IS NOT NULL
        FROM pg_database WHERE datname = current_database()";
    let rows = database.try_rows(tries, encoding, &[(&database.schema, Type::TEXT)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (is_utf8, is_there, has_logs): (bool, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let not_a_store = || Failure::Store(StoreError::NotAStore { place: database.place.clone() });
    if !is_utf8 {
        return Err(Failure::Store(StoreError::Url { reason: "the database must have the encoding UTF8" }));
    }
    if !is_there {
        // Tables of another program are not touched.
        return if has_logs { Err(not_a_store()) } else { Ok(None) };
    }
    let sql = format!("SELECT version FROM {}.version", database.schema);
    let rows = database.try_rows(tries, &sql, &[]).await?;
    let version = rows.first().map(|row| row.try_get(0)).transpose()?;
    version.map(Some).ok_or_else(not_a_store)
}

/// Creates the tables, or migrates existing ones, in one transaction.
async fn create(database: &Database, tries: &Tries, found: Option<i64>) -> Result<(), Failure> {
    let steps = (unsigned(found.unwrap_or(0))..unsigned(VERSION)).map(|from| match from {
        0 => first(database),
        // Each later version adds its step here.
        _ => String::new(),
    });
    let steps: String = steps.collect();
    let schema = &database.schema;
    let was = match found {
        None => format!("NOT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = '{schema}' AND tablename = 'version')"),
        Some(found) => format!("EXISTS (SELECT 1 FROM {schema}.version WHERE version = {found})"),
    };
    // A process that waited for the lock finds the work done.
    let sql = format!(
        "BEGIN;
         SELECT pg_advisory_xact_lock({LOCK});
         DO $do$ BEGIN IF {was} THEN
             {steps}
             UPDATE {schema}.version SET version = {VERSION};
         END IF; END $do$;
         COMMIT;"
    );
    let client = database.client(tries).await?;
    match timeout(LONGEST, client.batch_execute(&sql)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            // The transaction is still open.
            database.give_up(client);
            Err(error.into())
        }
        Err(_) => {
            database.give_up(client);
            Err(Failure::Late)
        }
    }
}

/// Returns the statements that create the tables of version 1.
fn first(database: &Database) -> String {
    let (schema, partitions) = (&database.schema, database.partitions);
    let by_log = if partitions > 0 { "PARTITION BY HASH (log)" } else { "" };
    let parts: String = (0..partitions)
        .flat_map(|part| ["entries", "texts"].map(|table| (table, part)))
        .map(|(table, part)| {
            format!(
                "CREATE TABLE {schema}.{table}_{part} PARTITION OF {schema}.{table}
                 FOR VALUES WITH (MODULUS {partitions}, REMAINDER {part});"
            )
        })
        .collect();
    format!(
        // `CREATE SCHEMA IF NOT EXISTS` needs the right to create a schema even if it exists.
        "IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{schema}') THEN CREATE SCHEMA {schema}; END IF;
         CREATE TABLE {schema}.version (version bigint NOT NULL);
         INSERT INTO {schema}.version VALUES (0);
         CREATE TABLE {schema}.logs (
             id bigint GENERATED ALWAYS AS IDENTITY,
             scope text COLLATE \"C\" NOT NULL,
             name text COLLATE \"C\" NOT NULL,
             length bigint NOT NULL,
             bytes bigint NOT NULL,
             texts bigint NOT NULL,
             created bigint,
             used bigint,
             PRIMARY KEY (scope, name)
         );
         CREATE UNIQUE INDEX logs_id ON {schema}.logs (id);
         CREATE TABLE {schema}.entries (
             log bigint NOT NULL,
             position bigint NOT NULL,
             checkpoint boolean NOT NULL,
             checksum bigint NOT NULL,
             key bigint NOT NULL,
             body bytea NOT NULL,
             PRIMARY KEY (log, position)
         ) {by_log};
         CREATE INDEX entries_checkpoints ON {schema}.entries (log, position) WHERE checkpoint;
         CREATE TABLE {schema}.texts (
             log bigint NOT NULL,
             number bigint NOT NULL,
             position bigint NOT NULL,
             time bigint,
             terms text[] COLLATE \"C\" NOT NULL,
             PRIMARY KEY (log, number)
         ) {by_log};
         CREATE INDEX texts_terms ON {schema}.texts USING gin (terms);
         {parts}"
    )
}
