//! Erasing old messages: they are gone for good, and the session continues without them.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use lookback_engine::transcript::{Millis, Origin};
use lookback_engine::{
    Settings,
    policy::{Index, Limits, Policy, Stage, Summarize},
    transcript::Entry,
};
use lookback_facts::{LeftMessage, Memory, Recall, Scope, Statement, recall};
use lookback_replay::prices::Prices;
use lookback_replay::receipt::Receipt;
use lookback_session::Batch;
use lookback_session::Session;
use lookback_session::SummaryOptions;
use lookback_session::adapter;
use lookback_session::verify;
use lookback_session::{ErasedContents, OldContents};
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, Record, StoreFuture, Tombstone};
use lookback_store::{FileStore, LogName, MemoryStore, Store, StoreError};
use lookback_summarize::Function;
use lookback_summarize::Job;
use lookback_tokens::Estimate;
use lookback_wire::message::{Message, ToolCall};

const SECRET: &str = "hunter2";
/// A secret that is also a name in the sense of the index, so it gets into every text that is made from messages.
const NAME: &str = "hunter2_4711";
const LONG_AGO: Millis = 1_700_000_000_000;
const DAY: Millis = 86_400_000;

fn all() -> OldContents {
    OldContents::default().before(Millis::MAX)
}

fn settings(limit: u64) -> Settings {
    Settings::default().policy(Policy { limits: Limits::messages(limit), ..Policy::unlimited() })
}

fn open(store: &Arc<dyn Store>, limit: u64) -> Session {
    block_on(Session::open(store.clone(), "chat", settings(limit))).unwrap()
}

/// A session with one message per day. The window shows the last four. The messages of the first days have the secret.
fn filled(store: &Arc<dyn Store>, days: u64) -> Session {
    let mut session = open(store, 4);
    for day in 0..days {
        let text =
            if day < 5 { format!("The password of day {day} is {SECRET}.") } else { format!("It is day {day}.") };
        let time = Some(LONG_AGO + Millis::try_from(day).unwrap() * DAY);
        let (message, origin) = if day % 2 == 0 {
            (Message::user(text), Origin::Client)
        } else {
            (Message::assistant(text), Origin::Model)
        };
        block_on(session.append(Batch::from(message).origin(origin).at(time))).unwrap();
        block_on(session.window()).unwrap();
    }
    session
}

/// Whether a text is in any file of a folder.
fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holds(&path, text)
        } else {
            std::fs::read(path).unwrap().windows(text.len()).any(|at| at == text.as_bytes())
        }
    })
}

/// The records of a store that contain a text.
fn quoting(store: &dyn Store, text: &str) -> Vec<String> {
    let mut quoting = Vec::new();
    for LogInfo { name, records, .. } in block_on(store.list("")).unwrap() {
        for body in block_on(store.read(&name, 0..records)).unwrap() {
            if body.contains(text) {
                quoting.push(format!("{name}: {body}"));
            }
        }
    }
    quoting
}

/// Every kind of store, each in its own place in this folder.
fn everywhere(folder: &Path) -> Vec<(&'static str, Arc<dyn Store>)> {
    let mut stores: Vec<(&'static str, Arc<dyn Store>)> = vec![
        ("memory", Arc::new(MemoryStore::new())),
        ("sqlite", Arc::new(SqliteStore::open(folder.join("store.db")).unwrap())),
        ("files", Arc::new(FileStore::open(folder.join("files")).unwrap())),
    ];
    {
        use lookback_store::{EncryptedStore, Key};
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let key = Key::new("a", [7; Key::LENGTH]).unwrap();
        stores.push(("encrypted", Arc::new(EncryptedStore::new(inner, key, []).unwrap())));
    }
    stores
}

fn time_of(day: u64) -> Option<Millis> {
    Some(LONG_AGO + Millis::try_from(day).unwrap() * DAY)
}

/// Selects the messages of the first day.
fn first_day() -> OldContents {
    OldContents::default().before(LONG_AGO + DAY)
}

/// Asserts that the name is neither in the store's records, nor in its files, nor in the window.
fn is_gone(kind: &str, folder: &Path, store: &Arc<dyn Store>, session: &mut Session) {
    // An open session reads the rewritten entries when it catches up.
    block_on(session.refresh()).unwrap();
    assert_eq!(quoting(&**store, NAME), [""; 0], "{kind}");
    block_on(store.vacuum()).unwrap();
    assert!(!holds(folder, NAME), "{kind}");
    assert_eq!(block_on(store.search(None, &Query::new(NAME), 9)).unwrap(), [], "{kind}");
    let window = block_on(session.window()).unwrap().to_json().unwrap();
    assert!(!window.contains(NAME), "{kind}: {window}");
    let verified = block_on(verify(&**store, |_| {})).unwrap();
    assert!(verified.faults.is_empty(), "{kind}: {:?}", verified.faults);
}

#[test]
fn the_names_of_what_is_erased_leave_the_index_and_the_next_window() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, store) in everywhere(folder.path()) {
        let (limits, target, index) = (Limits::body(1_600), Some(Limits::body(1_200)), Some(Index::default()));
        let settings = Settings::default().policy(Policy { limits, target, index, ..Policy::unlimited() });
        let open = || block_on(Session::open(store.clone(), "chat", settings.clone())).unwrap();
        let say = |session: &mut Session, days: Range<u64>| {
            for day in days {
                let name = [NAME, "kept_0815"].get(usize::try_from(day).unwrap()).copied().unwrap_or("it");
                let text = format!("{name}: {}", "some prose, and more of it ".repeat(16));
                block_on(session.append(Batch::from(Message::user(text)).at(time_of(day)))).unwrap();
                block_on(session.window()).unwrap();
            }
        };
        let mut session = open();
        say(&mut session, 0..40);
        // Another session object that is open all the time.
        let mut other = open();
        let window = adapter::preview(&session).to_json().unwrap();
        assert!(window.contains(NAME) && window.contains("kept_0815"), "{kind}: the index has both: {window}");

        assert_eq!(block_on(session.erase(&first_day())).unwrap().messages, 1, "{kind}");
        for session in [&mut session, &mut open(), &mut other] {
            is_gone(kind, folder.path(), &store, session);
            let window = block_on(session.window()).unwrap().to_json().unwrap();
            assert!(window.contains("kept_0815"), "{kind}: what is kept is still listed: {window}");
        }
        // When everything that has left is erased, its last name leaves the index, too.
        block_on(session.erase(&all())).unwrap();
        assert_eq!(quoting(&*store, "kept_0815"), [""; 0], "{kind}");
        say(&mut session, 40..80);
        for session in [&mut session, &mut open(), &mut other] {
            is_gone(kind, folder.path(), &store, session);
            assert!(!block_on(session.window()).unwrap().to_json().unwrap().contains("kept_0815"), "{kind}");
        }
    }
}

/// A session whose running summary has this text, and is made at once.
fn summarizing(store: &Arc<dyn Store>, summary: &'static str) -> Session {
    summarizing_with(store, summary, |options| options.spawner(block_on))
}

fn summarizing_with(
    store: &Arc<dyn Store>,
    summary: &'static str,
    with: impl FnOnce(SummaryOptions) -> SummaryOptions,
) -> Session {
    let stage = Stage::Summarize(Summarize { budget: 60, ..Summarize::default() });
    let policy = Policy { limits: Limits::messages(6), stages: vec![stage], ..Policy::unlimited() };
    block_on(Session::open(store.clone(), "chat", Settings::default().policy(policy))).unwrap().with_summarizer(with(
        SummaryOptions::new(Function::new("short", move |_| async move { Ok(summary.to_owned()) })).check(false),
    ))
}

fn speak(session: &mut Session, days: Range<u64>) {
    for day in days {
        let name = if day == 0 { NAME } else { "it" };
        let text = format!("About {name}: {}", "we speak at length ".repeat(9));
        block_on(session.append(Batch::from(Message::user(text)).at(time_of(day)))).unwrap();
        block_on(session.window()).unwrap();
        block_on(session.wait_for_summary()).unwrap();
    }
}

/// A session whose first message has the name, with a summary, a note and facts that were made from it and have it,
/// too.
fn with_derived(store: &Arc<dyn Store>) -> (Session, Memory) {
    let mut session = summarizing(store, "The password is hunter2_4711.");
    speak(&mut session, 0..30);
    let note = Message::user(format!("Remember {NAME}."));
    block_on(session.append(Batch::from(note).origin(Origin::Lookback).at(None))).unwrap();
    speak(&mut session, 30..31);
    assert!(session.view().summary().unwrap().text.contains(NAME));
    let memory = block_on(Memory::open(store.clone(), "chat")).unwrap();
    block_on(async {
        let said = || Statement::finding(format!("The password is {NAME}.")).about(NAME).tag(NAME);
        memory.at(0).state(Scope::Session, said()).await.unwrap();
        memory.at(0).state(Scope::Shared, said()).await.unwrap();
        let last = session.view().messages().next_back().unwrap().position();
        memory.at(last).learn("It rains.").await.unwrap();
    });
    (session, memory)
}

fn facts(memory: &Memory) -> Vec<String> {
    block_on(memory.facts()).unwrap().into_iter().map(|fact| fact.statement.text).collect()
}

#[test]
fn what_was_made_from_what_is_erased_is_erased_with_it() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, store) in everywhere(folder.path()) {
        let (mut session, memory) = with_derived(&store);
        let erasable = block_on(adapter::erasable(&mut session, &first_day())).unwrap();
        assert!(!quoting(&*store, NAME).is_empty(), "{kind}: nothing was erased yet");
        assert_eq!(block_on(session.erase(&first_day())).unwrap(), erasable, "{kind}");
        assert_eq!(erasable.messages, 1, "{kind}");
        assert_eq!(
            block_on(adapter::erasable(&mut session, &first_day())).unwrap(),
            ErasedContents::default(),
            "{kind}"
        );
        drop(session);

        let mut session = summarizing(&store, "They spoke.");
        is_gone(kind, folder.path(), &store, &mut session);
        let again = block_on(Memory::open(store.clone(), "chat")).unwrap();
        for memory in [&memory, &again] {
            assert_eq!(facts(memory), ["It rains."], "{kind}");
        }
        // The next summary replaces the erased one.
        speak(&mut session, 31..60);
        assert_eq!(session.view().summary().unwrap().text, "They spoke.", "{kind}");
        is_gone(kind, folder.path(), &store, &mut session);
    }
}

#[test]
fn what_was_made_from_what_is_erased_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, store) in everywhere(folder.path()) {
        let (mut session, memory) = with_derived(&store);
        let shown = adapter::preview(&session).to_json().unwrap();
        assert_eq!(block_on(session.erase(&first_day().keep_derived(true))).unwrap().messages, 1, "{kind}");
        assert_eq!(adapter::preview(&session).to_json().unwrap(), shown, "{kind}");
        assert_eq!(facts(&memory).len(), 3, "{kind}");
        let entries = block_on(adapter::entries(&mut session)).unwrap();
        assert!(matches!(entries[0], Entry::Erased(_)), "{kind}");
    }
}

#[test]
fn messages_without_a_date_are_told_of_and_erased_by_their_entries() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, store) in everywhere(folder.path()) {
        let mut session = open(&store, 4);
        for n in 0..12 {
            let text = if n < 2 { format!("The pin is {NAME}.") } else { format!("It is number {n}.") };
            block_on(session.append(Batch::from(Message::user(text)).at(None))).unwrap();
            block_on(session.window()).unwrap();
        }
        let told = block_on(session.erase(&all())).unwrap();
        assert_eq!((told.messages, told.bytes, told.undated), (0, 0, 8), "{kind}: {told:?}");
        let erased = block_on(session.erase(&OldContents::default().entries(told.undated_entries))).unwrap();
        assert_eq!((erased.messages, erased.undated, erased.needed), (8, 0, 0), "{kind}");
        is_gone(kind, folder.path(), &store, &mut session);
        assert_eq!(block_on(adapter::erasable(&mut session, &all())).unwrap(), ErasedContents::default(), "{kind}");

        // A message in the window can be erased by its entry, unless the next call needs it.
        let shown: Vec<u64> = session.view().messages().map(|item| item.position()).collect();
        let by_entry = |at: u64| OldContents::default().entries(std::iter::once(at..at + 1));
        let erasable = block_on(adapter::erasable(&mut session, &by_entry(shown[1]))).unwrap();
        let erased = block_on(session.erase(&by_entry(shown[1]))).unwrap();
        assert_eq!((erased.messages, erased.needed), (1, 0), "{kind}");
        assert_eq!(erased, erasable, "{kind}");
        assert_eq!(
            session.view().messages().map(|item| item.position()).collect::<Vec<_>>(),
            [shown[0], shown[2], shown[3]]
        );
        let erased = block_on(session.erase(&by_entry(shown[3]))).unwrap();
        assert_eq!((erased.messages, erased.needed), (0, 1), "{kind}");
        assert!(adapter::preview(&session).to_json().unwrap().contains("It is number 11."), "{kind}");
        is_gone(kind, folder.path(), &store, &mut session);
    }
}

#[test]
fn a_summary_and_facts_that_are_being_made_of_what_is_erased_come_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, store) in everywhere(folder.path()) {
        let jobs: Arc<Mutex<Vec<Job>>> = Arc::default();
        let waiting = jobs.clone();
        let mut session = summarizing_with(&store, "The password is hunter2_4711.", |options| {
            options.spawner(move |job| waiting.lock().unwrap().push(job))
        });
        for day in 0..8 {
            let name = if day == 0 { NAME } else { "it" };
            let text = format!("About {name}: {}", "we speak at length ".repeat(9));
            block_on(session.append(Batch::from(Message::user(text)).at(time_of(day)))).unwrap();
            block_on(session.window()).unwrap();
        }
        let job = jobs.lock().unwrap().pop().expect("a summary of the first messages is being made");
        let first = std::iter::once(0..1);
        assert_eq!(block_on(session.erase(&OldContents::default().entries(first))).unwrap().messages, 1, "{kind}");
        block_on(job);

        let memory = block_on(Memory::open(store.clone(), "chat")).unwrap();
        let answer = r#"{"facts":[{"kind":"finding","text":"It is hunter2_4711.","confidence":0.9,"message":1}]}"#;
        let model = Function::new("small-model", move |_| async move { Ok(answer.to_owned()) });
        let left = [LeftMessage::new(0, Message::user(format!("About {NAME}.")))];
        assert!(block_on(memory.extract(&left, &model, &Estimate::default())).unwrap().is_empty(), "{kind}");
        is_gone(kind, folder.path(), &store, &mut session);
    }
}

#[test]
fn what_was_erased_is_in_no_file_and_no_index() {
    for name in ["store.db", "files/"] {
        let folder = tempfile::tempdir().unwrap();
        let store = lookback_location::open(folder.path().join(name)).unwrap();
        let mut session = filled(&store, 200);
        assert!(holds(folder.path(), SECRET), "{name}");
        let shown = adapter::preview(&session).to_json().unwrap();

        let erased = block_on(session.erase(&all())).unwrap();
        assert_eq!(erased.messages, 196, "{name}: all but those that the window shows");
        assert!(!holds(folder.path(), SECRET), "{name}");
        for query in [SECRET, "password"] {
            assert_eq!(block_on(store.search(None, &Query::new(query), 9)).unwrap(), [], "{name}");
        }
        assert_eq!(block_on(store.search(None, &Query::new("day"), 9)).unwrap().len(), 4, "{name}");
        assert!(block_on(verify(&*store, |_| {})).unwrap().faults.is_empty(), "{name}");
        // The window is the same here and after the session is opened again.
        assert_eq!(adapter::preview(&session).to_json().unwrap(), shown, "{name}");
        let mut session = open(&store, 4);
        assert_eq!(adapter::preview(&session).to_json().unwrap(), shown, "{name}");
        block_on(session.push(Message::user("And now?"))).unwrap();
        assert!(block_on(session.window()).unwrap().to_json().unwrap().contains("And now?"));
        assert_eq!(session.stats().messages, 201);
        assert_eq!(block_on(session.history()).unwrap().len(), 5, "{name}");
        block_on(Receipt::for_session(&session, Prices::builtin().find("anthropic-5m").unwrap())).unwrap();
    }
}

#[test]
fn what_waited_for_the_index_is_not_left_in_the_pages_of_another_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("store.db")).unwrap();
    let (secret, other): (LogName, LogName) = ("secret".parse().unwrap(), "other".parse().unwrap());
    let text = |word: &str, number: u64| (0..350).map(|at| format!("{word}x{at}x{number} ")).collect::<String>();
    let record = |text: String| Record::new(format!("{{\"said\":\"{text}\"}}")).text(text);
    block_on(store.append(&secret, Append::new(0, (0..61).map(|at| record(text(SECRET, at)))))).unwrap();
    assert!(holds(folder.path(), &format!("{SECRET}x7x7=")), "its terms wait");
    // In one append, pending texts go into the index, and their pages are reused.
    let long = |at: u64| record(text("word", at).repeat(usize::try_from(at % 5 + 1).unwrap()));
    block_on(store.append(&other, Append::new(0, (0..120).map(long)))).unwrap();
    assert_eq!(block_on(store.delete(&[secret])).unwrap(), 1);
    assert!(!holds(folder.path(), SECRET));
    assert_eq!(block_on(store.check()).unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_younger_is_kept() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = filled(&store, 200);
    let old = OldContents::default().before(LONG_AGO + 50 * DAY);
    let erasable = block_on(adapter::erasable(&mut session, &old)).unwrap();
    assert_eq!(erasable.messages, 50);
    assert_eq!(block_on(session.history()).unwrap().len(), 200, "nothing was erased yet");
    assert_eq!(block_on(session.erase(&old)).unwrap(), erasable);
    assert_eq!(block_on(session.erase(&old)).unwrap(), ErasedContents::default());
    let left = block_on(session.history()).unwrap();
    assert_eq!(left.first().unwrap().arrival.message.text(), "It is day 50.");
    assert_eq!(left.len(), 150);
    assert_eq!(block_on(session.erase(&OldContents::default())).unwrap(), ErasedContents::default());
    assert_eq!(block_on(session.erase(&OldContents::default().summarized(true))).unwrap(), ErasedContents::default());
}

#[test]
fn what_a_summary_covers_is_erased_and_the_summary_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
    let stage = Stage::Summarize(Summarize { budget: 60, ..Summarize::default() });
    let policy = Policy { limits: Limits::messages(6), stages: vec![stage], ..Policy::unlimited() };
    let settings = Settings::default().policy(policy);
    let (made, mut count) = (Arc::new(AtomicU64::new(0)), 0);
    let counted = made.clone();
    let mut session = block_on(Session::open(store.clone(), "chat", settings)).unwrap().with_summarizer(
        SummaryOptions::new(Function::new("short", move |_| {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok(format!("Summary {number} of what they agreed on.")) }
        }))
        .spawner(block_on),
    );
    while made.load(Ordering::SeqCst) < 3 {
        count += 1;
        block_on(session.push(Message::user(format!("Number {count}: {}", "we speak at length ".repeat(9))))).unwrap();
        block_on(session.window()).unwrap();
        block_on(session.wait_for_summary()).unwrap();
        block_on(session.window()).unwrap();
    }
    let shown = adapter::preview(&session).to_json().unwrap();
    let in_window = session.view().messages().filter(|item| !item.is_own()).count() as u64;
    assert!(["Summary 0", "Summary 1", "Summary 2", "Number 1:"].iter().all(|text| holds(folder.path(), text)));
    let erased = block_on(session.erase(&OldContents::default().summarized(true))).unwrap();
    assert_eq!(erased.messages, count - in_window);
    assert_eq!(adapter::preview(&session).to_json().unwrap(), shown);
    assert!(shown.contains("Summary 2"));
    assert!(["Summary 0", "Summary 1", "Number 1:"].iter().all(|text| !holds(folder.path(), text)));
    assert!(block_on(verify(&*store, |_| {})).unwrap().faults.is_empty());
}

#[test]
fn arguments_that_a_checkpoint_quotes_are_erased() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
    let mut session = open(&store, 80);
    block_on(session.push(Message::user("Log in."))).unwrap();
    let call = ToolCall::new("c1", "login", format!("\"{SECRET}\""));
    block_on(session.push(Message::assistant_with_calls("", [call]))).unwrap();
    block_on(session.push(Message::tool_result("c1", "No."))).unwrap();
    for n in 0..200 {
        let said = format!("It is hour {n}.");
        let message = if n % 2 == 0 { Message::user(said) } else { Message::assistant(said) };
        block_on(session.push(message)).unwrap();
        block_on(session.window()).unwrap();
    }
    let entries = block_on(adapter::entries(&mut session)).unwrap();
    let quotes = |entry: &&Entry| serde_json::to_string(entry).unwrap().contains(SECRET);
    assert!(entries.iter().filter(quotes).any(|entry| matches!(entry, Entry::Checkpoint(_))));
    block_on(session.erase(&all())).unwrap();
    let entries = block_on(adapter::entries(&mut session)).unwrap();
    assert_eq!(
        entries.iter().filter(quotes).map(|entry| serde_json::to_string(entry).unwrap()).collect::<Vec<_>>(),
        [""; 0]
    );
    assert!(!holds(folder.path(), SECRET));
}

#[test]
fn an_erasure_is_no_use_of_a_session() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = filled(&store, 20);
    let used = block_on(store.info(session.name())).unwrap().unwrap().used;
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(block_on(session.erase(&all())).unwrap().messages > 0);
    assert_eq!(block_on(store.info(session.name())).unwrap().unwrap().used, used);
}

#[test]
fn a_branch_that_crosses_what_is_old_holds_nothing_up() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = open(&store, 4);
    let history = |count: usize, last: &str| -> Vec<Message> {
        (0..count)
            .map(|n| Message::user(if n + 1 == count { last.to_owned() } else { format!("message {n}") }))
            .collect()
    };
    let sync = |session: &mut Session, messages: Vec<Message>| {
        let synced = block_on(session.sync(messages)).unwrap();
        block_on(session.window()).unwrap();
        synced
    };
    // A branch of 150 messages. The client then leaves it for one that begins after 70 of them.
    for count in 1..=150 {
        sync(&mut session, history(count, &format!("message {}", count - 1)));
    }
    for count in 71..=200 {
        let messages = (0..count).map(|n| if n < 70 { format!("message {n}") } else { format!("another {n}") });
        sync(&mut session, messages.map(Message::user).collect());
    }
    let middle = block_on(session.history()).unwrap()[60].arrival.time.unwrap();
    block_on(session.erase(&OldContents::default().before(middle))).unwrap();
    // The newest message is changed, and is the only new one.
    let changed = (0..200).map(|n| match n {
        199 => "changed".to_owned(),
        n if n < 70 => format!("message {n}"),
        n => format!("another {n}"),
    });
    let synced = sync(&mut session, changed.map(Message::user).collect());
    assert_eq!((synced.known, synced.new, synced.left), (199, 1, 1));
}

#[test]
fn a_recall_says_what_was_erased() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = filled(&store, 20);
    block_on(session.erase(&OldContents::default().before(LONG_AGO + 3 * DAY))).unwrap();
    let entries = block_on(adapter::entries(&mut session)).unwrap();
    let erased: Vec<u64> =
        (0..).zip(&entries).filter(|(_, entry)| matches!(entry, Entry::Erased(_))).map(|(at, _)| at).collect();
    assert_eq!(erased, [0, 1, 2]);
    let told = |asked: &Recall| block_on(recall(&*store, session.name(), asked)).unwrap().to_string();
    assert_eq!(told(&Recall::entry(1)), "[#1 was erased, and cannot be recalled]\n");
    assert_eq!(
        told(&Recall::range(0, 3)),
        format!(
            "[#0 to #2 were erased, and cannot be recalled]\n#3 assistant:\n| The password of day 3 is {SECRET}.\n"
        )
    );
    let Entry::Erased(of) = &entries[2] else { panic!() };
    assert_eq!((of.role, of.arrived), (Some(lookback_wire::message::Role::User), Some(LONG_AGO + 2 * DAY)));
    assert!(of.time.is_some());
}

#[test]
fn a_client_that_resends_its_history_is_known_after_an_erasure() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = open(&store, 4);
    let message = |number: usize| Message::user(format!("message {number}"));
    let history = |count: usize| (0..count).map(message).collect::<Vec<_>>();
    for count in 1..=200 {
        block_on(session.sync(history(count))).unwrap();
        block_on(session.window()).unwrap();
    }
    let erased = block_on(session.erase(&all())).unwrap();
    assert_eq!(erased.messages, 196);

    let synced = block_on(session.sync(history(201))).unwrap();
    assert_eq!((synced.known, synced.new, synced.left), (200, 1, 0), "it goes on");
    let mut other = open(&store, 4);
    let mut changed = history(201);
    changed[200] = Message::user("another one");
    let synced = block_on(other.sync(changed)).unwrap();
    assert_eq!((synced.known, synced.new, synced.left), (200, 1, 1), "it changes what came after the erasure");

    // The client changes an earlier message: the session cannot go back that far, and restarts with the client's
    // history.
    let mut changed = history(150);
    changed[100] = Message::user("another one");
    let synced = block_on(other.sync(changed.clone())).unwrap();
    assert_eq!((synced.known, synced.new), (0, 150));
    let again = block_on(open(&store, 4).sync(changed)).unwrap();
    assert_eq!((again.known, again.new, again.left), (150, 0, 0));
    assert_eq!(block_on(open(&store, 4).history()).unwrap().len(), 150);
}

#[test]
fn a_writer_that_has_not_heard_of_the_erasure_does_not_go_back_to_what_is_erased() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let message = |number: usize| Message::user(format!("message {number}"));
    let history = |count: usize| (0..count).map(message).collect::<Vec<_>>();
    let mut session = open(&store, 4);
    for count in 1..=200 {
        block_on(session.sync(history(count))).unwrap();
        block_on(session.window()).unwrap();
    }
    let mut late = open(&store, 4);
    block_on(session.erase(&all())).unwrap();
    let synced = block_on(late.sync(history(50))).unwrap();
    assert_eq!((synced.known, synced.new), (0, 50));
    let window = block_on(late.window()).unwrap().to_json().unwrap();
    assert!(window.contains("message 49"), "{window}");
    assert_eq!(block_on(open(&store, 4).window()).unwrap().to_json().unwrap(), window);
}

#[test]
fn an_erasure_that_was_broken_off_is_finished_by_the_next() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let breaks = Arc::new(AtomicBool::new(true));
    let store: Arc<dyn Store> =
        Arc::new(Meddled { inner: inner.clone(), breaks: breaks.clone(), ..Meddled::default() });
    let mut session = filled(&store, 100);
    let shown = adapter::preview(&session).to_json().unwrap();
    let erasable = block_on(adapter::erasable(&mut session, &all())).unwrap();
    block_on(session.erase(&all())).unwrap_err();
    // Half of the log is erased. No session goes back there, and every session can continue.
    let left = block_on(open(&inner, 4).history()).unwrap().len() as u64;
    assert!(left > 4 && left < 100, "{left}");
    assert_eq!(adapter::preview(&open(&inner, 4)).to_json().unwrap(), shown);
    let end = session.stats().entries;
    breaks.store(false, Ordering::SeqCst);
    let rest = block_on(session.erase(&all())).unwrap();
    assert_eq!(rest.messages, left - 4);
    assert!(rest.bytes < erasable.bytes);
    assert!(session.stats().entries <= end + 1, "it was announced once");
    assert_eq!(block_on(session.history()).unwrap().len(), 4);
}

#[test]
fn a_session_that_is_deleted_while_it_is_opened_is_not_damaged() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    filled(&inner, 100);
    let deletes = Arc::new(AtomicBool::new(true));
    let store: Arc<dyn Store> = Arc::new(Meddled { inner, deletes: deletes.clone(), ..Meddled::default() });
    assert_eq!(open(&store, 4).stats().entries, 0);
    assert!(!deletes.load(Ordering::SeqCst), "it was deleted between two reads");
}

/// A store that fails or changes at the wrong moment.
#[derive(Debug)]
struct Meddled {
    inner: Arc<dyn Store>,
    /// Whether the next erasure stops after half of its entries, and fails.
    breaks: Arc<AtomicBool>,
    /// Whether the log is deleted during the next read, before the entries that a checkpoint refers to are read.
    deletes: Arc<AtomicBool>,
}

impl Default for Meddled {
    fn default() -> Self {
        Meddled { inner: Arc::new(MemoryStore::new()), breaks: Arc::default(), deletes: Arc::default() }
    }
}

impl Store for Meddled {
    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        Box::pin(async move {
            if self.deletes.swap(false, Ordering::SeqCst) {
                self.inner.delete(std::slice::from_ref(log)).await?;
            }
            self.inner.read_many(log, spans).await
        })
    }
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        self.inner.append(log, append)
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.inner.touch(log, time)
    }
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.inner.read(log, span)
    }
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.inner.head(log, before)
    }
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.inner.info(log)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.inner.list(prefix)
    }
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.inner.delete(logs)
    }
    fn erase<'a>(&'a self, log: &'a LogName, mut tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if !self.breaks.load(Ordering::SeqCst) {
                return self.inner.erase(log, tombstones).await;
            }
            tombstones.truncate(tombstones.len() / 2);
            self.inner.erase(log, tombstones).await?;
            Err(StoreError::Locked { place: "here".to_owned() })
        })
    }
    fn clear(&self) -> StoreFuture<'_, u64> {
        self.inner.clear()
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        self.inner.search(log, query, most)
    }
}

#[test]
fn an_erasure_at_once_in_two_processes_leaves_one_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    filled(&store, 100);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
            std::thread::spawn(move || block_on(open(&store, 4).erase(&all())).unwrap())
        })
        .collect();
    threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
    assert_eq!(block_on(open(&store, 4).history()).unwrap().len(), 4);
    assert!(block_on(verify(&*store, |_| {})).unwrap().faults.is_empty());
    assert!(!holds(folder.path(), SECRET));
}

#[test]
fn a_document_of_shared_facts_takes_tombstones_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let log = "work".parse::<LogName>().unwrap().shared_of();
    block_on(
        store.append(&log, Append::new(0, [Record::new(format!("{{\"said\":\"{SECRET}\"}}")), Record::new("{}")])),
    )
    .unwrap();
    let body = block_on(store.read(&log, 0..1)).unwrap().remove(0);
    let tombstone = Tombstone::new(0, lookback_store::checksum(&log, 0, &body), "[]");
    block_on(store.erase(&log, vec![tombstone])).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), ["[]", "{}"]);
    assert!(!holds(folder.path(), SECRET));
    block_on(store.append(&log, Append::new(2, [Record::new("{}")]))).unwrap();
}
