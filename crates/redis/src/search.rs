//! Full-text search: reads the texts, and ranks them in this process.

use std::time::Duration;

use redis::Cmd;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::RedisStore;
use super::connection::Server;
use super::keys::Keys;
use super::packed::Text;
use super::read;
use lookback_store::search::{Query, Texts};
use lookback_store::{Hit, LogInfo, LogName, Scope, StoreError};

/// How long a search may take.
const LONGEST: Duration = Duration::from_secs(10);
/// How many texts are read at once, and about how many bytes, as estimated from their messages.
const CHUNK: u64 = 5_000;
const CHUNK_BYTES: u64 = 4 << 20;

/// Finds the records that match a query, in one log or in all: the best first.
pub(super) async fn search(
    RedisStore { server, scope }: RedisStore,
    log: Option<LogName>,
    query: Query,
    most: usize,
) -> Result<Vec<Hit>, StoreError> {
    let (handle, of) = (Handle::current(), server.clone());
    // Ranking many texts takes time, and this thread serves all connections.
    let found = spawn_blocking(move || {
        let deadline = Instant::now() + LONGEST;
        Search { server: &of, handle, deadline, scope }.run(log, &query, most)
    });
    found.await.map_err(|error| server.remote.broken(error))?
}

struct Search<'a> {
    server: &'a Server,
    handle: Handle,
    deadline: Instant,
    scope: Scope,
}

/// Consecutive texts of a log.
struct Part {
    log: u32,
    first: u64,
    end: u64,
}

impl Search<'_> {
    fn run(&self, log: Option<LogName>, query: &Query, most: usize) -> Result<Vec<Hit>, StoreError> {
        let logs = self.in_time(async {
            let names = match log {
                Some(log) => vec![log],
                None => read::names(self.server, &self.scope, "").await?,
            };
            read::described(self.server, &self.scope, &names).await
        })?;
        let mut texts = Texts::for_query(query);
        let (mut parts, mut room) = (Vec::new(), CHUNK_BYTES);
        for (log, (info, count)) in (0..).zip(&logs) {
            // A text is about as long as its message, and has a minimum cost.
            let length = (info.bytes / info.records.max(1)).max(CHUNK_BYTES / CHUNK);
            let mut first = 0;
            while first < *count {
                let end = (first + (room / length).max(1)).min(*count);
                parts.push(Part { log, first, end });
                room = room.saturating_sub((end - first) * length);
                first = end;
                if room < length {
                    self.add(&mut texts, &logs, &parts)?;
                    (parts, room) = (Vec::new(), CHUNK_BYTES);
                }
            }
        }
        self.add(&mut texts, &logs, &parts)?;
        let found = texts.search(None, query, most);
        let hit = |(log, position): (u32, u64)| Some(Hit::new(logs.get(log as usize)?.0.name.clone(), position));
        Ok(found.into_iter().filter_map(hit).collect())
    }

    /// Waits for an answer within the time limit of the search.
    fn in_time<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let remote = &self.server.remote;
        let slow = || StoreError::Slow { place: remote.place.clone(), limit: LONGEST };
        let late = || remote.last_error(LONGEST).unwrap_or_else(slow);
        self.handle.block_on(async { timeout_at(self.deadline, answer).await.map_err(|_| late())? })
    }

    /// Reads texts, and adds them to the index.
    fn add(&self, texts: &mut Texts, logs: &[(LogInfo, u64)], parts: &[Part]) -> Result<(), StoreError> {
        let commands = parts.iter().filter_map(|part| {
            let key = Keys::new(&self.server.prefix, &self.scope, &logs.get(part.log as usize)?.0.name).texts;
            Some(redis::cmd("LRANGE").arg(key).arg(part.first).arg(part.end - 1).take())
        });
        let values = self.in_time(self.server.each(LONGEST, commands.collect::<Vec<Cmd>>()))?;
        for (part, value) in parts.iter().zip(values) {
            let packed: Vec<Vec<u8>> = self.server.understood(value)?;
            for (text, terms) in packed.iter().filter_map(|packed| Text::unpacked(packed)) {
                texts.add_terms(part.log, text.position, text.time, terms);
            }
        }
        Ok(())
    }
}
