//! The store in PostgreSQL, against real servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod faults;
mod proxy;
mod refused;
mod server;

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::store::conformance;
use lookback::{PostgresStore, Store};
use server::Server;

fn connect(url: &str) -> PostgresStore {
    block_on(PostgresStore::connect(url)).unwrap()
}

#[test]
fn a_store_in_postgres_conforms() {
    block_on(conformance::conforms(&connect(&Server::shared().database())));
}

#[test]
fn a_store_in_partitions_conforms() {
    let url = format!("{}?partitions=4&schema=parts", Server::shared().database());
    block_on(conformance::conforms(&connect(&url)));
}

#[test]
fn writers_of_several_processes_lose_and_double_nothing() {
    let url = Server::shared().database();
    let stores: Vec<Arc<dyn Store>> = (0..8).map(|_| Arc::new(connect(&url)) as Arc<dyn Store>).collect();
    conformance::keeps_every_append(&stores, 25);
}

#[test]
fn many_that_start_at_once_create_the_tables_once() {
    let url = Server::shared().database();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| connect(&url));
        }
    });
    assert_eq!(Server::shared().sql(&url, "SELECT version FROM lookback.version"), "1");
}
