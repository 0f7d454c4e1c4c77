//! Copying a store into another one.

use lookback_engine::transcript::Label;

use super::{Append, LogInfo, LogName, Record, Store, StoreError, every_namespace};

/// How many records are copied at once.
const CHUNK: u64 = 500;

/// The counts of a copy.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Copied {
    /// The number of logs.
    pub logs: u64,
    /// The number of records that were copied or already there.
    pub records: u64,
    /// How many of these records were already there.
    pub known: u64,
}

/// Copies every log of a store and of its tenants into another store, and compares the written bodies with those that
/// were read. `seen` is called with the number of records that were copied or already there, for example to show
/// progress.
///
/// An interrupted copy continues when it is called again. Nothing is erased in either store.
///
/// # Errors
/// Returns an error if the other store has a log of the same name that is not the beginning of this one. Nothing of that
/// log is written. Returns an error, and writes nothing, if the store has data that belongs to no log, and so would be
/// left behind. Returns an error if a store fails, or has a record that cannot be read.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::{Append, MemoryStore, Record, Store, copy};
///
/// let (from, to) = (MemoryStore::new(), MemoryStore::new());
/// from.append(&"chat-1".parse()?, Append::new(0, [Record::new("{}")])).await?;
/// let copied = copy(&from, &to, |_| {}).await?;
/// assert_eq!((copied.logs, copied.records, copied.known), (1, 1, 0));
/// assert_eq!(copy(&from, &to, |_| {}).await?.known, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn copy(from: &dyn Store, to: &dyn Store, mut seen: impl FnMut(u64)) -> Result<Copied, CopyError> {
    let mut copied = Copied::default();
    if let Some(what) = from.orphans().await?.into_iter().next() {
        return Err(CopyFault::Orphan { what }.into());
    }
    for (tenants, scoped) in every_namespace(from).await? {
        let from = scoped.as_deref().unwrap_or(from);
        let mut inner = None;
        for tenant in &tenants {
            inner = Some(inner.as_deref().unwrap_or(to).scoped(tenant)?);
        }
        let to = inner.as_deref().unwrap_or(to);
        for info in from.list("").await? {
            copy_log(from, to, &info, &mut copied, &mut seen).await?;
        }
    }
    Ok(copied)
}

async fn copy_log(
    from: &dyn Store,
    to: &dyn Store,
    info: &LogInfo,
    copied: &mut Copied,
    seen: &mut impl FnMut(u64),
) -> Result<(), CopyError> {
    let log = &info.name;
    let differs = |position| CopyError(CopyFault::Differs { log: log.clone(), position });
    let Some(end) = from.head(log, None).await?.map(|head| head.end) else { return Ok(()) };
    let known = to.head(log, None).await?.map_or(0, |head| head.end);
    if known > end {
        return Err(differs(end));
    }
    let (mut at, mut label) = (0, Label::default());
    while at < end {
        let span = at..end.min(at + CHUNK);
        let bodies = from.read(log, span.clone()).await?;
        let there = to.read(log, span.clone()).await?;
        if let Some(index) =
            (0..).zip(bodies.iter().zip(&there)).find_map(|(index, (one, other))| (one != other).then_some(index))
        {
            return Err(differs(at + index));
        }
        let count = bodies.len() as u64;
        let mut records: Vec<Record> =
            bodies.into_iter().map(|body| Record::from_body(log, body, &mut label)).collect();
        let rest = records.split_off(there.len().min(records.len()));
        if !rest.is_empty() {
            let written = rest.iter().map(|record| record.body.clone()).collect::<Vec<_>>();
            let first = at + there.len() as u64;
            // The first append sets the creation time, and later ones the time of last use.
            to.append(log, Append::new(first, rest).time(if first == 0 { info.created } else { info.used })).await?;
            if to.read(log, first..span.end).await? != written {
                return Err(differs(first));
            }
        }
        copied.known += there.len() as u64;
        copied.records += count;
        seen(count);
        at += count.max(1);
    }
    if let Some(used) = info.used {
        to.touch(log, used).await?;
    }
    copied.logs += 1;
    Ok(())
}

/// The reason why a store was not copied.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CopyError(#[from] CopyFault);

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        CopyFault::Store(error).into()
    }
}

/// The reason of a [`CopyError`].
#[derive(Debug, thiserror::Error)]
enum CopyFault {
    /// The other store has another log of this name.
    #[error(
        "the target has another log `{log}`, which differs from entry {position} on; nothing of it was written over"
    )]
    Differs { log: LogName, position: u64 },
    /// The store has data that belongs to no log, and would be left behind.
    #[error("{what}; it cannot be copied, so nothing was copied; run `lookback store verify` for a full report")]
    Orphan { what: String },
    /// A store failed.
    #[error(transparent)]
    Store(StoreError),
}
