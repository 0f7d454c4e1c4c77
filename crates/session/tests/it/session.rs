//! Sessions over each store: reopened, synchronized, branched, shared.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_lite::future::block_on;
use lookback_engine::policy::Keep;
use lookback_engine::transcript::Label;
use lookback_engine::transcript::{Entry, Millis, Origin, spans};
use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy, SystemRule},
};
use lookback_session::Batch;
use lookback_session::HistoryQuery;
use lookback_session::RecordedMessage;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_sqlite::SqliteStore;
use lookback_store::search::{Query, Within};
use lookback_store::{Append, Head, Hit, LogInfo, StoreFuture};
use lookback_store::{Durability, FileStore, LogName, MemoryStore, Store};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Runs a test over each store.
fn over_each(test: impl Fn(Arc<dyn Store>)) {
    test(Arc::new(MemoryStore::new()));
    let folder = tempfile::tempdir().unwrap();
    test(Arc::new(SqliteStore::open_with(folder.path().join("s.db"), Durability::System).unwrap()));
    test(Arc::new(FileStore::open_with(folder.path().join("s"), Durability::System).unwrap()));
}

fn settings(messages: u64) -> Settings {
    let target = Some(Limits::messages(messages.div_ceil(2)));
    Settings::default().policy(Policy { limits: Limits::messages(messages), target, ..Policy::unlimited() })
}

fn open(store: &Arc<dyn Store>, settings: Settings) -> Session {
    block_on(Session::open(store.clone(), "s", settings)).unwrap()
}

fn window(session: &mut Session) -> String {
    block_on(session.window()).unwrap().to_json().unwrap()
}

/// Messages by number: a task, then calls and results in turn, some of them interrupted.
fn message(n: u64) -> Message {
    match n % 5 {
        0 => Message::user(format!("task {n}")),
        1 => Message::assistant_with_calls("", [ToolCall::new(format!("c{n}"), "read", format!("{{\"n\": {n}}}"))]),
        2 => Message::tool_result(format!("c{}", n - 1), format!("result {n}")),
        3 => Message::assistant_with_calls("more", [ToolCall::new(format!("c{n}"), "read", "{}")]),
        _ => Message::assistant(format!("answer {n}")),
    }
}

fn count(session: &mut Session) -> usize {
    let entries = block_on(adapter::entries(session)).unwrap();
    entries.iter().filter(|entry| matches!(entry, Entry::Message(_))).count()
}

#[test]
fn a_session_that_is_opened_again_gives_the_same_window() {
    over_each(|store| {
        let mut session = open(&store, settings(6));
        for n in 0..400 {
            block_on(session.push(message(n))).unwrap();
            if n % 3 == 0 {
                window(&mut session);
            }
            if n % 37 == 0 {
                let mut again = open(&store, settings(6));
                assert_eq!(again.stats(), session.stats());
                assert_eq!(window(&mut again), window(&mut open(&store, settings(6))));
                session = again;
            }
        }
        assert_eq!(count(&mut session), 400);
    });
}

#[test]
fn windows_are_those_of_an_engine_fed_the_same() {
    over_each(|store| {
        let mut session = open(&store, settings(8));
        let mut engine = Engine::new(settings(8));
        for n in 0..120 {
            if n % 4 == 0 {
                session = open(&store, settings(8));
            }
            block_on(session.append(Batch::from(message(n)).at(None))).unwrap();
            engine.receive(message(n), Origin::Client, None).unwrap();
            if n % 2 == 1 {
                engine.window();
                let messages = Dialect::OpenAiChat.encode(engine.view().shown()).unwrap();
                let texts: Vec<_> = messages.iter().map(|raw| raw.get()).collect();
                assert_eq!(window(&mut session), format!("[{}]", texts.join(",")));
            }
        }
        assert_eq!(session.stats().entries, engine.end());
    });
}

#[test]
fn the_same_history_again_changes_nothing() {
    over_each(|store| {
        let history = |end| (0..end).map(message).collect::<Vec<_>>();
        let mut session = open(&store, settings(6));
        for end in [1, 4, 9, 9, 23] {
            let before = session.stats().messages;
            let synced = block_on(session.sync(history(end))).unwrap();
            assert_eq!((synced.known, synced.new, synced.left), (before, end - before, 0));
            window(&mut session);
            let entries = session.stats().entries;
            let synced = block_on(session.sync(history(end))).unwrap();
            assert_eq!((synced.new, session.stats().entries), (0, entries));
        }
        assert_eq!(count(&mut session), 23);
        let again = block_on(open(&store, settings(6)).sync(history(23))).unwrap();
        assert_eq!((again.known, again.new), (23, 0));
    });
}

#[test]
fn an_edit_makes_a_branch_and_a_shorter_history_too() {
    over_each(|store| {
        let mut session = open(&store, settings(50));
        let history: Vec<_> = (0..10).map(message).collect();
        block_on(session.sync(history.clone())).unwrap();
        window(&mut session);

        let mut edited = history.clone();
        edited[5] = Message::user("another task");
        let synced = block_on(session.sync(edited.clone())).unwrap();
        assert_eq!((synced.known, synced.new, synced.left), (5, 5, 5));
        let mut fresh = block_on(Session::open(MemoryStore::new(), "f", settings(50))).unwrap();
        block_on(fresh.sync(edited.clone())).unwrap();
        assert_eq!(window(&mut session), window(&mut fresh));
        assert_eq!(window(&mut open(&store, settings(50))), window(&mut fresh));

        let synced = block_on(session.sync(history[..3].to_vec())).unwrap();
        assert_eq!((synced.known, synced.new, synced.left), (3, 0, 7));
        assert_eq!(block_on(session.history()).unwrap().len(), 3);
        // The old branch is in the log. If the client returns to it, its messages count as new.
        let synced = block_on(session.sync(history)).unwrap();
        assert_eq!((synced.known, synced.new, synced.left), (3, 7, 0));
        assert_eq!(count(&mut session), 22);
        assert_eq!(block_on(session.history()).unwrap().len(), 10);
        let none = block_on(session.sync(vec![Message::user("all else")])).unwrap();
        assert_eq!((none.known, none.new, none.left), (0, 1, 10));
        assert!(!block_on(session.search("another", 9)).unwrap().is_empty());
    });
}

#[test]
fn two_sessions_of_one_name_lose_and_double_nothing() {
    over_each(|store| {
        let mut one = open(&store, settings(6));
        let mut two = open(&store, settings(6));
        for n in 0..30 {
            let session = if n % 3 == 0 { &mut one } else { &mut two };
            block_on(session.push(Message::user(format!("number {n}")))).unwrap();
            if n % 4 == 0 {
                window(session);
            }
        }
        let texts: Vec<_> = block_on(open(&store, settings(6)).history())
            .unwrap()
            .iter()
            .map(|entry| entry.arrival.message.text())
            .collect();
        let expected: Vec<_> = (0..30).map(|n| format!("number {n}")).collect();
        assert_eq!(texts, expected);
    });
}

#[test]
fn eight_writers_in_one_file_lose_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = || SqliteStore::open_with(&path, Durability::System).unwrap();
    drop(store());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let mut session = block_on(Session::open(store(), "s", settings(10))).unwrap();
                for n in 0..50 {
                    block_on(session.push(Message::user(format!("{thread} says {n}")))).unwrap();
                    if n % 10 == 0 {
                        block_on(session.window()).unwrap();
                    }
                }
            });
        }
    });
    let mut session = block_on(Session::open(store(), "s", settings(10))).unwrap();
    let history = block_on(session.history()).unwrap();
    let texts: Vec<_> = history.iter().map(|entry| entry.arrival.message.text()).collect();
    for thread in 0..8 {
        let own: Vec<_> = texts.iter().filter(|text| text.starts_with(&format!("{thread} "))).cloned().collect();
        assert_eq!(own, (0..50).map(|n| format!("{thread} says {n}")).collect::<Vec<_>>());
    }
    assert_eq!(texts.len(), 400);
}

#[test]
fn a_usage_report_above_our_count_is_believed_at_once() {
    over_each(|store| {
        let settings = settings(50).model("m");
        let mut session = open(&store, settings.clone());
        block_on(session.push(Message::user("word ".repeat(200)))).unwrap();
        let counted = block_on(session.window()).unwrap().tokens();
        block_on(session.usage("m", counted * 3 / 2)).unwrap();
        let corrected = block_on(session.window()).unwrap().tokens();
        assert!(corrected.abs_diff(counted * 3 / 2) <= 1, "{counted} {corrected}");
        assert_eq!(block_on(open(&store, settings).window()).unwrap().tokens(), corrected);
        block_on(session.usage("another", counted * 3)).unwrap();
        assert_eq!(block_on(session.window()).unwrap().tokens(), corrected);
    });
}

#[test]
fn what_left_the_window_is_found_and_read_back() {
    over_each(|store| {
        let mut session = open(&store, settings(4));
        block_on(session.push(Message::user("the launch code is zanzibar_9"))).unwrap();
        for n in 0..20 {
            block_on(session.push(Message::user(format!("filler {n}")))).unwrap();
        }
        assert!(!window(&mut session).contains("zanzibar_9"));
        let found = block_on(session.search("Zanzibar_9 code", 9)).unwrap();
        assert_eq!((found.len(), found[0].position), (1, 0));
        assert!(found[0].excerpt.contains("zanzibar_9"));
        let history = block_on(session.history()).unwrap();
        assert!(!history[0].shown && history[20].shown && history.len() == 21);
    });
}

#[test]
fn an_excerpt_shows_the_word_however_it_is_written() {
    over_each(|store| {
        let mut session = open(&store, settings(4));
        let filler = "filler ".repeat(200);
        block_on(session.push(Message::user(format!("{filler} the CAFE\u{301} by the river {filler}")))).unwrap();
        for query in ["caf\u{e9}", "cafe", "river Cafe"] {
            let found = block_on(session.search(query, 9)).unwrap();
            assert!(found.len() == 1 && found[0].excerpt.contains("CAFE\u{301} by the river"), "{query}: {found:?}");
        }
    });
}

#[test]
fn a_phrase_is_found_word_for_word_and_a_search_is_limited_to_who_spoke_and_when() {
    over_each(|store| {
        let mut session = open(&store, settings(4));
        let named = |name: &str, text: &str| {
            let raw = format!(r#"{{"role":"user","name":"{name}","content":"{text}"}}"#);
            Dialect::OpenAiChat.decode(&raw).unwrap()
        };
        for n in 0..9 {
            block_on(session.push(Message::user(format!("the red port and the open door {n}")))).unwrap();
        }
        block_on(session.push(named("ann", "the open port"))).unwrap();
        block_on(session.push(Message::assistant("the open port, then"))).unwrap();
        block_on(session.append(Batch::default().label(Label::default().agent("scout")))).unwrap();
        block_on(session.push(Message::assistant("open it"))).unwrap();
        // Search terms distinguish messages of the agent from those of the person.
        block_on(session.push(Message::user("open another"))).unwrap();
        let found = |query: Query, most| {
            let found = block_on(session.search(query, most)).unwrap();
            found.into_iter().map(|hit| hit.excerpt).collect::<Vec<_>>()
        };
        let mut phrase = found(Query::new("\"open port\""), 9);
        phrase.sort();
        assert_eq!(phrase, ["the open port", "the open port, then"]);
        assert_eq!(found(Query::new("\"open port\""), 1).len(), 1);
        assert_eq!(found(Query::new("\"port open\""), 9), [""; 0]);
        let by = |name: &str| Within::default().speaker(name.to_owned());
        assert_eq!(found(Query::new("ports").within(by("Ann")), 9), ["the open port"]);
        assert_eq!(found(Query::new("ports").within(by("assistant")), 9), ["the open port, then"]);
        assert_eq!(found(Query::new("open").within(by("scout")), 9), ["open it"]);
        assert_eq!(found(Query::new("ports").within(Within::default().until(1_000)), 9), [""; 0]);
        assert_eq!(found(Query::new("ports").within(Within::default().since(1_000)), 99).len(), 11);
    });
}

/// An operation of a client.
#[derive(Debug, Clone)]
enum Turn {
    Push(u64),
    /// Sends a history: the first messages of the session, up to this number, and these new ones.
    Sync(usize, Vec<u64>),
    Window,
    Reopen,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        4 => (0u64..200).prop_map(Turn::Push),
        3 => (0usize..30, prop::collection::vec(0u64..200, 0..4)).prop_map(|(keep, new)| Turn::Sync(keep, new)),
        3 => Just(Turn::Window),
        2 => Just(Turn::Reopen),
    ];
    prop::collection::vec(turn, 1..30)
}

proptest! {
    #![proptest_config(Config { cases: 96, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_session_holds_what_its_client_holds(turns in turns(), limit in 1u64..12) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut session = open(&store, settings(limit));
        let mut client: Vec<Message> = Vec::new();
        for turn in turns {
            match turn {
                Turn::Push(n) => {
                    client.push(message(n));
                    block_on(session.push(message(n))).unwrap();
                }
                Turn::Sync(keep, new) => {
                    client.truncate(keep);
                    client.extend(new.into_iter().map(message));
                    block_on(session.sync(client.clone())).unwrap();
                    let again = block_on(session.sync(client.clone())).unwrap();
                    prop_assert_eq!((again.new, again.left), (0, 0));
                }
                Turn::Window => {
                    let sent = window(&mut session);
                    let request = lookback_wire::dialect::Request::decode(sent.as_bytes(), Some(Dialect::OpenAiChat)).unwrap();
                    let findings = Dialect::OpenAiChat.check(&request);
                    prop_assert!(client.is_empty() || request.messages().is_empty() || findings.is_empty(), "{findings:?}");
                }
                Turn::Reopen => {
                    let again = open(&store, settings(limit));
                    prop_assert_eq!(again.stats(), session.stats());
                    session = again;
                }
            }
            let digests = |messages: &mut dyn Iterator<Item = &Message>| messages.map(Message::digest).collect::<Vec<_>>();
            let history = block_on(session.history()).unwrap();
            let read = digests(&mut history.iter().map(|entry| &*entry.arrival.message));
            prop_assert_eq!(read, digests(&mut client.iter()));
        }
    }
}

#[test]
fn a_session_is_read_by_number_tag_and_text() {
    over_each(|store| {
        let mut session = open(&store, settings(4));
        let label = |agent: &str, tags: &[&str]| Label::default().agent(agent).tags(tags.iter().copied());
        block_on(session.append(Batch::default().label(label("scout", &["a"])))).unwrap();
        block_on(session.push(Message::user("The port is 5050."))).unwrap();
        block_on(
            session
                .push(Message::assistant_with_calls("", [lookback_wire::message::ToolCall::new("c1", "read", "{}")])),
        )
        .unwrap();
        block_on(session.push(Message::tool_result("c1", "green is the host"))).unwrap();
        block_on(session.append(Batch::default().label(label("writer", &["a", "b"])))).unwrap();
        for n in 0..6 {
            block_on(session.push(Message::user(format!("port number {n}")))).unwrap();
        }
        window(&mut session);
        let read = |session: &mut Session, selection: HistoryQuery| -> Vec<String> {
            let read = block_on(session.read(&selection)).unwrap();
            read.iter().map(|entry| entry.arrival.message.text()).collect()
        };
        let all = HistoryQuery::default;
        let mut session = open(&store, settings(4));
        assert_eq!(read(&mut session, all()).len(), 9);
        assert_eq!(read(&mut session, all().limit(2)), ["port number 4", "port number 5"]);
        // A tool exchange is never read in part.
        assert_eq!(read(&mut session, all().limit(7)).len(), 6);
        assert_eq!(read(&mut session, all().tag("b")).len(), 6);
        assert_eq!(read(&mut session, all().tag("a").tag("b")).len(), 6);
        assert_eq!(read(&mut session, all().tag("c")), [""; 0]);
        let query = |text: &str| all().query(text);
        assert_eq!(read(&mut session, query("host")).len(), 2, "a result comes with its call");
        assert_eq!(read(&mut session, query("port")).len(), 7);
        assert_eq!(read(&mut session, query("port").tag("b").limit(3)).len(), 3);
        let info = block_on(session.info()).unwrap().unwrap();
        assert_eq!((info.agent.as_deref(), info.messages), (Some("writer"), 9));
        assert!(info.created.unwrap() <= info.used.unwrap());
    });
}

#[test]
fn the_newest_messages_are_those_of_the_branch() {
    over_each(|store| {
        let mut session = open(&store, settings(6));
        for n in 0..50 {
            block_on(session.push(message(n))).unwrap();
            window(&mut session);
        }
        // The history branches twice, the second time before the first branch.
        for (kept, new) in [(40, 100..130), (20, 200..205)] {
            let history: Vec<_> = block_on(session.history()).unwrap();
            let history = history.into_iter().take(kept).map(|entry| Arc::unwrap_or_clone(entry.arrival.message));
            block_on(session.sync(history.chain(new.map(message)).collect())).unwrap();
        }
        let key = |entry: &lookback_session::HistoryEntry| (entry.position, entry.shown);
        let history: Vec<_> = block_on(session.history()).unwrap().iter().map(key).collect();
        assert_eq!(history.len(), 25);
        for most in [0, 1, 4, 7, 24, 25, 26, 1_000] {
            let newest: Vec<_> =
                block_on(adapter::newest(&mut session, 0..u64::MAX, most)).unwrap().iter().map(key).collect();
            assert_eq!(newest, history[25 - most.min(25)..], "{most}");
        }
        let (from, to) = (history[3].0, history[22].0);
        let within: Vec<_> =
            block_on(adapter::newest(&mut session, from..to, 1_000)).unwrap().iter().map(key).collect();
        assert_eq!(within, history[3..22]);
        let within: Vec<_> = block_on(adapter::newest(&mut session, from..to, 5)).unwrap().iter().map(key).collect();
        assert_eq!(within, history[17..22]);
    });
}

#[test]
fn tags_go_along_to_another_branch() {
    over_each(|store| {
        let mut session = open(&store, settings(9));
        let label = |tag: &str| Label::default().tags([tag]);
        let user = |text: &str| Message::user(text);
        block_on(session.append(Batch::default().label(label("a")))).unwrap();
        block_on(session.push(user("one port"))).unwrap();
        block_on(session.append(Batch::default().label(label("b")))).unwrap();
        block_on(session.push(user("two ports, a port each"))).unwrap();
        block_on(session.sync(vec![user("one port"), user("another port")])).unwrap();
        let read = |session: &mut Session, tag: &str, query: Option<&str>| -> Vec<String> {
            let mut asked = HistoryQuery::default().tag(tag);
            asked.query = query.map(ToOwned::to_owned);
            let past = block_on(session.read(&asked)).unwrap();
            past.iter().map(|past| past.arrival.message.text()).collect()
        };
        assert_eq!(read(&mut session, "a", None), ["one port"]);
        assert_eq!(read(&mut session, "b", None), ["another port"]);
        assert_eq!(read(&mut session, "a", Some("port")), ["one port"]);
        assert_eq!(read(&mut session, "b", Some("port")), ["two ports, a port each", "another port"]);
        block_on(session.replace(vec![user("all anew")])).unwrap();
        assert_eq!(read(&mut session, "b", None), ["all anew"]);
    });
}

#[test]
fn messages_are_replaced_at_once_and_the_old_log_stays_readable() {
    over_each(|store| {
        let mut session = open(&store, settings(50));
        block_on(session.append((0..5).map(message).collect::<Vec<_>>())).unwrap();
        let before = count(&mut session);
        block_on(session.replace(vec![Message::user("a new beginning")])).unwrap();
        assert_eq!(window(&mut session), r#"[{"role":"user","content":"a new beginning"}]"#);
        assert_eq!(window(&mut open(&store, settings(50))), window(&mut session));
        assert_eq!(block_on(session.history()).unwrap().len(), 1);
        assert!(count(&mut session) > before);
        assert!(matches!(
            block_on(adapter::entries(&mut session)).unwrap()[0],
            lookback_engine::transcript::Entry::Message(_)
        ));
        block_on(session.replace(Batch::default())).unwrap();
        assert_eq!(window(&mut session), "[]");
        assert_eq!(block_on(session.read(&HistoryQuery::default().query("beginning"))).unwrap().len(), 1);
    });
}

#[test]
fn what_a_session_does_can_be_done_on_any_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let open = is_send(Session::open(MemoryStore::new(), "s", settings(4)));
    let mut session = is_send(block_on(open).unwrap());
    block_on(is_send(session.push(Message::user("one")))).unwrap();
    block_on(is_send(session.append(vec![Message::assistant("two")]))).unwrap();
    block_on(is_send(session.sync(vec![Message::user("one")]))).unwrap();
    block_on(is_send(session.append(Batch::default().label(Label::default())))).unwrap();
    block_on(is_send(adapter::compact(&mut session, &Policy::unlimited()))).unwrap();
    block_on(is_send(session.enforce_limits())).unwrap();
    block_on(is_send(session.read(&HistoryQuery::default()))).unwrap();
    block_on(is_send(session.window())).unwrap();
    block_on(is_send(session.replace(Batch::default()))).unwrap();
}

#[test]
fn messages_and_what_they_evict_are_one_write() {
    over_each(|store| {
        let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
        let mut session = open(&store, Settings::default().policy(policy));
        let said = |texts: &[&str]| texts.iter().map(|text| Message::user(*text)).collect::<Vec<_>>();
        let shown = |session: &Session| session.view().messages().map(|item| item.message().text()).collect::<Vec<_>>();
        block_on(session.append(Batch::from(said(&["a", "b", "c"])).enforcing_limits())).unwrap();
        assert_eq!(shown(&session), ["b", "c"]);
        block_on(session.replace(Batch::from(said(&["d", "e", "f"])).enforcing_limits())).unwrap();
        assert_eq!(shown(&session), ["e", "f"]);
        assert_eq!(shown(&open(&store, settings(2))), ["e", "f"]);
        assert_eq!(count(&mut session), 6);
    });
}

/// A store in memory that counts reads.
#[derive(Debug, Default)]
struct Counted {
    store: MemoryStore,
    reads: AtomicU64,
}

impl Store for Counted {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        self.store.append(log, append)
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.store.touch(log, time)
    }
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.read(log, span)
    }
    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.read_many(log, spans)
    }
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.store.head(log, before)
    }
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.store.info(log)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.store.list(prefix)
    }
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.store.delete(logs)
    }
    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<lookback_store::Tombstone>) -> StoreFuture<'a, ()> {
        self.store.erase(log, tombstones)
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.store.clear()
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        self.store.search(log, query, most)
    }
}

#[test]
fn opening_a_session_reads_at_most_twice_and_a_search_once() {
    let store = Arc::new(Counted::default());
    let keep = Keep { first: 2, ..Keep::default() };
    let policy =
        Policy { limits: Limits::messages(10), target: Some(Limits::messages(5)), keep, ..Policy::unlimited() };
    let settings = Settings::default().policy(policy);
    let open = || block_on(Session::open(store.clone(), "s", settings.clone())).unwrap();
    let mut session = open();
    let mut most = 0;
    for n in 0..200 {
        block_on(session.push(message(n))).unwrap();
        window(&mut session);
        store.reads.store(0, Ordering::Relaxed);
        let mut again = open();
        assert!(store.reads.load(Ordering::Relaxed) <= 2, "message {n}");
        assert_eq!(window(&mut again), window(&mut session));
        most = most.max(spans(session.view().messages().map(|item| item.position())).len());
    }
    assert!(most > 2, "what the window shows is scattered over the log");
    store.reads.store(0, Ordering::Relaxed);
    assert_eq!(block_on(session.search("task", 30)).unwrap().len(), 30);
    assert_eq!(store.reads.load(Ordering::Relaxed), 1);
}

#[test]
fn a_push_returns_the_positions_of_its_messages() {
    over_each(|store| {
        let policy = Policy {
            limits: Limits::messages(2),
            system: SystemRule { one: true, ..SystemRule::default() },
            ..Policy::unlimited()
        };
        let mut session = open(&store, Settings::default().policy(policy));
        assert_eq!(block_on(session.push(Message::system("Be brief."))).unwrap(), [0]);
        // A repeated system message is ignored.
        assert_eq!(block_on(session.push(Message::system("Be brief."))).unwrap(), Vec::<u64>::new());
        assert_eq!(block_on(session.append(["one", "two"].map(Message::user).to_vec())).unwrap(), [1, 2]);
        // Another writer was faster.
        let mut other = open(&store, session.settings().clone());
        assert_eq!(block_on(other.push(Message::user("three"))).unwrap(), [3]);
        let recorded = |text: &str, time| RecordedMessage::new(Message::user(text), time);
        let received = vec![recorded("four", Some(4)), recorded("five", None)];
        assert_eq!(block_on(session.append(Batch::from_iter(received))).unwrap(), [4, 5]);
        assert_eq!(
            block_on(session.append(Batch::from(Message::assistant("six")).origin(Origin::Model).at(None))).unwrap(),
            [6]
        );
        // Between the messages there are compactions.
        let managed =
            block_on(session.append(Batch::from(["seven", "eight"].map(Message::user).to_vec()).enforcing_limits()))
                .unwrap();
        let entries = block_on(adapter::entries(&mut session)).unwrap();
        let text = |position: &u64| match &entries[usize::try_from(*position).unwrap()] {
            Entry::Message(arrival) => arrival.message.text(),
            entry => panic!("{entry:?}"),
        };
        assert_eq!(managed.iter().map(text).collect::<Vec<_>>(), ["seven", "eight"]);
        assert!(managed[1] > managed[0] + 1, "{managed:?}");
        // One message of another dialect may need two here.
        let results = r#"{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"c1","content":"1"},{"type":"tool_result","tool_use_id":"c2","content":"2"}]}"#;
        let results = Dialect::Anthropic.decode(results).unwrap();
        let calls = ["c1", "c2"].map(|id| ToolCall::new(id, "read", "{}"));
        let [call] = block_on(session.push(Message::assistant_with_calls("", calls))).unwrap()[..] else { panic!() };
        assert_eq!(block_on(session.push(results)).unwrap(), [call + 1, call + 2]);
    });
}

#[test]
fn a_window_stays_cut_while_a_client_changes_only_its_newest_messages() {
    over_each(|store| {
        let mut session = open(&store, settings(12));
        let (mut history, mut before, mut cuts) = (Vec::new(), Vec::new(), 0);
        for turn in 0..30 {
            // The client shows the open file with its newest question only.
            history.push(Message::user(format!("question {turn}, with main.rs open")));
            block_on(session.sync(history.clone())).unwrap();
            let window = block_on(session.window()).unwrap();
            cuts += usize::from(window.plan().is_some());
            let sent: Vec<String> = window.messages().unwrap().iter().map(|message| message.get().to_owned()).collect();
            let is_kept = before.iter().zip(&sent).take_while(|(one, other)| one == other).count();
            // The question before has changed, and nothing before it, unless this window was cut anew.
            assert!(is_kept + 1 >= before.len() || window.plan().is_some(), "{turn}: {before:?} {sent:?}");
            before = sent;
            block_on(session.push(Message::assistant(format!("answer {turn}")))).unwrap();
            history.pop();
            history.extend([Message::user(format!("question {turn}")), Message::assistant(format!("answer {turn}"))]);
        }
        assert!((4..=10).contains(&cuts), "{cuts} cuts");
        // If the client goes back, the window is whole again.
        history.truncate(8);
        block_on(session.sync(history)).unwrap();
        assert_eq!(block_on(session.window()).unwrap().messages().unwrap().len(), 8);
    });
}

#[test]
fn a_cut_of_another_branch_does_not_take_the_task_of_this_one() {
    over_each(|store| {
        let mut session = open(&store, settings(12));
        let task = Message::user("the task");
        let mut talk = vec![task.clone()];
        for turn in 0..10 {
            talk.extend([Message::assistant(format!("answer {turn}")), Message::user(format!("question {turn}"))]);
        }
        block_on(session.sync(talk)).unwrap();
        assert!(!window(&mut session).contains("the task"));
        let mut work = vec![task];
        for turn in 0..12 {
            let id = format!("c{turn}");
            work.push(Message::assistant_with_calls("", [ToolCall::new(&id, "read", "{}")]));
            work.push(Message::tool_result(&id, format!("result {turn}")));
        }
        block_on(session.sync(work)).unwrap();
        let window = window(&mut session);
        assert!(window.contains("the task") && window.contains("result 11"), "{window}");
    });
}
