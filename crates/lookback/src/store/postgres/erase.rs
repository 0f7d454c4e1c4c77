//! Erasing logs.

use std::time::Duration;

use futures_lite::future::try_zip;
use tokio::time::{timeout, timeout_at};
use tokio_postgres::types::Type;

use super::connection::{Database, Params};
use super::fault::{Failure, explain};
use crate::store::network::Tries;
use crate::store::{LogName, Scope, StoreError};

/// How long the deletion may take, once the logs are locked. Nobody waits for it but who erases.
const LONGEST: Duration = Duration::from_secs(600);

/// Erases some logs of a namespace, or all of them, and returns how many there were.
///
/// It is one transaction of two round trips. The logs are locked before their records are deleted, so that an append that
/// is being written is seen whole.
pub(super) async fn erase(database: &Database, scope: &Scope, logs: Option<&[LogName]>) -> Result<u64, StoreError> {
    let names: Option<Vec<&str>> = logs.map(|logs| logs.iter().map(LogName::as_str).collect());
    let params: Params<'_> = &[(&scope.as_str(), Type::TEXT), (&names, Type::TEXT_ARRAY)];
    let mut tries = Tries::new(database.patience);
    // The logs that a try has locked, whose answer was lost.
    let mut known = 0;
    loop {
        match once(database, &tries, params, &mut known).await {
            Err(failure) if failure.may_pass() && tries.again().await => {}
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
        // What need not be waited for is sent in one go.
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

/// Lets the server use the space of what was erased again.
pub(super) async fn vacuum(database: &Database) -> Result<(), StoreError> {
    for table in ["logs", "entries", "texts"] {
        let sql = format!("VACUUM {}.{table}", database.schema);
        database.rows_within(LONGEST, &sql, &[]).await?;
    }
    Ok(())
}
