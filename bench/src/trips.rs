//! Counts the round trips of a session to a server, and measures the calls if each answer takes 5 ms longer.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_location::Location;
use lookback_session::Session;
use lookback_store::Store;
use lookback_wire::message::Message;

use crate::backend::Backend;
use crate::proxy::Proxy;
use crate::{median, postgres, redis, time};

/// The delay of each answer, in milliseconds.
const DELAY: u64 = 5;
const PUSHES: usize = 60;
const OPENINGS: usize = 20;

pub fn run() {
    let (postgres, redis) = (postgres::Server::new(), redis::Server::new());
    let servers: [(&str, &dyn Backend); 2] = [("PostgreSQL", &postgres), ("Redis", &redis)];
    println!("Round trips and milliseconds of each call, through a proxy that delays each answer by {DELAY} ms\n");
    println!("{:<12} {:<28} {:>8} {:>8} {:>12}", "server", "call", "median", "most", "median, ms");
    for (server, backend) in servers {
        let proxy = Proxy::to(backend.port());
        let url = backend.by_way_of(&backend.empty(), proxy.port);
        let store: Arc<dyn Store> = Location::parse(&url).and_then(|location| location.open()).expect("a store");
        proxy.delay(DELAY);
        let (limits, target) = (Limits::messages(6), Some(Limits::messages(3)));
        let settings = || Settings::default().policy(Policy { limits, target, ..Policy::unlimited() });
        let mut session = block_on(Session::open(store.clone(), "chat", settings())).expect("a session");
        let (mut pushes, mut recorded, mut known) = (Vec::new(), Vec::new(), Vec::new());
        let measured = |work: &mut dyn FnMut()| {
            proxy.trips();
            let took = time(work).as_secs_f64() * 1e3;
            (proxy.trips(), took)
        };
        for n in 0..PUSHES {
            let message = Message::user(format!("message {n}"));
            pushes.push(measured(&mut || {
                block_on(session.push(message.clone())).expect("a push");
            }));
            let end = session.stats().entries;
            let window = measured(&mut || drop(block_on(session.window()).expect("a window")));
            if session.stats().entries > end { recorded.push(window) } else { known.push(window) }
        }
        drop(session);
        let opened =
            || measured(&mut || drop(block_on(Session::open(store.clone(), "chat", settings())).expect("a session")));
        let openings = (0..OPENINGS).map(|_| opened()).collect();
        for (call, figures) in [
            ("opening a session", openings),
            ("push", pushes),
            ("window that records", recorded),
            ("window that records nothing", known),
        ] {
            let most = figures.iter().map(|(trips, _)| *trips).max().unwrap_or(0);
            let trips = median(figures.iter().map(|(trips, _)| *trips as f64));
            let took = median(figures.iter().map(|(_, took)| *took));
            println!("{server:<12} {call:<28} {trips:>8} {most:>8} {took:>12.1}");
        }
    }
}
