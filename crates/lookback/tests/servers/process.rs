//! Processes of servers: each ends with the test, even if the test is killed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::LONGEST;

/// A process that ends when this one does, because it reads from a pipe that is closed then.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Runs a command. It gets `SIGINT` at the end, and `SIGKILL` if it does not end then.
    pub(crate) fn start(command: &[&str], log: &Path) -> Process {
        let script = "\"$@\" & pid=$!; trap '' INT TERM; cat >/dev/null; kill -CONT $pid; kill -INT $pid; \
                      (sleep 5; kill -KILL $pid) & killer=$!; wait $pid; kill -KILL $killer";
        let log = fs::File::create(log).unwrap();
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Process { child }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Returns a port on which nothing listens, and that no other test gets. A node of a cluster has a second port, 10,000
/// higher. Both are outside the range that the system uses for outgoing connections.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    loop {
        // Another test process begins at another port.
        let first = u16::try_from(std::process::id() % 8_000).unwrap();
        let port = 12_000 + (first + GIVEN.fetch_add(1, Ordering::SeqCst)) % 8_000;
        if [port, port + 10_000].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            return port;
        }
    }
}

/// Waits until something listens on a port.
pub(crate) fn wait_for(port: u16) {
    assert!(listens(port, LONGEST), "nothing listens on port {port}");
}

/// Waits until something listens on a port, for at most `patience`. Returns whether something does.
pub(crate) fn listens(port: u16, patience: Duration) -> bool {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A value that all tests of the program share.
pub(crate) struct Shared<T>(Mutex<Option<Arc<T>>>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Shared(Mutex::new(None))
    }

    /// Returns the value, and makes it if it does not exist. A process in it ends with this one, because of its pipe.
    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| Arc::new(make())).clone()
    }
}
