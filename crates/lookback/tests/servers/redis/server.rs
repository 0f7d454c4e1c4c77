//! Redis servers in temporary folders, on free ports. They end with the test, even if the test is killed.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_redis::RedisStore;
use tempfile::TempDir;

use crate::backend::{Backend, Connected, LONGEST};
use crate::process::{Process, Shared, free_port};

pub(crate) struct Server {
    process: Mutex<Option<Process>>,
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    settings: Vec<String>,
    prefixes: AtomicU32,
}

impl Server {
    /// A server that writes each change to the disk at once.
    pub(crate) fn new() -> Server {
        Server::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A server with these settings.
    pub(crate) fn with(settings: &[&str]) -> Server {
        let server = Server {
            process: Mutex::new(None),
            folder: tempfile::tempdir().unwrap(),
            port: free_port(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            prefixes: AtomicU32::new(0),
        };
        server.start();
        server
    }

    /// The server that is shared by all tests that do not stop it.
    pub(crate) fn shared() -> Arc<Server> {
        static SHARED: Shared<Server> = Shared::new();
        SHARED.get(Server::new)
    }

    /// The URL of an empty store.
    pub(crate) fn url(&self) -> String {
        let prefix = self.prefixes.fetch_add(1, Ordering::SeqCst);
        format!("redis://127.0.0.1:{}/?prefix=test-{prefix}", self.port)
    }

    /// The contents of the append-only files.
    pub(crate) fn files(&self) -> Vec<u8> {
        let files = fs::read_dir(self.folder.path().join("appendonlydir")).unwrap();
        files.flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
    }

    /// Runs a command with `redis-cli`, and returns its output.
    pub(crate) fn cli(&self, command: &[&str]) -> String {
        cli(self.port, command)
    }
}

/// Runs a command with `redis-cli`, and returns its output.
pub(crate) fn cli(port: u16, command: &[&str]) -> String {
    let done = Command::new("redis-cli").args(["-p", &port.to_string()]).args(command).output().unwrap();
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

impl Backend for Server {
    fn empty(&self) -> String {
        format!("{}&connections=1", self.url())
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn connect_with(&self, url: &str, patience: Duration) -> Connected {
        Ok(Arc::new(block_on(RedisStore::connect_with(url, patience))?))
    }

    fn stop(&self) {
        self.process.lock().unwrap().take();
    }

    fn start(&self) {
        let (port, folder) = (self.port.to_string(), self.folder.path());
        let (dir, pid) = (folder.display().to_string(), folder.join("pid").display().to_string());
        let mut command =
            vec!["redis-server", "--port", &port, "--bind", "127.0.0.1", "--dir", &dir, "--pidfile", &pid];
        command.extend(["--save", "", "--repl-diskless-sync-delay", "0"]);
        command.extend(self.settings.iter().map(String::as_str));
        *self.process.lock().unwrap() = Some(Process::start(&command, &folder.join("log")));
        let begun = Instant::now();
        // A server that requires a password also answers.
        while !["PONG", "NOAUTH Authentication required."].contains(&&*self.cli(&["PING"])) {
            assert!(begun.elapsed() < LONGEST, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: &str) {
        let pid = fs::read_to_string(self.folder.path().join("pid")).unwrap();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(pid.trim()).status().unwrap().success());
    }
}
