//! Appends records exactly once.

use lookback_engine::transcript::Millis;
use redis::{Cmd, Value};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::RedisStore;
use super::connection::{Call, Server};
use super::keys::{self, Keys};
use super::packed::Text;
use super::scripts::{APPEND, TOUCH};
use lookback_network::{Failure, Limit, retry};
use lookback_store::search::terms;
use lookback_store::{Append, LogName, Scope, StoreError, checksum};

/// The script's answer if the records are in the log.
const WRITTEN: i64 = -1;

pub(super) async fn append(store: RedisStore, log: LogName, append: Append) -> Result<(), StoreError> {
    let RedisStore { server, scope } = &store;
    let (at, time, name, remote) = (append.at, append.time, log.clone(), &server.remote);
    // Computing the terms takes time in proportion to the texts, and this thread serves all connections.
    let packed = spawn_blocking(move || Packed::new(&name, append)).await;
    let packed = packed.map_err(|error| remote.broken(error))?;
    let command = packed.command(server, scope, &log, time);
    let is_apart = at == 0 && !packed.records.is_empty() && server.is_cluster();
    let done = retry(remote.patience, |limit| once(&store, limit, &log, (at, is_apart), &command)).await;
    // An earlier try, or one by the driver itself, may have written the records.
    done.map_err(|failure| failure.of_append(&remote.place))
}

/// Tries an append once. The script recognizes records that an earlier try has written.
async fn once(
    RedisStore { server, scope }: &RedisStore,
    limit: Limit,
    log: &LogName,
    (at, is_apart): (u64, bool),
    command: &Cmd,
) -> Result<(), Failure> {
    let mut pipeline = redis::pipe();
    pipeline.add_command(command.clone());
    if server.wait > 0 {
        // The answer must arrive before the call gives up, which would close the connection.
        let left = limit.deadline.saturating_duration_since(Instant::now()) * 3 / 4;
        pipeline.cmd("WAIT").arg(server.wait).arg(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
    }
    // An erasure may remove the name before the log exists, so the name is added once more afterwards.
    if is_apart {
        name(server, limit, scope, log).await?;
    }
    let answers = server.once(limit, &Call::Script { pipeline, script: &APPEND, waits: server.wait > 0 }).await?;
    if is_apart {
        name(server, limit, scope, log).await?;
    }
    match answers.as_slice() {
        [Value::Int(WRITTEN)] => Ok(()),
        [Value::Int(WRITTEN), Value::Int(replicas)] if *replicas >= i64::from(server.wait) => Ok(()),
        // It was written, but may be lost with the primary.
        [Value::Int(WRITTEN), _] => {
            Err(StoreError::Late { place: server.remote.place.clone(), limit: limit.patience }.into())
        }
        [Value::Int(end), ..] => Err(StoreError::Conflict { at, end: u64::try_from(*end).unwrap_or(u64::MAX) }.into()),
        _ => Err(StoreError::NotAStore { place: server.remote.place.clone() }.into()),
    }
}

/// Adds a log to the list of its namespace, which is in another slot.
async fn name(server: &Server, limit: Limit, scope: &Scope, log: &LogName) -> Result<(), Failure> {
    let names = keys::names(&server.prefix, scope);
    let mut commands = vec![redis::cmd("ZADD").arg(names).arg(0).arg(log.as_str()).take()];
    if !scope.as_str().is_empty() {
        commands.push(redis::cmd("ZADD").arg(keys::scopes(&server.prefix)).arg(0).arg(scope.as_str()).take());
    }
    server.once(limit, &Call::Each(commands)).await?;
    Ok(())
}

/// The arguments of an append.
struct Packed {
    at: u64,
    key: u64,
    bytes: u64,
    records: Vec<Vec<u8>>,
    checkpoints: Vec<u64>,
    texts: Vec<Vec<u8>>,
}

impl Packed {
    fn new(log: &LogName, append: Append) -> Self {
        let Append { at, records, time, key, .. } = append;
        let mut packed = Packed { at, key, bytes: 0, records: Vec::new(), checkpoints: Vec::new(), texts: Vec::new() };
        for (index, mut record) in (0..).zip(records) {
            let position = at.saturating_add(index);
            record.time = record.time.or(time);
            let terms = if log.is_derived() { Vec::new() } else { terms(&record) };
            if !terms.is_empty() {
                packed.texts.push(Text { position, time: record.time }.packed(&terms));
            }
            if record.checkpoint {
                packed.checkpoints.push(position);
            }
            packed.bytes += record.body.len() as u64;
            packed.records.push(super::packed::packed(key, checksum(log, position, &record.body), &record.body));
        }
        packed
    }

    fn command(&self, server: &Server, scope: &Scope, log: &LogName, time: Option<Millis>) -> Cmd {
        let mut keys: Vec<String> = Keys::new(&server.prefix, scope, log).into_all().into();
        if server.ttl.is_some() {
            keys.extend(Keys::for_session(&server.prefix, scope, log));
        }
        let mut name = "";
        if self.at == 0 && !server.is_cluster() {
            keys.push(keys::names(&server.prefix, scope));
            keys.push(keys::scopes(&server.prefix));
            name = log.as_str();
        }
        let mut command = redis::cmd("EVALSHA");
        command.arg(APPEND.get_hash()).arg(keys.len()).arg(&keys);
        command.arg(self.at).arg(number(time)).arg(self.bytes).arg(number(server.milliseconds_to_live()));
        command.arg(name).arg(scope.as_str()).arg(self.records.len()).arg(self.checkpoints.len());
        command.arg(&self.key.to_le_bytes()).arg(&self.records).arg(&self.checkpoints).arg(&self.texts);
        command
    }
}

/// Returns a number as text, or an empty text.
fn number(number: Option<i64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

pub(super) async fn touch(store: RedisStore, log: LogName, time: Millis) -> Result<bool, StoreError> {
    let RedisStore { server, scope } = &store;
    let mut keys = vec![Keys::new(&server.prefix, scope, &log).log];
    if server.ttl.is_some() {
        keys.extend(Keys::for_session(&server.prefix, scope, &log));
    }
    let args = [time.to_string(), number(server.milliseconds_to_live())];
    server.run(&TOUCH, &keys, &args).await
}
