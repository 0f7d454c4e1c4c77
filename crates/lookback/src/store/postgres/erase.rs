//! Erasing logs.

use std::time::Duration;

use futures_lite::future::try_zip;
use tokio::time::timeout_at;
use tokio_postgres::types::Type;

use super::connection::{Database, Params};
use super::fault::{Failure, explain};
use super::unsigned;
use crate::store::network::Tries;
use crate::store::{LogName, Scope, StoreError};

/// How long an erasure may take. Nobody waits for it but who erases.
const LONGEST: Duration = Duration::from_secs(600);

/// Erases some logs of a namespace, or all of them, and returns how many there were.
///
/// It is one transaction, which is sent in one go. The logs are locked before their records are deleted, so that an
/// append that is being written is seen whole.
pub(super) async fn erase(database: &Database, scope: &Scope, logs: Option<&[LogName]>) -> Result<u64, StoreError> {
    let names: Option<Vec<&str>> = logs.map(|logs| logs.iter().map(LogName::as_str).collect());
    let schema = &database.schema;
    let wanted = "scope = $1 AND ($2::text[] IS NULL OR name = ANY($2))";
    let lock = format!("SELECT id FROM {schema}.logs WHERE {wanted} ORDER BY id FOR UPDATE");
    let delete = format!(
        "WITH gone AS (DELETE FROM {schema}.logs WHERE {wanted} RETURNING id),
             entries AS (DELETE FROM {schema}.entries WHERE log IN (SELECT id FROM {schema}.logs WHERE {wanted})),
             texts AS (DELETE FROM {schema}.texts WHERE log IN (SELECT id FROM {schema}.logs WHERE {wanted}))
         SELECT count(*) FROM gone"
    );
    let params: Params<'_> = &[(&scope.as_str(), Type::TEXT), (&names, Type::TEXT_ARRAY)];
    let mut tries = Tries::new(LONGEST);
    let patience = Tries::new(database.patience);
    loop {
        match once(database, &tries, &lock, &delete, params).await {
            Ok(erased) => return Ok(erased),
            Err(failure) if failure.may_pass() && tokio::time::Instant::now() < patience.deadline => {
                tries.again().await;
            }
            Err(failure) => return Err(explain(&database.place, database.patience, failure)),
        }
    }
}

async fn once(
    database: &Database,
    tries: &Tries,
    lock: &str,
    delete: &str,
    params: Params<'_>,
) -> Result<u64, Failure> {
    let client = database.client(&Tries::new(database.patience)).await?;
    let work = async {
        // They are sent one behind the other, and answered together.
        let begun = try_zip(client.batch_execute("BEGIN"), client.query_typed(lock, params));
        let done = try_zip(client.query_typed(delete, params), client.batch_execute("COMMIT"));
        try_zip(begun, done).await
    };
    match timeout_at(tries.deadline, work).await {
        Ok(Ok((_, (rows, ())))) => Ok(unsigned(rows.first().map_or(Ok(0), |row| row.try_get(0))?)),
        Ok(Err(error)) => {
            // The transaction may still be open.
            database.give_up(client);
            Err(error.into())
        }
        Err(_) => {
            database.give_up(client);
            Err(Failure::Late)
        }
    }
}
