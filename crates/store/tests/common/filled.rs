//! A store with one log of each kind, and the ways to break them.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy, Stage, Summarize},
};
use lookback_facts::{Memory, Statement};
use lookback_session::Session;
use lookback_session::SummaryOptions;
use lookback_session::{Fault, verify};
use lookback_store::{Derived, Tombstone, checksum};
use lookback_store::{LogName, Store};
use lookback_summarize::Function;
use lookback_wire::message::Message;

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

/// Adds one log of each kind to a store and to a tenant of it, and returns their names.
pub(crate) fn fill(store: &Arc<dyn Store>) -> Vec<LogName> {
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    for store in [store, &tenant] {
        let stage = Stage::Summarize(Summarize { budget: 60, ..Summarize::default() });
        let policy = Policy { limits: Limits::messages(6), stages: vec![stage], ..Policy::unlimited() };
        let settings = Settings::default().policy(policy);
        let mut session = block_on(Session::open(store.clone(), "chat", settings)).unwrap().with_summarizer(
            SummaryOptions::new(Function::new("short", |_| async { Ok("They spoke of fruit.".to_owned()) }))
                .spawner(block_on),
        );
        for n in 0..80 {
            let fruit = ["apples", "pears", "plums"][n % 3];
            block_on(session.push(Message::user(format!("The basket of day {n} has {fruit}.")))).unwrap();
            block_on(session.window()).unwrap();
        }
        block_on(session.wait_for_summary()).unwrap();
        let memory = block_on(Memory::open(store.clone(), "chat")).unwrap();
        block_on(memory.remember(Statement::decision("We use SQLite."))).unwrap();
        block_on(memory.remember(Statement::preference("Use pnpm, not npm."))).unwrap();
        // They were used without a write.
        for info in block_on(store.list("")).unwrap() {
            assert!(block_on(store.touch(&info.name, info.used.unwrap() + 1_000)).unwrap());
        }
    }
    let of = |derived: Derived| match derived {
        Derived::Summary => name("chat").summary_of(),
        Derived::Facts => name("chat").facts_of(),
        Derived::Shared => name("shared").shared_of(),
    };
    let mut logs: Vec<LogName> = Derived::ALL.into_iter().map(of).chain([name("chat")]).collect();
    logs.sort();
    let listed: Vec<LogName> = block_on(store.list("")).unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(listed, logs, "one of each kind");
    logs
}

/// Asserts that a broken record is found in a log of each kind, in a store and in a tenant of it.
pub(crate) fn finds_a_broken_record_of_each_kind(store: &Arc<dyn Store>, kind: &str) {
    let logs = fill(store);
    let whole = block_on(verify(&**store, |_| {})).unwrap();
    assert!(whole.faults.is_empty(), "{kind}: {:?}", whole.faults);
    assert_eq!(whole.logs, 2 * logs.len() as u64, "{kind}");
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    for (store, of, tenants) in [(store, store, 0), (&tenant, store, 1)] {
        for log in &logs {
            let (at, body) = (0, block_on(store.read(log, 0..1)).unwrap().remove(0));
            let broken = Tombstone::new(at, checksum(log, at, &body), "{\"no\":\"entry\"}");
            block_on(store.erase(log, vec![broken])).unwrap();
            let faults = block_on(verify(&**of, |_| {})).unwrap().faults;
            let is_named = |fault: &Fault| match fault {
                Fault::Log { tenants: found, log: named, .. } => named == log && found.len() == tenants,
                _ => false,
            };
            assert!(faults.iter().any(is_named), "{kind}: {log} of {tenants} tenants: {faults:?}");
            let back = block_on(store.read(log, 0..1)).unwrap().remove(0);
            block_on(store.erase(log, vec![Tombstone::new(at, checksum(log, at, &back), body)])).unwrap();
        }
    }
}
