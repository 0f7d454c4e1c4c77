//! A gate that a test opens when it wants work to continue. So the order of events does not depend on the machine's
//! speed.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// A time limit that no step here reaches, even on a slow machine, and that is shorter than a summary's claim.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Blocks waiting threads until the gate is opened, or for [`LONGEST`], so that a failed test ends.
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
