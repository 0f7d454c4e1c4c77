//! Keeps what hooks store within an age and a size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_lite::future::block_on;
use lookback_engine::transcript::Millis;
use lookback_store::{LogInfo, LogName, Store, now};

use super::project::HOOKS;
use super::{Settings, facts};
use crate::failure::Failure;

/// Deletes sessions of hooks that were unused for too long, and then the longest unused ones until the rest is small
/// enough. The facts of a project stay.
pub(super) fn keep_within(store: &Arc<dyn Store>, settings: &Settings) -> Result<(), Failure> {
    let age = Duration::from_secs(u64::from(settings.days) * 86_400);
    if let Some(before) = SystemTime::now().checked_sub(age) {
        facts::forget_old(before);
    }
    let mut sessions: BTreeMap<LogName, (Option<Millis>, u64)> = BTreeMap::new();
    for LogInfo { name, bytes, used, .. } in block_on(store.list(""))? {
        if !name.is_derived() && is_of_hooks(&name) {
            sessions.insert(name, (used, bytes));
        }
    }
    let since = now().map(|now| now - i64::from(settings.days) * 86_400_000);
    let mut oldest: Vec<(Option<Millis>, u64, LogName)> =
        sessions.into_iter().map(|(name, (used, bytes))| (used, bytes, name)).collect();
    oldest.sort();
    let mut size: u64 = oldest.iter().map(|(_, bytes, _)| bytes).sum();
    let most = settings.megabytes.saturating_mul(1_000_000);
    let mut gone = Vec::new();
    for (used, bytes, name) in oldest {
        let is_old = used.zip(since).is_some_and(|(used, since)| used < since);
        if is_old || size > most {
            size -= bytes;
            gone.extend([name.summary_of(), name]);
        }
    }
    block_on(store.delete(&gone))?;
    Ok(())
}

/// Returns whether a log is of hooks: results, conversations, what is derived from them, and facts of projects.
pub(super) fn is_of_hooks(log: &LogName) -> bool {
    log.derived().map_or(log.as_str(), |(_, of)| of).starts_with(HOOKS)
}
