//! The requirements on every store, run against each of them; and what can go wrong with a file.

#![cfg(feature = "sqlite")]
#![allow(clippy::print_stdout)]

mod own;

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback::memory::Memory;
use lookback::search::{Query, Within};
use lookback::store::{BadName, Damage, Derived, Head, Hit, LogInfo, Record, purge};
use lookback::{FileStore, LogName, MemoryStore, Message, Session, Settings, SqliteStore, Store, StoreError};
use own::OwnStore;
use rusqlite::Connection;

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn record(text: &str) -> Record {
    Record::new(format!("{{\"said\":\"{text}\"}}")).text(text)
}

fn checkpoint() -> Record {
    Record::new("{}").checkpoint(true)
}

/// The suite, on logs and what is in them.
async fn keeps_logs(store: &dyn Store) {
    let (one, two) = (name("one"), name("team/two \u{e9}"));
    let bodies = |texts: &[&str]| texts.iter().map(|text| record(text).body).collect::<Vec<_>>();

    // Nothing is there.
    assert_eq!(store.head(&one, None).await.unwrap(), None);
    assert_eq!(store.read(&one, 0..10).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.list("").await.unwrap(), Vec::new());
    assert!(!store.delete(&one).await.unwrap());
    assert!(store.search(None, &Query::new("apple"), 9).await.unwrap().is_empty());

    // Appending, and where the log ends.
    store.append(&one, 0, vec![record("apple pie"), record("banana")], None).await.unwrap();
    store.append(&one, 2, vec![checkpoint(), record("apple and cherry"), checkpoint()], None).await.unwrap();
    store.append(&two, 0, vec![record("cherry")], None).await.unwrap();
    assert_eq!(store.head(&one, None).await.unwrap(), Some(Head::new(5, Some(4))));
    assert_eq!(store.head(&two, None).await.unwrap(), Some(Head::new(1, None)));

    // The newest checkpoint before a position.
    for (before, expected) in [(0, None), (2, None), (3, Some(2)), (4, Some(2)), (5, Some(4)), (u64::MAX, Some(4))] {
        let head = store.head(&one, Some(before)).await.unwrap().unwrap();
        assert_eq!(head, Head::new(5, expected), "before {before}");
    }

    // A writer who is wrong writes nothing.
    for at in [0, 4, 6, u64::MAX] {
        let refused = store.append(&one, at, vec![record("doubled")], None).await;
        assert!(matches!(refused, Err(StoreError::Conflict { at: said, end: 5 }) if said == at), "{refused:?}");
    }
    let refused = store.append(&name("none"), 1, vec![record("doubled")], None).await;
    assert!(matches!(refused, Err(StoreError::Conflict { at: 1, end: 0 })), "{refused:?}");
    assert_eq!(store.head(&name("none"), None).await.unwrap(), None);

    // Reading.
    assert_eq!(store.read(&one, 0..2).await.unwrap(), bodies(&["apple pie", "banana"]));
    assert_eq!(store.read(&one, 3..4).await.unwrap(), bodies(&["apple and cherry"]));
    assert_eq!(store.read(&one, 4..u64::MAX).await.unwrap(), ["{}"]);
    assert_eq!(store.read(&one, 3..3).await.unwrap(), Vec::<String>::new());
    #[allow(clippy::reversed_empty_ranges, reason = "a caller may be that wrong")]
    let backward = store.read(&one, 4..1).await.unwrap();
    assert_eq!(backward, Vec::<String>::new());

    // Reading several spans at once: one list for each, in their order.
    let spans = [3..4, 0..2, 1..1, 4..u64::MAX, 7..9, 0..1];
    let expected = [
        bodies(&["apple and cherry"]),
        bodies(&["apple pie", "banana"]),
        Vec::new(),
        vec!["{}".to_owned()],
        Vec::new(),
        bodies(&["apple pie"]),
    ];
    assert_eq!(store.read_many(&one, &spans).await.unwrap(), expected);
    assert_eq!(store.read_many(&one, &[]).await.unwrap(), Vec::<Vec<String>>::new());
    assert_eq!(store.read_many(&name("none"), &spans).await.unwrap(), vec![Vec::<String>::new(); spans.len()]);
    let shared = name("one").shared_of();
    store.append(&shared, 0, vec![record("apple"), record("banana"), record("cherry")], None).await.unwrap();
    assert_eq!(
        store.read_many(&shared, &[2..3, 0..2]).await.unwrap(),
        [bodies(&["cherry"]), bodies(&["apple", "banana"])]
    );
    assert!(store.delete(&shared).await.unwrap());

    // Listing, by name.
    let list = store.list("").await.unwrap();
    let names: Vec<_> = list.iter().map(|info| (info.name.as_str(), info.records)).collect();
    assert_eq!(names, [("one", 5), ("team/two \u{e9}", 1)]);
    assert_eq!(list[1].bytes, record("cherry").body.len() as u64);

    // Searching: any of the words, in any order and case; one log or all.
    let found = |log: Option<LogName>, query: &'static str, most: usize| async move {
        let hits = store.search(log.as_ref(), &Query::new(query), most).await.unwrap();
        let mut hits: Vec<_> = hits.into_iter().map(|hit| (hit.log.to_string(), hit.position)).collect();
        hits.sort();
        hits
    };
    let hit = |log: &LogName, position| (log.to_string(), position);
    assert_eq!(found(None, "APPLE", 9).await, [hit(&one, 0), hit(&one, 3)]);
    assert_eq!(found(None, "cherry apple", 9).await, [hit(&one, 0), hit(&one, 3), hit(&two, 0)]);
    assert_eq!(found(None, "cherry apple", 1).await, [hit(&one, 3)], "it has both");
    assert_eq!(found(Some(two.clone()), "cherry", 9).await, [hit(&two, 0)]);
    assert_eq!(found(None, "cherry", 9).await, [hit(&one, 3), hit(&two, 0)]);
    assert_eq!(found(None, "apple", 1).await.len(), 1);
    // Whole words; nothing in a query is an operator.
    for query in ["", "  ", "\"", "app", "NOT", "(", "\0", "said", "said:", "text:app", "rowid"] {
        assert_eq!(found(None, query, 9).await, [], "{query:?}");
    }
    assert_eq!(found(None, "said:apple AND NOT apple", 9).await, [hit(&one, 0), hit(&one, 3)]);
    assert_eq!(found(None, "pie*", 9).await, [hit(&one, 0)]);

    // What is erased is gone, and its name can be used again.
    assert!(store.delete(&one).await.unwrap());
    assert!(!store.delete(&one).await.unwrap());
    assert_eq!(store.head(&one, None).await.unwrap(), None);
    assert_eq!(found(None, "apple", 9).await, []);
    assert_eq!(found(None, "cherry", 9).await, [hit(&two, 0)]);
    store.append(&one, 0, vec![record("new apple")], None).await.unwrap();
    assert_eq!(found(None, "apple", 9).await, [hit(&one, 0)]);

    // Bodies and texts of any content.
    let odd = Record::new("\"\u{1f600}\\u0000\"").text("nul\0inside \u{1f600} pear_tree");
    store.append(&one, 1, vec![odd.clone()], None).await.unwrap();
    assert_eq!(store.read(&one, 1..2).await.unwrap(), [odd.body]);
    assert_eq!(found(None, "pear_tree", 9).await, [hit(&one, 1)]);
}

/// The suite, on when a log was created and last used.
async fn keeps_times(store: &dyn Store) {
    let log = name("timed");
    let times = || async {
        let info = store.info(&log).await.unwrap().unwrap();
        (info.created, info.used)
    };
    assert_eq!(store.info(&log).await.unwrap(), None);
    assert!(!store.touch(&log, 5).await.unwrap());
    store.append(&log, 0, Vec::new(), Some(5)).await.unwrap();
    assert_eq!(store.info(&log).await.unwrap(), None, "nothing written makes no log");

    store.append(&log, 0, vec![record("a")], Some(100)).await.unwrap();
    assert_eq!(times().await, (Some(100), Some(100)));
    let bytes = record("a").body.len() as u64;
    let info = LogInfo::new(log.clone(), 1, bytes).created(Some(100)).used(Some(100));
    assert_eq!(store.info(&log).await.unwrap(), Some(info.clone()));
    assert_eq!(store.list("").await.unwrap(), [info]);
    // A clock may go back, or be lacking; what was used stays so.
    for (at, time, used) in [(1, Some(50), 100), (2, Some(200), 200), (3, None, 200)] {
        store.append(&log, at, vec![record("b")], time).await.unwrap();
        assert_eq!(times().await, (Some(100), Some(used)));
    }
    for (time, used) in [(150, 200), (300, 300), (i64::MIN, 300), (i64::MAX, i64::MAX)] {
        assert!(store.touch(&log, time).await.unwrap());
        assert_eq!(times().await, (Some(100), Some(used)));
    }
    // One who is refused has used nothing; reading is for the reader to say.
    let other = name("other");
    store.append(&other, 0, vec![record("c")], Some(-7)).await.unwrap();
    store.append(&other, 0, vec![record("c")], Some(9)).await.unwrap_err();
    store.append(&other, 1, Vec::new(), Some(9)).await.unwrap();
    store.read(&other, 0..9).await.unwrap();
    let info = store.info(&other).await.unwrap().unwrap();
    assert_eq!((info.created, info.used), (Some(-7), Some(-7)));
    // What was not known at the beginning is not made up later.
    store.delete(&log).await.unwrap();
    store.append(&log, 0, vec![record("d")], None).await.unwrap();
    assert_eq!(times().await, (None, None));
    store.append(&log, 1, vec![record("d")], Some(8)).await.unwrap();
    assert_eq!(times().await, (None, Some(8)));
    assert_eq!(store.clear().await.unwrap(), 2);
}

/// The suite, on lists and on erasing everything.
async fn lists_by_prefix(store: &dyn Store) {
    let names =
        ["A", "a", "a%b", "a*b", "aXb", "a_b", "ab", "a\u{10ffff}z", "a\u{10ffff}", "e\u{301}", "\u{e9}/x", "[a]"];
    for text in names {
        store.append(&name(text), 0, vec![record("apple")], None).await.unwrap();
    }
    for prefix in [
        "",
        "a",
        "A",
        "a%",
        "a_",
        "a*",
        "%",
        "_",
        "*",
        "a\u{10ffff}",
        "e",
        "\u{e9}",
        "[",
        "ab",
        "abc",
        "\0",
        "a\0",
        "'",
    ] {
        let mut expected: Vec<_> = names.into_iter().filter(|name| name.starts_with(prefix)).collect();
        expected.sort_unstable();
        let list = store.list(prefix).await.unwrap();
        assert_eq!(list.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), expected, "{prefix:?}");
    }
    // No name is empty, so none erases more than itself.
    assert!("".parse::<LogName>().is_err());
    assert!(store.delete(&name("a")).await.unwrap());
    assert_eq!(store.list("").await.unwrap().len(), names.len() - 1);
    assert_eq!(store.clear().await.unwrap(), names.len() as u64 - 1);
    assert_eq!(store.clear().await.unwrap(), 0);
    assert_eq!(store.list("").await.unwrap(), Vec::new());
    assert!(store.search(None, &Query::new("apple"), 9).await.unwrap().is_empty());
    let log = name("ab");
    assert_eq!(store.head(&log, None).await.unwrap(), None);
    store.append(&log, 0, vec![record("pear")], Some(1)).await.unwrap();
    assert_eq!(store.search(None, &Query::new("pear"), 9).await.unwrap(), [Hit::new(log.clone(), 0)]);
    assert_eq!(store.clear().await.unwrap(), 1);
}

/// The suite, on the logs that belong to a session.
async fn keeps_derived_logs_apart(store: &dyn Store) {
    let long = name(&"x".repeat(LogName::LONGEST));
    let plain = name("team/one");
    for log in [&long, &plain] {
        store.append(log, 0, vec![record("apple")], None).await.unwrap();
        store.append(&log.summary_of(), 0, vec![record("apple"), record("banana")], Some(3)).await.unwrap();
    }
    let derived = plain.summary_of();
    assert_eq!(store.read(&derived, 1..2).await.unwrap(), [record("banana").body]);
    assert_eq!(store.info(&derived).await.unwrap().unwrap().name, derived);
    let list = store.list("compact:").await.unwrap();
    let names: Vec<_> = list.into_iter().map(|info| info.name).collect();
    assert_eq!(names, [derived.clone(), long.summary_of()]);
    assert!(names.iter().all(LogName::is_derived));
    let hits = store.search(None, &Query::new("apple"), 9).await.unwrap();
    assert!(hits.len() == 2 && hits.iter().all(|hit| !hit.log.is_derived()), "{hits:?}");
    assert_eq!(store.search(None, &Query::new("banana"), 9).await.unwrap(), []);
    assert_eq!(store.search(Some(&derived), &Query::new("banana"), 9).await.unwrap(), []);
    // One log goes alone, a session with what is its.
    assert!(store.delete(&long).await.unwrap());
    assert_eq!(store.list("").await.unwrap().len(), 3);
    assert!(purge(store, &plain).await.unwrap());
    assert!(!purge(store, &plain).await.unwrap());
    assert_eq!(store.list("").await.unwrap().len(), 1);
    assert!(!purge(store, &long).await.unwrap());
    assert_eq!(store.list("").await.unwrap(), Vec::new());
}

/// The suite, on what is found in which language.
async fn finds_alike(store: &dyn Store) {
    let texts = [
        "The caf\u{e9} in Z\u{fc}rich serves cr\u{e8}me br\u{fb}l\u{e9}e",
        "cafe\u{301}s, and a na\u{ef}ve cafe",
        "Stra\u{df}e und Gr\u{f6}\u{df}e; \u{c4}RGER",
        "\u{130}stanbul'da \u{131}l\u{131}k bir g\u{fc}n",
        "Vi\u{1ec7}t Nam, \u{110}\u{e0} N\u{1eb5}ng",
        "\u{39f}\u{394}\u{39f}\u{3a3} \u{3ba}\u{3b1}\u{3b9} \u{3bf}\u{3b4}\u{3cc}\u{3c2}",
        "Ещё один ёж и чай",
        "हिन्दी में पाठ",
        "東京 タワー が高い",
        "한국어 문장",
        "\u{5e9}\u{5b8}\u{5dc}\u{5d5}\u{5b9}\u{5dd} שלום",
        "مرحبا بالعالم ١٢٣",
        "ภาษาไทย",
        "snake_case x2 \u{2764}\u{fe0f} C++ 3.14 don't I/O",
        "\u{ff21}\u{ff22} \u{b2} \u{2168} \u{24d0}",
    ];
    let log = name("said");
    store.append(&log, 0, texts.iter().map(|text| record(text)).collect(), None).await.unwrap();
    for (query, expected) in [
        ("cafe", &[0, 1][..]),
        ("CAF\u{c9}", &[0, 1]),
        ("cafe\u{301}", &[0, 1]),
        ("caf", &[]),
        ("cafes", &[0, 1]),
        ("brulee zurich", &[0]),
        ("naive", &[1]),
        ("stra\u{df}e", &[2]),
        ("strasse", &[]),
        ("grosse", &[]),
        ("arger", &[2]),
        ("istanbul", &[3]),
        ("\u{131}l\u{131}k", &[3]),
        ("ilik", &[]),
        ("viet nam", &[4]),
        ("nang", &[4]),
        ("οδος", &[5]),
        ("ΟΔΌΣ", &[5]),
        ("еще", &[6]),
        ("ЁЖ", &[6]),
        ("हिन्दी", &[7]),
        ("ह", &[]),
        ("हिन", &[]),
        ("東京", &[8]),
        ("東", &[]),
        ("か\u{3099}高い", &[8]),
        ("か高い", &[8]),
        ("한국어", &[9]),
        ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}\u{110b}\u{1165}", &[9]),
        ("שלום", &[10]),
        ("\u{5e9}\u{5b8}\u{5dc}\u{5d5}\u{5b9}\u{5dd}", &[10]),
        ("بالعالم", &[11]),
        ("١٢٣", &[11]),
        ("123", &[]),
        ("ภาษาไทย", &[12]),
        ("snake_case", &[13]),
        ("snake", &[13]),
        ("c", &[13]),
        ("14 3", &[13]),
        ("don't", &[13]),
        ("\u{2764}\u{fe0f}", &[]),
        ("\u{301}", &[]),
        ("\u{ff41}\u{ff22}", &[14]),
        ("ab", &[]),
        ("\u{2178}", &[14]),
    ] {
        let hits = store.search(None, &Query::new(query), 99).await.unwrap();
        let mut found: Vec<_> = hits.iter().map(|hit| hit.position).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
    store.clear().await.unwrap();
}

/// The suite, on the order in which records are found, and on what a search is limited to.
async fn ranks_alike(store: &dyn Store) {
    let said = |text: &str, role: &str, time| Record::new("{}").text(text).role(role).time(time);
    let (one, two) = (name("one"), name("two"));
    let first = vec![
        said("Which port does the linker service need?", "user", 10),
        said("5050, as ever.", "assistant", 20),
        Record::new("no text"),
        said("The sunset was painted in Lyon.", "user", 30).name("Ann Lee"),
        said("Nice. Does src/store/mod.rs call read_file?", "assistant", 40),
    ];
    let second = vec![
        said("Reading the file takes long. A port is open.", "tool", 50),
        said("Die Häuser sind nicht für die Reichen, und nicht für uns.", "user", 60),
        Record::new("{}").text("She paints and paints; painting is all. What is it that she paints?").role("assistant"),
        said("or is it not?", "user", 70),
    ];
    store.append(&one, 0, first, Some(1)).await.unwrap();
    store.append(&two, 0, second, Some(2)).await.unwrap();
    let found = |log: Option<LogName>, query: Query| async move {
        let hits = store.search(log.as_ref(), &query, 9).await.unwrap();
        hits.into_iter().map(|hit| (hit.log.to_string(), hit.position)).collect::<Vec<_>>()
    };
    let (a, b) = (|at| ("one".to_owned(), at), |at| ("two".to_owned(), at));
    for (query, expected) in [
        // The rarer word, the stems, and the answer beside its question.
        ("What port did the linker need?", vec![a(0), a(1), b(0)]),
        ("the painting of sunsets", vec![a(3), b(2)]),
        ("paint", vec![b(2), a(3)]),
        // A name as a whole, then its parts.
        ("read_file", vec![a(4), b(0)]),
        ("mod.rs", vec![a(4)]),
        // By language, or by the common stem.
        ("Haus", vec![b(1)]),
        ("das Haus der Reichsten", vec![b(1)]),
        ("H\u{e4}user", vec![b(1)]),
        // Function words, if there is nothing else.
        ("what is it", vec![b(2), b(3), b(0)]),
        ("zebra", vec![]),
    ] {
        assert_eq!(found(None, Query::new(query)).await, expected, "{query}");
    }
    assert_eq!(found(Some(two.clone()), "port of the linker".into()).await, [b(0)]);
    assert_eq!(found(None, Query::new("a \"port is open\"")).await, [b(0)], "it has the words of the phrase");
    assert_eq!(found(None, Query::every_word("a port open")).await, [b(0)]);
    assert_eq!(found(None, Query::every_word("port linker zebra")).await, []);
    let within = |within: Within| found(None, Query::new("port paint file house").within(within));
    let by = |name: &str| Within::default().speaker(name.to_owned());
    assert_eq!(within(by("tool")).await, [b(0)]);
    assert_eq!(within(by("Ann Lee")).await, [a(3)]);
    assert_eq!(within(by("ann")).await, [a(3)]);
    assert_eq!(within(by("nobody")).await, []);
    // The name of who speaks is a word of what is said.
    assert_eq!(found(None, "what did Ann say?".into()).await, [a(3)]);
    let times = |since: Option<i64>, until: Option<i64>| within(Within::default().since(since).until(until));
    assert_eq!(times(Some(30), Some(40)).await.len(), 2);
    assert_eq!(times(Some(41), None).await, [b(0)]);
    assert_eq!(times(Some(3), Some(10)).await, [a(0)]);
    assert_eq!(times(None, Some(9)).await, [b(2)], "it was written then");
    assert_eq!(store.clear().await.unwrap(), 2);
}

/// The whole suite, over an empty store.
async fn conforms(store: &dyn Store) {
    keeps_times(store).await;
    lists_by_prefix(store).await;
    keeps_derived_logs_apart(store).await;
    finds_alike(store).await;
    ranks_alike(store).await;
    keeps_logs(store).await;
}

#[test]
fn a_store_in_memory_conforms() {
    block_on(conforms(&MemoryStore::new()));
}

#[test]
fn a_store_of_another_crate_conforms() {
    block_on(conforms(&OwnStore::default()));
}

#[test]
fn a_store_in_sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    block_on(conforms(&SqliteStore::open(folder.path().join("s.db")).unwrap()));
}

#[test]
fn a_store_in_files_conforms() {
    let folder = tempfile::tempdir().unwrap();
    block_on(conforms(&FileStore::open(folder.path().join("s")).unwrap()));
}

#[test]
fn a_shared_store_is_not_wrapped_again() {
    let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let session = block_on(Session::open(shared.clone(), "one", Settings::default())).unwrap();
    let memory = block_on(Memory::open(shared.clone(), "one")).unwrap();
    assert!(Arc::ptr_eq(session.store(), &shared) && Arc::ptr_eq(memory.store(), &shared));
    // One of a known kind is shared, too.
    let known = Arc::new(MemoryStore::new());
    let mut session = block_on(Session::open(known.clone(), "one", Settings::default())).unwrap();
    block_on(session.push(Message::user("Hello"))).unwrap();
    assert_eq!(block_on(known.list("")).unwrap().len(), 1);
}

#[test]
fn a_new_store_can_be_opened_by_several_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("{round}.db"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| SqliteStore::open(&path).unwrap());
            }
        });
    }
}

#[test]
fn a_store_that_is_opened_again_has_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let log = name("kept");
    block_on(SqliteStore::open(&path).unwrap().append(&log, 0, vec![record("apple")], None)).unwrap();
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), [record("apple").body]);
    assert_eq!(block_on(store.search(None, &Query::new("apple"), 9)).unwrap().len(), 1);
}

#[test]
fn what_is_not_a_store_is_said_to_be_none_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(
        &text,
        "milk, bread and a few other things that make this longer than a header of SQLite's is, by far",
    )
    .unwrap();
    let refused = SqliteStore::open(&text).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("milk"));
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    let refused = SqliteStore::open(&other).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    let missing = SqliteStore::open_existing(folder.path().join("none.db")).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    assert!(!folder.path().join("none.db").exists());
}

#[test]
fn a_record_that_is_missing_moved_or_altered_is_named_and_what_is_before_it_is_read() {
    let damages = [
        ("DELETE FROM entries WHERE position = 2", Damage::Gone),
        ("DELETE FROM entries WHERE position >= 2", Damage::Gone),
        ("UPDATE entries SET position = position + 90 WHERE position = 2", Damage::Gone),
        ("UPDATE entries SET body = replace(body, 'c', 'd') WHERE position = 2", Damage::Altered),
        ("UPDATE entries SET checksum = checksum + 1 WHERE position = 2", Damage::Altered),
        (
            "UPDATE entries SET (body, checksum) = (SELECT body, checksum FROM entries WHERE position = 3)
             WHERE position = 2",
            Damage::Altered,
        ),
    ];
    for (damage, expected) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = SqliteStore::open(&path).unwrap();
        let log = name("one");
        let bodies = ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}", "{\"d\":4}", "{\"e\":5}"];
        block_on(store.append(&log, 0, bodies.map(Record::new).to_vec(), None)).unwrap();
        Connection::open(&path).unwrap().execute(damage, []).unwrap();
        for span in [0..5, 2..3, 0..u64::MAX] {
            match block_on(store.read(&log, span.clone())).unwrap_err() {
                StoreError::Damaged { log, position: 2, damage: found } => {
                    assert_eq!((log.as_str(), *found), ("one", expected.clone()), "{damage}: {span:?}");
                }
                other => panic!("{damage}: {span:?}: {other:?}"),
            }
        }
        let several = block_on(store.read_many(&log, &[0..1, 1..4])).unwrap_err();
        assert!(matches!(several, StoreError::Damaged { position: 2, .. }), "{damage}: {several:?}");
        assert_eq!(block_on(store.read(&log, 0..2)).unwrap(), &bodies[..2], "{damage}");
        assert_eq!(block_on(store.read(&log, 5..9)).unwrap(), [""; 0], "{damage}");
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let refused = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 7, known: 4, .. }), "{refused:?}");
    assert!(refused.to_string().contains("version 7") && refused.to_string().contains("update Lookback"));
}

#[test]
fn a_store_that_another_holds_is_said_to_be_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap().with_patience(Duration::from_millis(50)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let log = name("one");
    let refused = block_on(store.append(&log, 0, vec![record("apple")], None)).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    // Readers go on.
    assert_eq!(block_on(store.head(&log, None)).unwrap(), None);
    other.execute_batch("COMMIT").unwrap();
    block_on(store.append(&log, 0, vec![record("apple")], None)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_store_that_may_only_be_read_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let log = name("one");
    block_on(SqliteStore::open(&path).unwrap().append(&log, 0, vec![record("apple")], None)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        println!("skipped: this user may write what is read-only");
        return;
    }
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 1);
    let refused = block_on(store.append(&log, 1, vec![record("banana")], None)).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    drop(store);
    // Not even beside it may anything be written.
    let set = |mode| std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
    for beside in ["s.db-wal", "s.db-shm"] {
        std::fs::remove_file(folder.path().join(beside)).ok();
    }
    set(0o555);
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(block_on(store.list("")).unwrap().len(), 1);
    assert_eq!(block_on(store.search(None, &Query::new("apple"), 9)).unwrap().len(), 1);
    let refused = block_on(store.append(&log, 1, vec![record("banana")], None)).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    // What stands beside it would be left out.
    set(0o755);
    std::fs::write(folder.path().join("s.db-wal"), "more").unwrap();
    set(0o555);
    let refused = SqliteStore::open_existing(&path).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    set(0o755);
}

#[cfg(unix)]
#[test]
fn a_file_is_its_owners_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    block_on(store.append(&name("one"), 0, vec![record("apple")], None)).unwrap();
    for file in ["s.db", "s.db-wal", "s.db-shm"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    // One that somebody made otherwise stays as it is.
    std::fs::write(folder.path().join("own.db"), "").unwrap();
    std::fs::set_permissions(folder.path().join("own.db"), PermissionsExt::from_mode(0o640)).unwrap();
    drop(SqliteStore::open(folder.path().join("own.db")).unwrap());
    assert_eq!(mode("own.db"), 0o640);
}

#[test]
fn names_that_leave_their_folder_are_none() {
    for bad in ["", "..", "../a", "a/../b", "a//b", "/a", "a/", "./a", "a\0b", "a\nb", "a\\b", "\u{85}"] {
        assert!(bad.parse::<LogName>().is_err(), "{bad:?}");
    }
    assert!("x".repeat(200).parse::<LogName>().is_ok());
    assert!("x".repeat(201).parse::<LogName>().is_err());
    assert!("team/agent-7/\u{1f600} ..a".parse::<LogName>().is_ok());
}

#[test]
fn names_of_derived_logs_are_given_by_nobody() {
    let one = name("one");
    assert_eq!(one.summary_of().as_str(), "compact:one:summary");
    assert_eq!(name("compact:one:messages").summary_of().as_str(), "compact:compact:one:messages:summary");
    assert_eq!(name("compact:messages").summary_of().as_str(), "compact:compact:messages:summary");
    assert_eq!(one.summary_of().summary_of().as_str(), "compact:compact:one:summary:summary");
    for (reserved, before, after) in [
        ("compact:one:summary", "compact:", ":summary"),
        ("compact::summary", "compact:", ":summary"),
        ("compact:a/b:summary", "compact:", ":summary"),
        ("compact:compact:a:summary:summary", "compact:", ":summary"),
        ("memory:one:facts", "memory:", ":facts"),
        ("memory:one:shared", "memory:", ":shared"),
    ] {
        assert_eq!(reserved.parse::<LogName>(), Err(BadName::Reserved { before, after }), "{reserved}");
    }
    assert_eq!(one.facts_of().derived(), Some((Derived::Facts, "one")));
    assert_eq!(one.shared_of().derived(), Some((Derived::Shared, "one")));
    for free in [
        "compact:summary",
        "compact:one",
        "one:summary",
        "Compact:one:summary",
        "xcompact:one:summary",
        "compact:one:summary2",
    ] {
        assert!(!name(free).is_derived(), "{free}");
    }
    let long = name(&"\u{1f600}".repeat(LogName::LONGEST)).summary_of();
    assert_eq!(long.as_str().chars().count(), LogName::LONGEST + 16);
    assert!(long.is_derived() && !one.is_derived());
}

proptest::proptest! {
    #[test]
    fn no_two_sessions_share_a_log(
        one in "(compact:|memory:|shared|a|/b|:summary|:messages|:facts|:shared|:){1,5}",
        two in "(compact:|memory:|shared|a|/b|:summary|:messages|:facts|:shared|:){1,5}",
    ) {
        let (Ok(one), Ok(two)) = (one.parse::<LogName>(), two.parse::<LogName>()) else { return Ok(()) };
        let logs = |of: &LogName| [of.clone(), of.summary_of(), of.facts_of(), of.shared_of()];
        if one != two {
            for log in logs(&one) {
                proptest::prop_assert!(!logs(&two).contains(&log), "{one} and {two} share {log}");
            }
        }
    }
}

/// Sessions of a million words that are all alike, as those of agents are in `the`.
#[cfg(feature = "sqlite")]
fn many_alike(store: &SqliteStore, messages: u64) {
    let text = "the cat sat on the mat";
    let record = || Record::new("{}").text(text);
    let records = (0..messages).map(|_| record()).collect();
    block_on(store.append(&name("alike"), 0, records, None)).unwrap();
}

#[cfg(feature = "sqlite")]
#[test]
fn a_word_that_is_said_a_thousand_times_in_a_query_is_looked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    many_alike(&store, 20_000);
    // A hundred of it took minutes.
    let hits = block_on(store.search(None, &Query::new(&"the ".repeat(1_000)), 5)).unwrap();
    assert_eq!(hits.len(), 5);
}
