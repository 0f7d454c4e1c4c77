//! Servers that cannot be used: each gives an error with the reason, before any write, and without a password.

use std::process::Command;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_redis::RedisStore;
use lookback_store::{Append, Record, conformance};
use lookback_store::{Store, StoreError};

use super::connect;
use super::server::Server;
use crate::backend::{Backend, LONGEST, name};
use crate::deaf::{Deaf, chained};
use crate::process::free_port;

fn without_secrets(refused: StoreError) -> StoreError {
    let said = format!("{} {refused:?}", chained(&refused));
    assert!(!said.contains("secret"), "{said}");
    refused
}

/// Connects, and returns the error. Permanent faults are reported at once, even if a store may try for a long time.
fn refused(url: &str) -> StoreError {
    refused_within(url, LONGEST)
}

fn refused_within(url: &str, patience: Duration) -> StoreError {
    without_secrets(block_on(RedisStore::connect_with(url, patience)).unwrap_err())
}

#[test]
fn a_server_that_cannot_be_used_is_refused_with_its_reason() {
    assert!(matches!(refused("redis://me:secret@127.0.0.1/secret"), StoreError::Url { .. }));

    let server = Server::with(&["--requirepass", "hunter2"]);
    let url = server.url();
    let with = |login: &str| url.replace("redis://", &format!("redis://{login}@"));
    for url in [url.clone(), with(":secret"), with("me:secret")] {
        let error = refused(&url);
        assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    }
    drop(connect(&with(":hunter2")));

    // Keys of a newer version, and keys of another program.
    let server = Server::with(&[]);
    server.cli(&["SET", "newer:version", "9"]);
    server.cli(&["SET", "mine:version", "hello"]);
    server.cli(&["RPUSH", "list:version", "1"]);
    let url = |prefix: &str| format!("redis://127.0.0.1:{}/?prefix={prefix}", server.port);
    assert!(matches!(refused(&url("newer")), StoreError::Newer { found: 9, known: 1, .. }));
    for prefix in ["mine", "list"] {
        let error = refused(&url(prefix));
        assert!(matches!(error, StoreError::NotAStore { .. }), "{error:?}");
    }
    // A user without rights.
    server.cli(&["ACL", "SETUSER", "guest", "on", ">secret", "~*", "-@all", "+ping", "+info"]);
    let error = refused(&url("guest").replace("redis://", "redis://guest:secret@"));
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert_eq!(server.cli(&["EXISTS", "guest:version"]), "0");
    // Servers that do not form a cluster.
    let error = refused(&format!("redis://127.0.0.1:{},127.0.0.1:{}", server.port, Server::shared().port));
    assert!(matches!(error, StoreError::Url { .. }), "{error:?}");
    // A database that the server does not have.
    let error = refused(&format!("redis://127.0.0.1:{}/999", server.port));
    assert!(matches!(error, StoreError::Backend { .. } | StoreError::Missing { .. }), "{error:?}");
}

#[test]
fn why_a_server_could_not_be_reached_is_told_when_time_is_up() {
    let patience = Duration::from_secs(2);
    // One refuses connections, one closes each, and one closes the first and is silent on the others.
    let (closing, silent) = (Deaf::closing(), Deaf::silent_after(1));
    for port in [free_port(), closing.port, silent.port] {
        let error = refused_within(&format!("redis://me:secret@127.0.0.1:{port}"), patience);
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        let told = chained(&error);
        assert!(told.ends_with(", tried for 2s"), "{told}");
        assert!(port == closing.port || port == silent.port || told.contains("refused"), "{told}");
    }
    assert!(closing.tried() > 1 && silent.tried() > 1);
}

#[test]
fn a_certificate_that_is_not_accepted_is_told_at_once() {
    let server = Deaf::untrusted(0, b"");
    let error = refused(&format!("rediss://me:secret@localhost:{}", server.port));
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    assert!(chained(&error).contains("certificate"), "{}", chained(&error));
    assert_eq!(server.tried(), 1, "it stays so");
}

#[test]
fn a_replica_can_be_read_and_a_full_server_too() {
    let primary = Server::with(&[]);
    let prefix = "redis://127.0.0.1";
    let log = name("one");
    let record = |text: &str| vec![Record::new(format!("{{\"a\":\"{text}\"}}")).text(text)];
    let store = connect(&format!("{prefix}:{}", primary.port));
    block_on(store.append(&log, Append::new(0, record("zero")))).unwrap();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let begun = std::time::Instant::now();
    while !replica.cli(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(begun.elapsed() < LONGEST);
        std::thread::sleep(Duration::from_millis(50));
    }
    let url = format!("{prefix}:{}", replica.port);
    let copy = block_on(RedisStore::connect_with(&url, Duration::from_secs(3))).unwrap();
    assert_eq!(block_on(copy.read(&log, 0..9)).unwrap().len(), 1);
    let error = without_secrets(block_on(copy.append(&log, Append::new(1, record("secret")))).unwrap_err());
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");

    primary.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let error = without_secrets(block_on(store.append(&log, Append::new(1, record("secret")))).unwrap_err());
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 1);
    primary.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    block_on(store.append(&log, Append::new(1, record("one")))).unwrap();
}

#[test]
fn a_server_whose_disk_is_full_says_so_and_goes_on_later() {
    let server = Server::with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let url = format!("redis://127.0.0.1:{}", server.port);
    let log = name("one");
    let record = || vec![Record::new("{\"a\":\"secret\"}").text("secret")];
    let append = |at: u64| block_on(connect(&url).append(&log, Append::new(at, record())));
    append(0).unwrap();
    server.stop();
    // Writes to this file find no space, as on a full disk.
    let folder = server.folder.path().join("appendonlydir");
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let file = files.into_iter().find(|file| file.to_string_lossy().ends_with(".incr.aof")).unwrap();
    let kept = server.folder.path().join("kept");
    std::fs::rename(&file, &kept).unwrap();
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    server.start();
    let mut end = block_on(connect(&url).head(&log, None)).unwrap().map_or(0, |head| head.end);
    let begun = std::time::Instant::now();
    // The server notices at its next write, which may be after its answer.
    let refused = loop {
        match append(end) {
            Ok(()) => end += 1,
            Err(refused) => break without_secrets(refused),
        }
        assert!(begun.elapsed() < LONGEST, "nothing was refused");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
    server.stop();
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(&kept, &file).unwrap();
    server.start();
    assert_eq!(block_on(connect(&url).head(&log, None)).unwrap().unwrap().end, 1);
    append(1).unwrap();
}

#[test]
fn a_server_with_a_certificate_is_asked_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (key, certificate) = (folder.path().join("key"), folder.path().join("crt"));
    let made = Command::new("openssl")
        .args(["req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success());
    let (key, certificate) = (key.display().to_string(), certificate.display().to_string());
    let port = free_port();
    let tls = port.to_string();
    let settings = ["--tls-port", &tls, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let _server =
        Server::with(&[&settings[..], &["--tls-auth-clients", "no", "--tls-ca-cert-file", &certificate]].concat());
    let url = format!("rediss://localhost:{port}");
    block_on(conformance::conforms(connect(&format!("{url}/?cacert={certificate}"))));
    drop(connect(&format!("{url}/?insecure=true")));
    // The certificate is accepted neither by the system's authorities nor under another host name.
    for wrong in [url.clone(), format!("rediss://127.0.0.1:{port}/?cacert={certificate}")] {
        let error = refused(&wrong);
        assert!(matches!(error, StoreError::Unreachable { .. }), "{wrong}: {error:?}");
        assert!(chained(&error).contains("certificate"), "{wrong}: {}", chained(&error));
    }
    let missing = refused(&format!("{url}/?cacert=/nowhere"));
    assert!(matches!(missing, StoreError::Backend { .. }), "{missing:?}");
}
