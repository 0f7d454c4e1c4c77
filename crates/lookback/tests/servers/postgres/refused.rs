//! Databases that cannot be used: each gives an error with the reason, before any write, and without a password.

use std::process::Command;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_location::Location;
use lookback_postgres::PostgresStore;
use lookback_store::conformance;
use lookback_store::{Append, Store, StoreError};

use super::connect;
use super::server::Server;
use crate::backend::{Backend, LONGEST};
use crate::deaf::{Deaf, chained};
use crate::process::free_port;

/// Connects, and returns the error. Permanent faults are reported at once, even if a store may try for a long time.
fn refused(url: &str) -> StoreError {
    refused_within(url, LONGEST)
}

fn refused_within(url: &str, patience: Duration) -> StoreError {
    let refused = block_on(PostgresStore::connect_with(url, patience)).unwrap_err();
    let said = format!("{} {refused:?}", chained(&refused));
    assert!(!said.contains("secret"), "{said}");
    refused
}

#[test]
fn a_database_that_cannot_be_used_is_refused_with_its_reason() {
    let server = Server::shared();
    assert!(matches!(refused(&server.url("none")), StoreError::Missing { .. }));
    assert!(matches!(refused("postgres://me:secret@127.0.0.1/x?sslmode=perhaps"), StoreError::Url { .. }));
    assert!(matches!(Location::parse("mysql://me:secret@127.0.0.1/x").unwrap_err(), StoreError::Url { .. }));

    // A user without rights.
    let url = server.database();
    server.sql("postgres", "CREATE ROLE guest LOGIN");
    let guest = url.replace("me@", "guest:secret@");
    let error = refused(&guest);
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    let nobody = url.replace("me@", "nobody:secret@");
    assert!(matches!(refused(&nobody), StoreError::Denied { .. }));
    assert_eq!(server.sql(&url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'lookback'"), "0");

    // Tables of another program, and tables of a newer version.
    server.sql(&url, "CREATE SCHEMA lookback; CREATE TABLE lookback.logs (mine int)");
    assert!(matches!(refused(&url), StoreError::NotAStore { .. }));
    let url = server.database();
    drop(connect(&url));
    server.sql(&url, "UPDATE lookback.version SET version = 9");
    assert!(matches!(refused(&url), StoreError::Newer { found: 9, known: 1, .. }));

    // An encoding that cannot express every name.
    server.sql("postgres", "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
    let error = refused(&server.url("latin"));
    assert!(error.to_string().contains("UTF8"), "{error}");
}

#[test]
fn why_a_server_could_not_be_reached_is_told_when_time_is_up() {
    let patience = Duration::from_secs(2);
    // One refuses connections, one closes each, and one closes the first and is silent on the others.
    let (closing, silent) = (Deaf::closing(), Deaf::silent_after(1));
    for port in [free_port(), closing.port, silent.port] {
        let error = refused_within(&format!("postgres://me:secret@127.0.0.1:{port}/x?sslmode=disable"), patience);
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        let told = chained(&error);
        assert!(told.ends_with(", tried for 2s"), "{told}");
        assert!(port == closing.port || port == silent.port || told.contains("refused"), "{told}");
    }
    assert!(closing.tried() > 1 && silent.tried() > 1);
}

#[test]
fn a_certificate_that_is_not_accepted_is_told_at_once() {
    // The client asks for TLS in eight bytes, and `S` means yes.
    let server = Deaf::untrusted(8, b"S");
    let error = refused(&format!("postgres://me:secret@localhost:{}/x?sslmode=verify-full", server.port));
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    assert!(chained(&error).contains("certificate"), "{}", chained(&error));
    assert_eq!(server.tried(), 1, "it stays so");
}

#[test]
fn a_database_that_may_only_be_read_can_be_read() {
    let server = Server::shared();
    let url = server.database();
    let log = "one".parse().unwrap();
    let record = || vec![lookback_store::Record::new("{}")];
    block_on(connect(&url).append(&log, Append::new(0, record()))).unwrap();
    server.sql("postgres", "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    server
        .sql(&url, "GRANT USAGE ON SCHEMA lookback TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA lookback TO reader");
    let store = connect(&url.replace("me@", "reader@"));
    assert_eq!(block_on(lookback_store::Store::read(&store, &log, 0..9)).unwrap(), ["{}"]);
    let refused = block_on(store.append(&log, Append::new(1, record()))).unwrap_err();
    assert!(matches!(refused, StoreError::Denied { .. }), "{refused:?}");
}

#[test]
fn a_server_that_only_reads_or_has_a_full_disk_says_so_and_goes_on_later() {
    let server = Server::shared();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap();
    let log = "one".parse().unwrap();
    let append = |at: u64| {
        let record = vec![lookback_store::Record::new("{\"a\":\"secret\"}").text("secret")];
        // A new connection for each append, because the setting applies to new ones only.
        block_on(connect(&url).append(&log, Append::new(at, record)))
    };
    append(0).unwrap();
    server.sql("postgres", &format!("ALTER DATABASE {database} SET default_transaction_read_only = on"));
    let refused = append(1).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    assert_eq!(block_on(lookback_store::Store::read(&connect(&url), &log, 0..9)).unwrap().len(), 1);
    server.sql("postgres", &format!("ALTER DATABASE {database} RESET default_transaction_read_only"));
    append(1).unwrap();

    // The error of a server whose disk is full. A disk that is really full would stop the other tests.
    server.sql(
        &url,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
         END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON lookback.texts EXECUTE FUNCTION full_disk();",
    );
    let refused = append(2).unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
    assert_eq!(
        block_on(lookback_store::Store::read(&connect(&url), &log, 0..9)).unwrap().len(),
        2,
        "nothing half-written"
    );
    server.sql(&url, "DROP TRIGGER full_disk ON lookback.texts");
    append(2).unwrap();
}

#[test]
fn a_user_who_may_create_no_schema_uses_one_that_is_there() {
    let server = Server::shared();
    let url = server.database();
    server.sql("postgres", "CREATE ROLE owner LOGIN");
    let own = url.replace("me@", "owner@");
    assert!(matches!(refused(&own), StoreError::Denied { .. }));
    server.sql(&url, "CREATE SCHEMA lookback AUTHORIZATION owner");
    block_on(conformance::conforms(connect(&own)));
}

#[test]
fn a_server_with_a_certificate_is_asked_for_it() {
    let server = Server::new();
    let data = server.folder.path().join("data");
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    let made = Command::new("openssl")
        .args(["req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success());
    let _ = Command::new("chown").arg("postgres:postgres").args([&key, &certificate]).status();
    assert!(Command::new("chmod").arg("600").arg(&key).status().unwrap().success());
    server.stop();
    let settings = std::fs::read_to_string(data.join("postgresql.conf")).unwrap();
    std::fs::write(data.join("postgresql.conf"), format!("{settings}\nssl = on\n")).unwrap();
    server.start();
    let url = server.database().replace("127.0.0.1", "localhost");
    let certificate = certificate.display();
    block_on(conformance::conforms(connect(&format!("{url}?sslmode=require"))));
    drop(connect(&format!("{url}?sslmode=verify-full&sslrootcert={certificate}")));
    let encrypted = "SELECT count(*) > 0 FROM pg_stat_ssl WHERE ssl";
    let store = connect(&format!("{url}?sslmode=verify-full&sslrootcert={certificate}"));
    assert_eq!(server.sql("postgres", encrypted), "t");
    drop(store);
    // The certificate is accepted neither by the system's authorities nor under another host name.
    for wrong in [
        format!("{url}?sslmode=verify-full"),
        format!("{}?sslmode=verify-full&sslrootcert={certificate}", url.replace("localhost", "127.0.0.1")),
    ] {
        let error = refused(&wrong);
        assert!(matches!(error, StoreError::Unreachable { .. }), "{wrong}: {error:?}");
        assert!(chained(&error).contains("certificate"), "{wrong}: {}", chained(&error));
    }
}
