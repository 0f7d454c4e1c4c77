//! A PostgreSQL server in a temporary folder, on a free port. It ends with the test, even if the test is killed.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_postgres::PostgresStore;
use tempfile::TempDir;

use crate::backend::{Backend, Connected, LONGEST};
use crate::process::{Process, Shared, free_port, listens};

/// Debian's folder for the programs of the server, which is not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Returns the command to run as another user if this one is root, because the server refuses to run as root.
pub(crate) fn as_user(command: &[String]) -> Vec<String> {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout.trim_ascii() == b"0";
    let mut whole = Vec::new();
    if is_root {
        whole.extend(["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"].map(str::to_owned));
    }
    whole.extend_from_slice(command);
    whole
}

fn run(command: &[String]) {
    let command = as_user(command);
    let done = Command::new(&command[0]).args(&command[1..]).output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn programs() -> PathBuf {
    let versions = fs::read_dir(DEBIAN).unwrap_or_else(|_| {
        panic!("PostgreSQL is not installed: run ./test.sh, or `apt-get install postgresql pgbouncer`")
    });
    let mut versions: Vec<PathBuf> = versions.map(|version| version.unwrap().path().join("bin")).collect();
    versions.sort();
    versions.pop().unwrap()
}

/// A folder that the user of the server may read.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let _ = Command::new("chown").args(["postgres:postgres"]).arg(folder.path()).status();
    folder
}

pub(crate) struct Server {
    process: Mutex<Option<Process>>,
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    databases: AtomicU32,
}

impl Server {
    /// A server with empty databases, which waits for the disk at each commit.
    pub(crate) fn new() -> Server {
        let folder = folder();
        let data = folder.path().join("data").display().to_string();
        let initdb = programs().join("initdb").display().to_string();
        run(&[
            initdb,
            "-D".into(),
            data,
            "-U".into(),
            "me".into(),
            "-E".into(),
            "UTF8".into(),
            "--locale=C.UTF-8".into(),
            "--auth=trust".into(),
            "--no-sync".into(),
        ]);
        let server = Server { process: Mutex::new(None), folder, port: free_port(), databases: AtomicU32::new(0) };
        server.run();
        server
    }

    /// The server that is shared by all tests that do not stop it.
    pub(crate) fn shared() -> Arc<Server> {
        static SHARED: Shared<Server> = Shared::new();
        SHARED.get(Server::new)
    }

    fn run(&self) {
        let postgres = programs().join("postgres").display().to_string();
        let data = self.folder.path().join("data").display().to_string();
        let settings = [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={}", self.folder.path().display()),
            "max_connections=200".to_owned(),
        ];
        let mut command = vec![postgres, "-D".to_owned(), data];
        command.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        let command = as_user(&command);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        // The remains of a killed server keep the next one from starting for a moment.
        let starts = |_: i32| {
            *self.process.lock().unwrap() = Some(Process::start(&command, &self.folder.path().join("log")));
            listens(self.port, Duration::from_secs(10))
        };
        assert!((0..6).any(starts), "nothing listens on port {}", self.port);
        let begun = Instant::now();
        while self.try_sql("postgres", "SELECT 1").is_err() {
            assert!(begun.elapsed() < LONGEST, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Creates an empty database, and returns its URL.
    pub(crate) fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        self.url(&name)
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://me@127.0.0.1:{}/{database}", self.port)
    }

    /// The server's process and its child processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let pid = fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        let children = Command::new("pgrep").args(["-P", &pid]).output().unwrap().stdout;
        let children = String::from_utf8(children).unwrap();
        [pid.as_str()].into_iter().chain(children.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
    }

    /// Runs a statement with `psql`, and returns its output.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub(crate) fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let url = if database.contains("://") { database.to_owned() } else { self.url(database) };
        let mut psql = Command::new(programs().join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        psql.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let done = psql.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
    }
}

impl Backend for Server {
    fn empty(&self) -> String {
        format!("{}?connections=1", self.database())
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn connect_with(&self, url: &str, patience: Duration) -> Connected {
        Ok(Arc::new(block_on(PostgresStore::connect_with(url, patience))?))
    }

    /// A fast shutdown, which closes open connections.
    fn stop(&self) {
        self.process.lock().unwrap().take();
    }

    fn start(&self) {
        self.run();
    }

    fn signal(&self, signal: &str) {
        let processes = self.processes().into_iter().map(|process| process.to_string());
        let _ = Command::new("kill").arg(format!("-{signal}")).args(processes).status();
    }
}
