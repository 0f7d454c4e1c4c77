//! The operations on a server that the tests of faults need, for both kinds of servers.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_store::{LogName, Store, StoreError};

/// A time limit that no operation here reaches, even on a slow machine.
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

pub(crate) type Connected = Result<Arc<dyn Store>, StoreError>;

pub(crate) trait Backend: Send + Sync {
    /// The URL of an empty store, with a single connection.
    fn empty(&self) -> String;

    fn port(&self) -> u16;

    fn connect_with(&self, url: &str, patience: Duration) -> Connected;

    /// Stops the server as its service would.
    fn stop(&self);

    fn start(&self);

    /// Sends a signal to the server and to its child processes.
    fn signal(&self, signal: &str);

    fn connect(&self, url: &str) -> Arc<dyn Store> {
        self.connect_with(url, LONGEST).unwrap()
    }

    /// The URL with another port, such as that of a proxy.
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
