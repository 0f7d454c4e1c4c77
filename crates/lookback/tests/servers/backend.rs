//! What the tests of faults need of a server, of either kind.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_store::{LogName, Store, StoreError};

/// More than anything takes here, on any machine.
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

pub(crate) type Connected = Result<Arc<dyn Store>, StoreError>;

pub(crate) trait Backend: Send + Sync {
    /// The URL of a store that is empty, with a single connection.
    fn empty(&self) -> String;

    fn port(&self) -> u16;

    fn connect_with(&self, url: &str, patience: Duration) -> Connected;

    /// Stops the server as its service would.
    fn stop(&self);

    fn start(&self);

    /// Sends a signal to the server and to all that it has started.
    fn signal(&self, signal: &str);

    fn connect(&self, url: &str) -> Arc<dyn Store> {
        self.connect_with(url, LONGEST).unwrap()
    }

    /// A URL by way of another port.
    fn by_way_of(&self, url: &str, port: u16) -> String {
        url.replacen(&format!(":{}/", self.port()), &format!(":{port}/"), 1)
    }
}

pub(crate) fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

pub(crate) fn length(store: &dyn Store, log: &LogName) -> u64 {
    block_on(store.head(log, None)).unwrap().map_or(0, |head| head.end)
}
