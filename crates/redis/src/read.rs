//! Reads logs, and lists them.

use std::ops::Range;

use redis::Value;

use super::RedisStore;
use super::connection::{NO_ARGUMENTS, Server};
use super::keys::{self, Keys};
use super::packed::unpacked;
use super::scripts::{HEAD, READ, TAIL};
use lookback_store::{Head, LogInfo, LogName, Scope, StoreError, StoredRecord, Tenant};

/// How many names are read at once.
pub(super) const CHUNK: usize = 1_000;
/// A byte greater than all bytes of UTF-8.
const BEHIND: u8 = 0xff;

/// Reads each of these spans.
pub(super) async fn spans(
    store: RedisStore,
    log: LogName,
    spans: Vec<Range<u64>>,
) -> Result<Vec<Vec<String>>, StoreError> {
    let RedisStore { server, scope } = &store;
    let keys = Keys::new(&server.prefix, scope, &log);
    let mut limits = Vec::with_capacity(spans.len() * 2);
    for span in &spans {
        // The range from 1 to 0 is empty.
        let (first, last) = if span.is_empty() { (1, 0) } else { (span.start, span.end - 1) };
        limits.extend([index(first), index(last)]);
    }
    let mut values = server.run::<Vec<Value>>(&READ, &[keys.log, keys.records], &limits).await?.into_iter();
    let end: u64 = server.understood(values.next().unwrap_or(Value::Nil))?;
    let mut all = Vec::with_capacity(spans.len());
    for (span, value) in spans.iter().zip(values) {
        let packed: Vec<Vec<u8>> = server.understood(value)?;
        all.push(bodies(&log, span.clone(), end, &packed)?);
    }
    Ok(all)
}

/// Returns a position as an index of the server, which is signed.
fn index(position: u64) -> String {
    position.min(i64::MAX.cast_unsigned()).to_string()
}

/// Unpacks the records of a span, which were read from its beginning, and returns their bodies.
fn bodies(log: &LogName, span: Range<u64>, end: u64, packed: &[Vec<u8>]) -> Result<Vec<String>, StoreError> {
    let first = span.start;
    let read = (0..).zip(packed).map(|(index, bytes)| unpacked(log, first.saturating_add(index), bytes));
    StoredRecord::check(log, span, end, read.collect::<Result<Vec<_>, _>>()?)
}

pub(super) async fn head(store: RedisStore, log: LogName, before: Option<u64>) -> Result<Option<Head>, StoreError> {
    let RedisStore { server, scope } = &store;
    let keys = Keys::new(&server.prefix, scope, &log);
    let before = before.map_or("+inf".to_owned(), |before| format!("({before}"));
    let found: Option<(u64, i64)> = server.run(&HEAD, &[keys.log, keys.checkpoints], &[before]).await?;
    Ok(found.map(|(end, newest)| Head::new(end, u64::try_from(newest).ok())))
}

/// Reads the end of a log, and its records from the newest checkpoint on.
pub(super) async fn tail(store: RedisStore, log: LogName) -> Result<Option<(Head, Vec<String>)>, StoreError> {
    let RedisStore { server, scope } = &store;
    let keys = Keys::new(&server.prefix, scope, &log);
    let read: Option<(u64, i64, Vec<Vec<u8>>)> =
        server.run(&TAIL, &[keys.log, keys.records, keys.checkpoints], NO_ARGUMENTS).await?;
    let Some((end, newest, packed)) = read else { return Ok(None) };
    let head = Head::new(end, u64::try_from(newest).ok());
    let bodies = bodies(&log, head.checkpoint.unwrap_or(0)..end, end, &packed)?;
    Ok(Some((head, bodies)))
}

fn log_info(server: &Server, log: &LogName, value: Value) -> Result<Option<(LogInfo, u64)>, StoreError> {
    type Row = (Option<u64>, Option<u64>, Option<i64>, Option<i64>, Option<u64>);
    let (records, bytes, created, used, texts): Row = server.understood(value)?;
    let info = |records| LogInfo::new(log.clone(), records, bytes.unwrap_or(0)).created(created).used(used);
    Ok(records.map(|records| (info(records), texts.unwrap_or(0))))
}

/// Returns the descriptions of these logs, each with the number of its texts. Skips logs that do not exist.
pub(super) async fn described(
    server: &Server,
    scope: &Scope,
    logs: &[LogName],
) -> Result<Vec<(LogInfo, u64)>, StoreError> {
    const FIELDS: [&str; 5] = ["length", "bytes", "created", "used", "texts"];
    let mut described = Vec::with_capacity(logs.len());
    for logs in logs.chunks(CHUNK) {
        let key = |log| Keys::new(&server.prefix, scope, log).log;
        let commands = logs.iter().map(|log| redis::cmd("HMGET").arg(key(log)).arg(&FIELDS).take()).collect();
        for (log, value) in logs.iter().zip(server.each(server.remote.patience, commands).await?) {
            described.extend(log_info(server, log, value)?);
        }
    }
    Ok(described)
}

pub(super) async fn info(store: RedisStore, log: LogName) -> Result<Option<LogInfo>, StoreError> {
    Ok(described(&store.server, &store.scope, &[log]).await?.pop().map(|(info, _)| info))
}

pub(super) async fn list(RedisStore { server, scope }: RedisStore, prefix: String) -> Result<Vec<LogInfo>, StoreError> {
    let names = names(&server, &scope, &prefix).await?;
    Ok(described(&server, &scope, &names).await?.into_iter().map(|(info, _)| info).collect())
}

/// Returns the names with a prefix, in their order, possibly including those of expired logs.
pub(super) async fn names(server: &Server, scope: &Scope, prefix: &str) -> Result<Vec<LogName>, StoreError> {
    let all = members(server, &keys::names(&server.prefix, scope), prefix).await?;
    Ok(all.into_iter().map(LogName::unchecked).collect())
}

/// Returns the members of a sorted set with a prefix, in their order.
async fn members(server: &Server, key: &str, prefix: &str) -> Result<Vec<String>, StoreError> {
    let mut first = [b"[", prefix.as_bytes()].concat();
    let last = [b"(", prefix.as_bytes(), &[BEHIND]].concat();
    let mut all: Vec<String> = Vec::new();
    loop {
        let range = redis::cmd("ZRANGEBYLEX").arg(key).arg(&first).arg(&last).arg("LIMIT").arg(0).arg(CHUNK).take();
        let found: Vec<String> = server.ask(range).await?;
        let is_all = found.len() < CHUNK;
        all.extend(found);
        match all.last() {
            Some(newest) if !is_all => first = [b"(", newest.as_bytes()].concat(),
            _ => return Ok(all),
        }
    }
}

/// Returns a namespace, and those of all tenants within it, including those without logs.
pub(super) async fn scopes(server: &Server, scope: &Scope) -> Result<Vec<Scope>, StoreError> {
    let inner = members(server, &keys::scopes(&server.prefix), scope.as_str()).await?;
    let inner = inner.into_iter().map(Scope::unchecked).filter(|inner| inner != scope);
    Ok([scope.clone()].into_iter().chain(inner).collect())
}

/// Returns the tenants of a namespace, in the byte order of their names.
pub(super) async fn tenants(store: RedisStore) -> Result<Vec<Tenant>, StoreError> {
    let RedisStore { server, scope } = &store;
    let mut tenants = Vec::new();
    for scopes in scopes(server, scope).await?.chunks(CHUNK) {
        // A namespace stays in the list after its last log is erased.
        let exist = scopes.iter().map(|scope| redis::cmd("EXISTS").arg(keys::names(&server.prefix, scope)).take());
        let exist = server.each(server.remote.patience, exist.collect()).await?;
        let used = scopes.iter().zip(exist).filter(|(_, exists)| *exists == Value::Int(1));
        tenants.extend(used.filter_map(|(inner, _)| scope.tenant_in(inner.as_str())));
    }
    tenants.dedup();
    Ok(tenants)
}
