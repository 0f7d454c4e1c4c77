//! What a test holds back until it lets it go: so it says what comes first, on a machine of any speed.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// More than anything takes here, on any machine, and less than the claim of a summary holds.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Holds those who wait until they are let go; or for so long that a test fails which waits for them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    is_free: Mutex<bool>,
    changed: Condvar,
}

impl Held {
    pub(crate) fn wait(&self) {
        let is_free = self.is_free.lock().unwrap();
        drop(self.changed.wait_timeout_while(is_free, LONGEST, |is_free| !*is_free).unwrap());
    }

    pub(crate) fn let_go(&self) {
        *self.is_free.lock().unwrap() = true;
        self.changed.notify_all();
    }
}
