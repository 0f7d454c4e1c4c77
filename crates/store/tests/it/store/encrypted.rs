//! Stores with encrypted contents.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_session::Session;
use lookback_session::verify;
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Damage, EncryptedStore, Key, Record, conformance, copy};
use lookback_store::{FileStore, LogName, MemoryStore, Store, StoreError};
use lookback_wire::message::Message;

fn key(name: &str, byte: u8) -> Key {
    Key::new(name, [byte; Key::LENGTH]).unwrap()
}

fn encrypted(store: Arc<dyn Store>) -> EncryptedStore {
    EncryptedStore::new(store, key("a", 1), []).unwrap()
}

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn has(folder: &Path, text: &str) -> bool {
    let has_text = |path: &Path| fs::read(path).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes());
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.any(|path| if path.is_dir() { has(&path, text) } else { has_text(&path) })
}

#[test]
fn a_store_with_encrypted_contents_keeps_what_a_store_promises_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn Store>; 3] = [
        Arc::new(MemoryStore::new()),
        Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap()),
        Arc::new(FileStore::open(folder.path().join("files")).unwrap()),
    ];
    for store in stores {
        let store = encrypted(store);
        block_on(async {
            // Only sizes and searches differ.
            let log = name("chat");
            let records = |texts: &[&str]| texts.iter().map(|text| Record::new(*text)).collect::<Vec<_>>();
            store.append(&log, Append::new(0, records(&["", "\0 no JSON \u{1f600}"]))).await.unwrap();
            store.append(&log, Append::new(2, [Record::new("two").checkpoint(true)])).await.unwrap();
            store.append(&log, Append::new(3, records(&["three"]))).await.unwrap();
            assert_eq!(store.read(&log, 1..3).await.unwrap(), ["\0 no JSON \u{1f600}", "two"]);
            assert_eq!(store.read(&log, u64::MAX..u64::MAX).await.unwrap(), Vec::<String>::new());
            let parts = store.read_many(&log, &[3..9, 0..1]).await.unwrap();
            assert_eq!(parts, [vec!["three".to_owned()], vec![String::new()]]);
            let (head, bodies) = store.tail(&log).await.unwrap().unwrap();
            assert_eq!((head.end, head.checkpoint, bodies), (4, Some(2), vec!["two".into(), "three".into()]));
            store.clear().await.unwrap();
            conformance::keeps_names_apart(&store, 50).await;
        });
        let writers = (0..4).map(|_| Arc::new(store.clone()) as Arc<dyn Store>).collect::<Vec<_>>();
        conformance::keeps_every_append(&writers, 10);
    }
}

#[test]
fn no_file_has_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let (file, files) = (folder.path().join("s.db"), folder.path().join("files"));
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(SqliteStore::open(&file).unwrap()), Arc::new(FileStore::open(&files).unwrap())];
    for store in stores {
        let store = encrypted(store);
        block_on(async {
            let mut session = Session::open(store.clone(), "chat", Default::default()).await.unwrap();
            session.push(Message::user("The password is hunter2")).await.unwrap();
            session.push(Message::assistant("I see")).await.unwrap();
            // The messages of sessions can be found.
            let found = session.search(&Query::new("passwords"), 9).await.unwrap();
            assert_eq!(found.len(), 1);
            let found = lookback_store::messages::search(&store, None, Query::new("see"), 9).await.unwrap();
            assert_eq!(found.iter().map(|hit| hit.position).collect::<Vec<_>>(), [1]);
        });
    }
    for text in ["hunter2", "password", "I see"] {
        assert!(!has(folder.path(), text), "{text}");
    }
    assert!(has(folder.path(), "chat"), "names are not encrypted");
}

#[test]
fn a_record_can_stand_nowhere_else_and_be_opened_with_no_other_key() {
    let plain = Arc::new(MemoryStore::new());
    let store = encrypted(plain.clone());
    let (one, two) = (name("one"), name("two"));
    let record = |text: &str| Record::new(text);
    let damage = |store: &dyn Store, log: &LogName| match block_on(store.read(log, 0..9)).unwrap_err() {
        StoreError::Damaged { position, damage, .. } => (position, *damage),
        other => panic!("{other:?}"),
    };
    block_on(async {
        store.append(&one, Append::new(0, [record("zero"), record("one")])).await.unwrap();
        let sealed = plain.read(&one, 0..2).await.unwrap();
        // At the position of another record, in another log, and in a tenant's log.
        plain.append(&two, Append::new(0, [record(&sealed[1]), record(&sealed[0])])).await.unwrap();
        assert_eq!(damage(&store, &two), (0, Damage::Altered));
        let acme = "acme".parse().unwrap();
        plain.scoped(&acme).unwrap().append(&one, Append::new(0, [record(&sealed[0])])).await.unwrap();
        assert_eq!(damage(&*store.scoped(&acme).unwrap(), &one), (0, Damage::Altered));
        // Every byte is authenticated.
        for at in 0..sealed[0].len() {
            let mut bytes = sealed[0].clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(altered) = String::from_utf8(bytes) else { continue };
            let plain = Arc::new(MemoryStore::new());
            plain.append(&one, Append::new(0, [record(&altered)])).await.unwrap();
            assert!(encrypted(plain).read(&one, 0..1).await.is_err(), "{altered}");
        }
    });
    let other = EncryptedStore::new(plain.clone(), key("b", 1), []).unwrap();
    assert_eq!(damage(&other, &one), (0, Damage::NoKey { key: "a".to_owned() }));
    let wrong = EncryptedStore::new(plain.clone(), key("a", 2), []).unwrap();
    assert_eq!(damage(&wrong, &one), (0, Damage::Altered));
    let three = name("three");
    block_on(plain.append(&three, Append::new(0, [record("plain")]))).unwrap();
    assert_eq!(damage(&store, &three), (0, Damage::NotSealed));
    let shown = format!("{store:?} {:?} {:?}", key("a", 7), block_on(store.read(&two, 0..9)));
    assert!(!shown.contains("zero") && !shown.contains("7, 7"), "{shown}");
}

#[test]
fn a_key_is_changed_and_an_old_one_given_up() {
    let plain = Arc::new(MemoryStore::new());
    let log = name("chat");
    let said = |store: &dyn Store| block_on(store.read(&log, 0..9));
    let record = |text: &str| vec![Record::new(format!("\"{text}\""))];
    block_on(encrypted(plain.clone()).append(&log, Append::new(0, record("one")))).unwrap();
    assert!(EncryptedStore::new(plain.clone(), key("a", 2), [key("a", 1)]).is_err(), "two keys of one name");
    let changed = EncryptedStore::new(plain.clone(), key("b", 2), [key("a", 1)]).unwrap();
    block_on(changed.append(&log, Append::new(1, record("two")))).unwrap();
    assert_eq!(said(&changed).unwrap(), ["\"one\"", "\"two\""]);
    assert!(said(&encrypted(plain)).is_err(), "the old key alone opens the old records only");
    let fresh = Arc::new(MemoryStore::new());
    let copied = EncryptedStore::new(fresh.clone(), key("b", 2), []).unwrap();
    block_on(copy(&changed, &copied, |_| {})).unwrap();
    // The copy continues where it stopped, although everything is encrypted again.
    assert_eq!(block_on(copy(&changed, &copied, |_| {})).unwrap().known, 2);
    let later = EncryptedStore::new(fresh, key("b", 2), []).unwrap();
    assert_eq!(said(&later).unwrap(), ["\"one\"", "\"two\""]);
}

#[test]
fn an_encrypted_store_is_verified_with_its_key_only() {
    let plain = Arc::new(MemoryStore::new());
    let store = encrypted(plain.clone());
    let push = async {
        Session::open(store.clone(), "chat", Default::default()).await.unwrap().push(Message::user("Hello")).await
    };
    block_on(push).unwrap();
    assert_eq!(block_on(verify(&store, |_| {})).unwrap().faults.len(), 0);
    assert_eq!(block_on(verify(&*plain, |_| {})).unwrap().faults.len(), 1);
}

#[test]
fn a_key_that_is_wrong_is_refused_without_quoting_it() {
    for text in ["", "secret", "a:secret", "a:c2VjcmV0", ":AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a b:AAAA"] {
        let refused = text.parse::<Key>().unwrap_err();
        let said = format!("{refused} {refused:?}");
        assert!(!said.contains("secret") && !said.contains("c2V"), "{said}");
    }
}
