//! Processes of servers: each ends with the test, however the test ends.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::LONGEST;

/// A process that ends when this one does: it reads from a pipe, which is closed then.
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

/// A port on which nothing listens, and that no other test is given. A node of a cluster has a second one, which is 10,000
/// higher. None of them is among those that the system takes for connections.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    loop {
        // Another process that tests begins elsewhere.
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

/// Returns whether something listens on a port before this time is over.
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

/// What all tests of the program share.
pub(crate) struct Shared<T>(Mutex<Option<Arc<T>>>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Shared(Mutex::new(None))
    }

    /// Makes it if it does not exist. A process that it has ends with this one, by its pipe.
    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| Arc::new(make())).clone()
    }
}
