//! Erases logs, and the contents of records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use futures_lite::future::try_zip;
use tokio::time::{timeout, timeout_at};
use tokio_postgres::types::Type;

use super::connection::{Database, Params};
use super::read::get;
use super::{PostgresStore, signed};
use lookback_network::{Failure, Limit, retry};
use lookback_store::{LogName, StoreError, Tombstone, checksum};

/// How long the deletion may take after the logs are locked. Only the erasing caller waits for it.
const LONGEST: Duration = Duration::from_secs(600);

/// Erases some logs of a namespace, or all of them, and returns how many existed.
///
/// It is one transaction of two round trips. The logs are locked before their records are deleted, so that an append in
/// progress is erased as a whole.
pub(super) async fn delete(store: PostgresStore, logs: Option<Vec<LogName>>) -> Result<u64, StoreError> {
    let PostgresStore { database, scope } = &store;
    let names: Option<Vec<&str>> = logs.as_ref().map(|logs| logs.iter().map(LogName::as_str).collect());
    let params: Params<'_> = &[(&scope.as_str(), Type::TEXT), (&names, Type::TEXT_ARRAY)];
    // The number of logs that an earlier try locked before its answer was lost.
    let known = AtomicU64::new(0);
    let erased = retry(database.remote.patience, |limit| once(database, limit, params, &known)).await?;
    Ok(erased.max(known.into_inner()))
}

async fn once(database: &Database, limit: Limit, params: Params<'_>, known: &AtomicU64) -> Result<u64, Failure> {
    let schema = &database.schema;
    let lock = format!(
        "SELECT id FROM {schema}.logs WHERE scope = $1 AND ($2::text[] IS NULL OR name = ANY($2)) ORDER BY id FOR UPDATE"
    );
    let delete = format!(
        "WITH entries AS (DELETE FROM {schema}.entries WHERE log = ANY($1)),
             texts AS (DELETE FROM {schema}.texts WHERE log = ANY($1))
         DELETE FROM {schema}.logs WHERE id = ANY($1)"
    );
    let delete = async |client: &Object| {
        // Independent statements are sent together.
        let begun = try_zip(client.batch_execute("BEGIN"), client.query_typed(&lock, params));
        let ((), locked) = database.answered(limit, timeout_at(limit.deadline, begun).await)?;
        let ids = locked.iter().map(|row| get(database, row, 0)).collect::<Result<Vec<i64>, _>>()?;
        let params: Params<'_> = &[(&ids, Type::INT8_ARRAY)];
        let erased = try_zip(client.execute_typed(&delete, params), client.batch_execute("COMMIT"));
        let count = ids.len() as u64;
        known.fetch_max(count, Ordering::Relaxed);
        database.answered(limit, timeout(LONGEST, erased).await)?;
        Ok(count)
    };
    database.transaction(limit, delete).await
}

/// How many records a transaction replaces.
const TOMBSTONES: usize = 10_000;

/// Replaces records with tombstones, and deletes their texts.
pub(super) async fn replace(store: PostgresStore, log: LogName, tombstones: Vec<Tombstone>) -> Result<(), StoreError> {
    for tombstones in tombstones.chunks(TOMBSTONES) {
        // If the answer is lost, a second try finds other checksums, and changes nothing.
        retry(store.database.remote.patience, |limit| replace_once(&store, limit, &log, tombstones)).await?;
    }
    Ok(())
}

async fn replace_once(
    PostgresStore { database, scope }: &PostgresStore,
    limit: Limit,
    log: &LogName,
    tombstones: &[Tombstone],
) -> Result<(), Failure> {
    let schema = &database.schema;
    let lock = format!("SELECT id FROM {schema}.logs WHERE scope = $1 AND name = $2 FOR UPDATE");
    // A log has at most one text for each record, so the text of a record has no greater number than the record's
    // position.
    let replace = format!(
        "WITH wanted AS (
             SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])
                 AS wanted (position, before, checksum, body)
         ), known AS (
             SELECT wanted.*, octet_length(wanted.body) - octet_length(entries.body) AS longer
             FROM wanted JOIN {schema}.entries USING (position) WHERE log = $1 AND entries.checksum = before
         ), replaced AS (
             UPDATE {schema}.entries SET body = known.body, checksum = known.checksum
             FROM known WHERE log = $1 AND entries.position = known.position
         ), texts AS (
             DELETE FROM {schema}.texts
             WHERE log = $1 AND number <= $6 AND position IN (SELECT position FROM known) RETURNING 1
         )
         UPDATE {schema}.logs SET bytes = bytes + (SELECT coalesce(sum(longer), 0) FROM known),
             texts = texts - (SELECT count(*) FROM texts)
         WHERE id = $1"
    );
    let (scope, name) = (scope.as_str(), log.as_str());
    let replace = async |client: &Object| {
        let params: Params<'_> = &[(&scope, Type::TEXT), (&name, Type::TEXT)];
        let begun = try_zip(client.batch_execute("BEGIN"), client.query_typed(&lock, params));
        let ((), locked) = database.answered(limit, timeout_at(limit.deadline, begun).await)?;
        let Some(row) = locked.first() else {
            return database.answered(limit, timeout_at(limit.deadline, client.batch_execute("COMMIT")).await);
        };
        let id: i64 = get(database, row, 0)?;
        let positions: Vec<i64> = tombstones.iter().map(|tombstone| signed(tombstone.position)).collect();
        let before: Vec<i64> = tombstones.iter().map(|tombstone| tombstone.checksum.cast_signed()).collect();
        let after = tombstones.iter().map(|tombstone| checksum(log, tombstone.position, &tombstone.body).cast_signed());
        let after: Vec<i64> = after.collect();
        let bodies: Vec<&[u8]> = tombstones.iter().map(|tombstone| tombstone.body.as_bytes()).collect();
        let last = positions.iter().max().copied().unwrap_or(0);
        let params: Params<'_> = &[
            (&id, Type::INT8),
            (&positions, Type::INT8_ARRAY),
            (&before, Type::INT8_ARRAY),
            (&after, Type::INT8_ARRAY),
            (&bodies, Type::BYTEA_ARRAY),
            (&last, Type::INT8),
        ];
        let replaced = try_zip(client.execute_typed(&replace, params), client.batch_execute("COMMIT"));
        database.answered(limit, timeout(LONGEST, replaced).await)?;
        Ok(())
    };
    database.transaction(limit, replace).await
}

/// Lets the server reuse the space of erased rows.
pub(super) async fn vacuum(PostgresStore { database, .. }: PostgresStore) -> Result<(), StoreError> {
    for table in ["logs", "entries", "texts"] {
        let sql = format!("VACUUM {}.{table}", database.schema);
        database.rows_within(LONGEST, &sql, &[]).await?;
    }
    Ok(())
}
