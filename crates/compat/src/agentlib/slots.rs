//! The sessions that a memory holds open.

use std::collections::HashMap;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_engine::policy::Policy;

use super::Error;
use super::reads::Reads;
use super::window::settings;
use lookback_session::Session;
use lookback_store::{LogName, Store};

/// The most sessions that are open at a time. To open another, the least recently used one is closed.
const OPEN: usize = 128;

/// The open sessions.
#[derive(Default)]
pub(super) struct Slots {
    slots: HashMap<LogName, (u64, Arc<Mutex<Slot>>)>,
    /// Counts uses, to find the least recently used slot.
    uses: u64,
}

impl Slots {
    /// Returns the slot of a session. Concurrent callers for the same session get the same slot.
    pub(super) fn slot(&mut self, name: &LogName) -> Arc<Mutex<Slot>> {
        self.uses += 1;
        let uses = self.uses;
        if let Some((used, slot)) = self.slots.get_mut(name) {
            *used = uses;
            return slot.clone();
        }
        while self.slots.len() >= OPEN {
            // A slot that is in use stays, because its lock keeps the order of its writers.
            let idle = self.slots.iter().filter(|(_, (_, slot))| Arc::strong_count(slot) == 1);
            let Some(oldest) = idle.min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone()) else { break };
            self.slots.remove(&oldest);
        }
        let slot = Arc::<Mutex<Slot>>::default();
        self.slots.insert(name.clone(), (uses, slot.clone()));
        slot
    }

    /// Closes all sessions.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }

    /// Returns the number of open sessions.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }
}

/// An open session.
#[derive(Default)]
pub(super) struct Slot {
    session: Option<Session>,
    reads: Reads,
}

impl Slot {
    /// Returns the session in its current state in the store, because another process may have written to it or cleared
    /// it.
    pub(super) async fn take_up(
        &mut self,
        store: &Arc<dyn Store>,
        name: &LogName,
    ) -> Result<(&mut Session, &mut Reads), Error> {
        let end = store.head(name, None).await?.map_or(0, |head| head.end);
        let session = match self.session.take().filter(|session| session.stats().entries == end) {
            Some(session) => session,
            None => Session::open(store.clone(), name.as_str(), settings(Policy::unlimited())).await?,
        };
        if end == 0 {
            self.reads = Reads::default();
        }
        Ok((self.session.insert(session), &mut self.reads))
    }
}
