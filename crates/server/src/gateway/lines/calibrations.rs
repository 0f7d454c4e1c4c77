//! Corrections of the token counts of each model, from the providers' reports. A new conversation starts with the
//! corrections that earlier ones have learned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lookback_engine::Settings;
use lookback_session::Session;
use lookback_store::Store;
use lookback_tokens::Calibration;

/// The most models that are remembered. Clients choose the names, so their number must be limited.
const MOST: usize = 1024;

/// The number of sessions that are read when a store is used for the first time.
const NEWEST: usize = 16;

/// The corrections, by upstream and model.
#[derive(Debug, Default)]
pub(crate) struct Calibrations(Mutex<HashMap<(String, String), Calibration>>);

/// The upstream of corrections from the store, which does not record upstreams.
const ANY: &str = "";

impl Calibrations {
    /// Returns the correction of a model's counts until its first report in a conversation.
    pub(crate) fn get(&self, upstream: &str, model: &str) -> Calibration {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |upstream: &str| known.get(&(upstream.to_owned(), model.to_owned())).copied();
        at(upstream).or_else(|| at(ANY)).unwrap_or_default()
    }

    /// Records a correction.
    pub(crate) fn learn(&self, upstream: &str, model: &str, calibration: Calibration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (upstream.to_owned(), model.to_owned());
        if known.len() < MOST || known.contains_key(&place) {
            known.insert(place, calibration);
        }
    }

    /// Reads the corrections of a store's newest sessions. Skips sessions that cannot be read.
    pub(crate) async fn recall(&self, store: &Arc<dyn Store>) {
        let mut logs = store.list("").await.unwrap_or_default();
        logs.retain(|log| !log.name.is_derived());
        logs.sort_by_key(|log| log.used);
        let newest = logs.len().saturating_sub(NEWEST);
        for log in logs.iter().skip(newest) {
            let opened = Session::open(store.clone(), log.name.as_str(), Settings::default()).await;
            let Ok(session) = opened else { continue };
            session.view().calibrations().for_each(|(model, calibration)| self.learn(ANY, model, calibration));
        }
    }
}
