//! Erases logs, and the contents of records.

use std::time::Duration;

use futures_lite::future::try_zip;
use tokio::time::{timeout, timeout_at};
use tokio_postgres::types::Type;

use super::connection::{Database, Params};
use super::fault::{Failure, explain};
use super::signed;
use lookback_network::Tries;
use lookback_store::{LogName, Scope, StoreError, Tombstone, checksum};

/// How long the deletion may take after the logs are locked. Only the erasing caller waits for it.
const LONGEST: Duration = Duration::from_secs(600);

/// Erases some logs of a namespace, or all of them, and returns how many existed.
///
/// It is one transaction of two round trips. The logs are locked before their records are deleted, so that an append in
/// progress is erased as a whole.
pub(super) async fn delete(database: &Database, scope: &Scope, logs: Option<&[LogName]>) -> Result<u64, StoreError> {
    let names: Option<Vec<&str>> = logs.map(|logs| logs.iter().map(LogName::as_str).collect());
    let params: Params<'_> = &[(&scope.as_str(), Type::TEXT), (&names, Type::TEXT_ARRAY)];
    let mut tries = Tries::new(database.patience);
    // The number of logs that an earlier try locked before its answer was lost.
    let mut known = 0;
    loop {
        match once(database, &tries, params, &mut known).await {
            Err(failure) if failure.may_pass() && tries.back_off().await => {}
            done => {
                let erased = done.map_err(|failure| explain(&database.place, database.patience, failure))?;
                return Ok(erased.max(known));
            }
        }
    }
}

async fn once(database: &Database, tries: &Tries, params: Params<'_>, known: &mut u64) -> Result<u64, Failure> {
    let schema = &database.schema;
    let lock = format!(
        "SELECT id FROM {schema}.logs WHERE scope = $1 AND ($2::text[] IS NULL OR name = ANY($2)) ORDER BY id FOR UPDATE"
    );
    let delete = format!(
        "WITH entries AS (DELETE FROM {schema}.entries WHERE log = ANY($1)),
             texts AS (DELETE FROM {schema}.texts WHERE log = ANY($1))
         DELETE FROM {schema}.logs WHERE id = ANY($1)"
    );
    let client = database.client(tries).await?;
    let done = async {
        // Independent statements are sent together.
        let begun = try_zip(client.batch_execute("BEGIN"), client.query_typed(&lock, params));
        let ((), locked) = timeout_at(tries.deadline, begun).await.map_err(|_| Failure::Late)??;
        let ids = locked.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let params: Params<'_> = &[(&ids, Type::INT8_ARRAY)];
        let erased = try_zip(client.execute_typed(&delete, params), client.batch_execute("COMMIT"));
        *known = ids.len() as u64;
        timeout(LONGEST, erased).await.map_err(|_| Failure::Late)??;
        Ok(*known)
    };
    let done = done.await;
    if done.is_err() {
        // The transaction may still be open.
        database.give_up(client);
    }
    done
}

/// How many records a transaction replaces.
const TOMBSTONES: usize = 10_000;

/// Replaces records with tombstones, and deletes their texts.
pub(super) async fn replace(
    database: &Database,
    scope: &Scope,
    log: &LogName,
    tombstones: &[Tombstone],
) -> Result<(), StoreError> {
    for tombstones in tombstones.chunks(TOMBSTONES) {
        let mut tries = Tries::new(database.patience);
        loop {
            // If the answer is lost, a second try finds other checksums, and changes nothing.
            match replace_once(database, &tries, (scope, log), tombstones).await {
                Err(failure) if failure.may_pass() && tries.back_off().await => {}
                done => {
                    done.map_err(|failure| explain(&database.place, database.patience, failure))?;
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn replace_once(
    database: &Database,
    tries: &Tries,
    (scope, log): (&Scope, &LogName),
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
    let client = database.client(tries).await?;
    let done = async {
        let params: Params<'_> = &[(&scope, Type::TEXT), (&name, Type::TEXT)];
        let begun = try_zip(client.batch_execute("BEGIN"), client.query_typed(&lock, params));
        let ((), locked) = timeout_at(tries.deadline, begun).await.map_err(|_| Failure::Late)??;
        let id = locked.first().map(|row| row.try_get::<_, i64>(0)).transpose()?;
        let Some(id) = id else {
            return timeout_at(tries.deadline, client.batch_execute("COMMIT"))
                .await
                .map_err(|_| Failure::Late)?
                .map_err(Failure::from);
        };
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
        timeout(LONGEST, replaced).await.map_err(|_| Failure::Late)??;
        Ok(())
    };
    let done = done.await;
    if done.is_err() {
        // The transaction may still be open.
        database.give_up(client);
    }
    done
}

/// Lets the server reuse the space of erased rows.
pub(super) async fn vacuum(database: &Database) -> Result<(), StoreError> {
    for table in ["logs", "entries", "texts"] {
        let sql = format!("VACUUM {}.{table}", database.schema);
        database.rows_within(LONGEST, &sql, &[]).await?;
    }
    Ok(())
}
