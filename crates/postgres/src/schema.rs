//! The tables, their version, and their creation when many processes start at once.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::Database;
use super::read::get;
use super::{PostgresStore, unsigned};
use lookback_network::{Failure, Limit, retry};
use lookback_store::StoreError;

/// How long a creation or a migration may take, including the wait for another process.
const LONGEST: Duration = Duration::from_secs(600);
/// The version of the tables.
const VERSION: i64 = 1;
/// The key of the lock for creating and migrating tables: the bytes of "lookback".
const LOCK: i64 = 0x6c6f_6f6b_6261_636b;

/// Creates the tables if they do not exist, and migrates those of an older version.
pub(super) async fn prepare(store: PostgresStore) -> Result<(), StoreError> {
    let database = &*store.database;
    let once = |limit| async move {
        loop {
            match found(database, limit).await? {
                Some(VERSION) => return Ok(()),
                Some(found) if found > VERSION => {
                    let place = database.remote.place.clone();
                    return Err(StoreError::Newer { place, found, known: VERSION }.into());
                }
                found => create(database, limit, found).await?,
            }
        }
    };
    Ok(retry(database.remote.patience, once).await?)
}

/// Returns whether another process created the same object at the same moment. `IF NOT EXISTS` does not prevent that.
fn is_raced(error: &tokio_postgres::Error) -> bool {
    let codes =
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Returns the version of the tables; `None` if they do not exist.
async fn found(database: &Database, limit: Limit) -> Result<Option<i64>, Failure> {
    let encoding = "SELECT pg_encoding_to_char(encoding) = 'UTF8',
        to_regclass($1::text || '.version') IS NOT NULL, to_regclass($1::text || '.logs') IS NOT NULL
        FROM pg_database WHERE datname = current_database()";
    let rows = database.try_rows(limit, encoding, &[(&database.schema, Type::TEXT)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (is_utf8, is_there, has_logs): (bool, bool, bool) =
        (get(database, row, 0)?, get(database, row, 1)?, get(database, row, 2)?);
    let not_a_store = || StoreError::NotAStore { place: database.remote.place.clone() };
    if !is_utf8 {
        return Err(StoreError::Url { reason: "the database must have the encoding UTF8" }.into());
    }
    if !is_there {
        // Tables of another program are not touched.
        return if has_logs { Err(not_a_store().into()) } else { Ok(None) };
    }
    let sql = format!("SELECT version FROM {}.version", database.schema);
    let rows = database.try_rows(limit, &sql, &[]).await?;
    let row = rows.first().ok_or_else(not_a_store)?;
    Ok(Some(get(database, row, 0)?))
}

/// Creates the tables, or migrates existing ones, in one transaction.
async fn create(database: &Database, limit: Limit, found: Option<i64>) -> Result<(), Failure> {
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
    let create = async |client: &Object| {
        let created = timeout(LONGEST, client.batch_execute(&sql)).await;
        let is_raced = matches!(&created, Ok(Err(error)) if is_raced(error));
        let raced = |failure: Failure| if is_raced { Failure::new(failure.into(), true, false) } else { failure };
        database.answered(limit, created).map_err(raced)
    };
    database.transaction(limit, create).await
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
