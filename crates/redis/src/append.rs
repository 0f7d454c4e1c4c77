//! Appends records exactly once.

use lookback_engine::transcript::Millis;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::connection::{Call, Server};
use super::fault::{Failure, explain};
use super::keys::{self, Keys};
use super::packed::Text;
use super::scripts::{APPEND, TOUCH};
use lookback_network::{Tries, unclear};
use lookback_store::search::terms;
use lookback_store::{Append, LogName, Scope, StoreError, checksum};

/// The script's answer if the records are in the log.
const WRITTEN: i64 = -1;

pub(super) async fn append(server: &Server, scope: &Scope, log: &LogName, append: Append) -> Result<(), StoreError> {
    let (at, time) = (append.at, append.time);
    // Computing the terms takes time in proportion to the texts, and this thread serves all connections.
    let name = log.clone();
    let packed = tokio::task::spawn_blocking(move || Packed::new(&name, append)).await;
    let packed =
        packed.map_err(|source| StoreError::Backend { place: server.place.clone(), source: Box::new(source) })?;
    let command = packed.command(server, scope, log, time);
    let is_apart = at == 0 && !packed.records.is_empty() && server.is_cluster();
    let mut is_unclear = false;
    let mut tries = Tries::new(server.patience);
    loop {
        let failure = match once(server, &tries, (scope, log), (at, is_apart), &command).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        is_unclear |= failure.is_unclear();
        if !failure.may_pass() || !tries.back_off().await {
            let is_refused = matches!(failure, Failure::Store(StoreError::Conflict { .. }));
            let error = explain(&server.place, server.patience, failure);
            // An earlier try, or one by the driver itself, may have written the records.
            return Err(if is_unclear && !is_refused { unclear(&server.place, error) } else { error });
        }
    }
}

/// Tries an append once. The script recognizes records that an earlier try has written.
async fn once(
    server: &Server,
    tries: &Tries,
    (scope, log): (&Scope, &LogName),
    (at, is_apart): (u64, bool),
    command: &Cmd,
) -> Result<(), Failure> {
    let mut pipeline = redis::pipe();
    pipeline.add_command(command.clone());
    if server.wait > 0 {
        // The answer must arrive before the call gives up, which would close the connection.
        let left = tries.deadline.saturating_duration_since(Instant::now()) * 3 / 4;
        pipeline.cmd("WAIT").arg(server.wait).arg(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
    }
    // An erasure may remove the name before the log exists, so the name is added once more afterwards.
    if is_apart {
        name(server, tries, scope, log).await?;
    }
    let answers = server.once(tries, &Call::Script { pipeline, script: &APPEND, waits: server.wait > 0 }).await?;
    if is_apart {
        name(server, tries, scope, log).await?;
    }
    match answers.as_slice() {
        [Value::Int(WRITTEN)] => Ok(()),
        [Value::Int(WRITTEN), Value::Int(replicas)] if *replicas >= i64::from(server.wait) => Ok(()),
        // It was written, but may be lost with the primary.
        [Value::Int(WRITTEN), _] => Err(Failure::Late),
        [Value::Int(end), ..] => {
            Err(Failure::Store(StoreError::Conflict { at, end: u64::try_from(*end).unwrap_or(u64::MAX) }))
        }
        _ => Err(Failure::Store(StoreError::NotAStore { place: server.place.clone() })),
    }
}

/// Adds a log to the list of its namespace, which is in another slot.
async fn name(server: &Server, tries: &Tries, scope: &Scope, log: &LogName) -> Result<(), Failure> {
    let names = keys::names(&server.prefix, scope);
    let mut commands = vec![redis::cmd("ZADD").arg(names).arg(0).arg(log.as_str()).take()];
    if !scope.as_str().is_empty() {
        commands.push(redis::cmd("ZADD").arg(keys::scopes(&server.prefix)).arg(0).arg(scope.as_str()).take());
    }
    server.once(tries, &Call::Each(commands)).await?;
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

pub(super) async fn touch(server: &Server, scope: &Scope, log: &LogName, time: Millis) -> Result<bool, StoreError> {
    let mut keys = vec![Keys::new(&server.prefix, scope, log).log];
    if server.ttl.is_some() {
        keys.extend(Keys::for_session(&server.prefix, scope, log));
    }
    let args = [time.to_string(), number(server.milliseconds_to_live())];
    server.run(&TOUCH, &keys, &args).await
}
