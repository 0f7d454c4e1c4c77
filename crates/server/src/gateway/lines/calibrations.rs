//! What the providers' reports say about the token counts of each model: a new conversation begins with what others have
//! learned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lookback_engine::Settings;
use lookback_session::Session;
use lookback_store::Store;
use lookback_tokens::Calibration;

/// The most models that are remembered. Clients name them, so there is no end of names.
const MOST: usize = 1024;

/// How many sessions are read when a store is used for the first time.
const NEWEST: usize = 16;

/// The corrections, by upstream and model.
#[derive(Debug, Default)]
pub(crate) struct Calibrations(Mutex<HashMap<(String, String), Calibration>>);

/// An upstream that is not known: what is read from the store does not say where it was asked.
const ANY: &str = "";

impl Calibrations {
    /// Returns how the counts of a model are corrected until its first report in a conversation.
    pub(crate) fn get(&self, upstream: &str, model: &str) -> Calibration {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |upstream: &str| known.get(&(upstream.to_owned(), model.to_owned())).copied();
        at(upstream).or_else(|| at(ANY)).unwrap_or_default()
    }

    /// Takes note of a correction.
    pub(crate) fn learn(&self, upstream: &str, model: &str, calibration: Calibration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (upstream.to_owned(), model.to_owned());
        if known.len() < MOST || known.contains_key(&place) {
            known.insert(place, calibration);
        }
    }

    /// Reads what the newest sessions of a store have learned. What cannot be read teaches nothing.
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
