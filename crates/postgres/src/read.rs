//! Reads logs, and lists them.

use std::ops::Range;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Database;
use super::fault::failure;
use super::{PostgresStore, signed, unsigned};
use lookback_store::{Head, LogInfo, LogName, StoreError, StoredRecord, Tenant};

/// Reads each of these spans.
pub(super) async fn spans(
    store: PostgresStore,
    log: LogName,
    spans: Vec<Range<u64>>,
) -> Result<Vec<Vec<String>>, StoreError> {
    let PostgresStore { database, scope } = &store;
    let schema = &database.schema;
    let sql = format!(
        "SELECT span.number, length, position, checksum, body FROM {schema}.logs
         CROSS JOIN unnest($3::bigint[], $4::bigint[]) WITH ORDINALITY AS span (first, last, number)
         LEFT JOIN {schema}.entries ON log = id AND position >= span.first AND position < span.last
         WHERE scope = $1 AND name = $2 ORDER BY span.number, position"
    );
    let (first, last): (Vec<i64>, Vec<i64>) = spans.iter().map(|span| (signed(span.start), signed(span.end))).unzip();
    let rows = database
        .fixed(
            &sql,
            &[
                (&scope.as_str(), Type::TEXT),
                (&log.as_str(), Type::TEXT),
                (&first, Type::INT8_ARRAY),
                (&last, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let mut rows = rows.iter().peekable();
    let mut all = Vec::with_capacity(spans.len());
    for (number, span) in (1_i64..).zip(&spans) {
        let (mut end, mut read) = (0, Vec::new());
        while let Some(row) = rows.next_if(|row| row.try_get::<_, i64>(0).is_ok_and(|of| of == number)) {
            end = unsigned(get(database, row, 1)?);
            read.extend(record(database, &log, row, 2)?);
        }
        all.push(StoredRecord::check(&log, span.clone(), end, read)?);
    }
    Ok(all)
}

/// Returns a column of a row.
pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    database: &Database,
    row: &'a Row,
    column: usize,
) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| failure(&database.remote, database.remote.patience, error).into())
}

/// Returns the record that begins at a column; `None` if the row has none.
pub(super) fn record(
    database: &Database,
    log: &LogName,
    row: &Row,
    column: usize,
) -> Result<Option<StoredRecord>, StoreError> {
    let Some(position) = get::<Option<i64>>(database, row, column)? else { return Ok(None) };
    let (position, checksum): (_, i64) = (unsigned(position), get(database, row, column + 1)?);
    let body = std::str::from_utf8(get(database, row, column + 2)?);
    let body = body.map_err(|_| StoreError::damaged(log, position, lookback_store::Damage::Altered))?;
    Ok(Some(StoredRecord::new(position, checksum.cast_unsigned(), body)))
}

pub(super) async fn head(store: PostgresStore, log: LogName, before: Option<u64>) -> Result<Option<Head>, StoreError> {
    let PostgresStore { database, scope } = &store;
    let schema = &database.schema;
    let sql = format!(
        "SELECT length, (SELECT max(position) FROM {schema}.entries WHERE log = id AND checkpoint AND position < $3)
         FROM {schema}.logs WHERE scope = $1 AND name = $2"
    );
    let before = signed(before.unwrap_or(u64::MAX));
    let params = &[(&scope.as_str() as _, Type::TEXT), (&log.as_str() as _, Type::TEXT), (&before as _, Type::INT8)];
    let rows = database.rows(&sql, params).await?;
    let head = |row: &Row| {
        let checkpoint: Option<i64> = get(database, row, 1)?;
        Ok(Head::new(unsigned(get(database, row, 0)?), checkpoint.map(unsigned)))
    };
    rows.first().map(head).transpose()
}

/// Reads the end of a log, and its records from the newest checkpoint on.
pub(super) async fn tail(store: PostgresStore, log: LogName) -> Result<Option<(Head, Vec<String>)>, StoreError> {
    let PostgresStore { database, scope } = &store;
    let schema = &database.schema;
    let sql = format!(
        "WITH head AS (
             SELECT id, length, (SELECT max(position) FROM {schema}.entries WHERE log = id AND checkpoint) AS checkpoint
             FROM {schema}.logs WHERE scope = $1 AND name = $2
         )
         SELECT length, head.checkpoint, position, checksum, body FROM head
         LEFT JOIN {schema}.entries ON log = id AND position >= coalesce(head.checkpoint, 0) ORDER BY position"
    );
    let rows = database.fixed(&sql, &[(&scope.as_str(), Type::TEXT), (&log.as_str(), Type::TEXT)]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let (length, checkpoint): (i64, Option<i64>) = (get(database, first, 0)?, get(database, first, 1)?);
    let head = Head::new(unsigned(length), checkpoint.map(unsigned));
    let mut read = Vec::with_capacity(rows.len());
    for row in &rows {
        read.extend(record(database, &log, row, 2)?);
    }
    let bodies = StoredRecord::check(&log, head.checkpoint.unwrap_or(0)..head.end, head.end, read)?;
    Ok(Some((head, bodies)))
}

/// The columns that [`log_info`] reads.
const INFO: &str = "name, length, bytes, created, used";

fn log_info(database: &Database, row: &Row) -> Result<LogInfo, StoreError> {
    let name = LogName::unchecked(get(database, row, 0)?);
    let (records, bytes): (i64, i64) = (get(database, row, 1)?, get(database, row, 2)?);
    let info = LogInfo::new(name, unsigned(records), unsigned(bytes));
    Ok(info.created(get(database, row, 3)?).used(get(database, row, 4)?))
}

pub(super) async fn info(store: PostgresStore, log: LogName) -> Result<Option<LogInfo>, StoreError> {
    let PostgresStore { database, scope } = &store;
    let sql = format!("SELECT {INFO} FROM {}.logs WHERE scope = $1 AND name = $2", database.schema);
    let rows = database.rows(&sql, &[(&scope.as_str(), Type::TEXT), (&log.as_str(), Type::TEXT)]).await?;
    rows.first().map(|row| log_info(database, row)).transpose()
}

pub(super) async fn list(store: PostgresStore, prefix: String) -> Result<Vec<LogInfo>, StoreError> {
    let PostgresStore { database, scope } = &store;
    // No name has such a character, and the database does not accept it.
    if prefix.contains('\0') {
        return Ok(Vec::new());
    }
    // The first condition finds the start in the index, and the second one ends the scan.
    let sql = format!(
        "SELECT {INFO} FROM {}.logs WHERE scope = $1 AND name >= $2 AND ($3::text IS NULL OR name < $3)
             AND starts_with(name, $2) ORDER BY name",
        database.schema
    );
    let behind = behind(&prefix);
    let params = &[(&scope.as_str() as _, Type::TEXT), (&prefix as _, Type::TEXT), (&behind as _, Type::TEXT)];
    database.rows(&sql, params).await?.iter().map(|row| log_info(database, row)).collect()
}

/// Returns the smallest text greater than all texts with this prefix, byte for byte; `None` if there is none.
fn behind(prefix: &str) -> Option<String> {
    let mut behind = prefix.to_owned();
    while let Some(last) = behind.pop() {
        // The last character has no successor.
        if let Some(next) = (last..=char::MAX).nth(1) {
            behind.push(next);
            return Some(behind);
        }
    }
    None
}

/// Checks that the tables exist, and that the server is writable: a standby is not.
pub(super) async fn probe(store: PostgresStore) -> Result<(), StoreError> {
    let database = &store.database;
    let sql = format!(
        "SELECT current_setting('transaction_read_only') = 'on' FROM {0}.version
         WHERE NOT EXISTS (SELECT 1 FROM {0}.logs WHERE scope = '' AND name = '')",
        database.schema
    );
    let rows = database.rows(&sql, &[]).await?;
    match rows.first().map(|row| get(database, row, 0)).transpose()? {
        Some(true) => Err(StoreError::ReadOnly { place: database.remote.place.clone() }),
        Some(false) => Ok(()),
        None => Err(StoreError::NotAStore { place: database.remote.place.clone() }),
    }
}

/// Returns the tenants of a namespace, in the byte order of their names.
pub(super) async fn tenants(PostgresStore { database, scope }: PostgresStore) -> Result<Vec<Tenant>, StoreError> {
    // Jumps from one namespace to the next, since a tenant may have many logs.
    let sql = format!(
        "WITH RECURSIVE found (scope) AS (
             (SELECT scope FROM {0}.logs WHERE scope > $1 AND starts_with(scope, $1) ORDER BY scope LIMIT 1)
             UNION ALL
             SELECT (SELECT next.scope FROM {0}.logs AS next
                     WHERE next.scope > found.scope AND starts_with(next.scope, $1) ORDER BY next.scope LIMIT 1)
             FROM found WHERE found.scope IS NOT NULL
         )
         SELECT scope FROM found WHERE scope IS NOT NULL",
        database.schema
    );
    let rows = database.rows(&sql, &[(&scope.as_str(), Type::TEXT)]).await?;
    let mut tenants = Vec::new();
    for row in &rows {
        tenants.extend(scope.tenant_in(get(&database, row, 0)?));
    }
    tenants.dedup();
    Ok(tenants)
}
