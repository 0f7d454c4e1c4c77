//! Pushes whose answer was lost: what is pushed again is in the log once, and nothing else takes its place.

use std::future::{pending, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::transcript::{Label, Millis};
use lookback_session::{Batch, Session};
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, LogName, MemoryStore, Store, StoreError, StoreFuture, Tombstone};
use lookback_wire::message::Message;

/// What happens to the next call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// An append is written, but its answer is lost.
    Answer,
    /// An append is lost.
    Append,
    /// The end of a log is never read.
    Read,
}

/// A store in memory that knows the keys of its appends, as one on a network does, and has faults.
#[derive(Debug, Default)]
struct Lossy {
    store: MemoryStore,
    next: Mutex<Option<Fault>>,
    /// The position and the key of each append, and whether it was written.
    appends: Mutex<Vec<(u64, u64, bool)>>,
}

impl Lossy {
    fn fail(&self, fault: Fault) {
        *self.next.lock().unwrap() = Some(fault);
    }

    fn takes(&self, faults: &[Fault]) -> Option<Fault> {
        self.next.lock().unwrap().take_if(|fault| faults.contains(fault))
    }

    fn keys(&self) -> Vec<u64> {
        self.appends.lock().unwrap().iter().map(|(_, key, _)| *key).collect()
    }
}

fn late() -> StoreError {
    StoreError::Late { place: "memory".to_owned(), limit: Duration::from_secs(1) }
}

impl Store for Lossy {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (at, key) = (append.at, append.key);
            if self.appends.lock().unwrap().contains(&(at, key, true)) {
                return Ok(());
            }
            let fault = self.takes(&[Fault::Answer, Fault::Append]);
            let written = if fault == Some(Fault::Append) { Err(late()) } else { self.store.append(log, append).await };
            self.appends.lock().unwrap().push((at, key, written.is_ok()));
            if fault.is_some() { Err(late()) } else { written }
        })
    }
    fn tail<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<(Head, Vec<String>)>> {
        if self.takes(&[Fault::Read]).is_some() {
            return Box::pin(pending());
        }
        self.store.tail(log)
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.store.touch(log, time)
    }
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.store.read(log, span)
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
    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<Tombstone>) -> StoreFuture<'a, ()> {
        self.store.erase(log, tombstones)
    }
    fn clear(&self) -> StoreFuture<'_, u64> {
        self.store.clear()
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        self.store.search(log, query, most)
    }
}

fn open() -> (Arc<Lossy>, Session) {
    let store = Arc::new(Lossy::default());
    let session = block_on(Session::open(store.clone(), "s", Settings::default())).unwrap();
    (store, session)
}

fn texts(session: &Session) -> Vec<String> {
    session.view().messages().map(|item| item.message().text()).collect()
}

#[test]
fn a_message_pushed_again_is_written_once_whether_the_append_or_its_answer_was_lost() {
    for fault in [Fault::Append, Fault::Answer] {
        let (store, mut session) = open();
        store.fail(fault);
        block_on(session.push(Message::user("one"))).unwrap_err();
        assert_eq!(block_on(session.push(Message::user("one"))).unwrap(), [0], "{fault:?}");
        assert_eq!(block_on(session.push(Message::user("one"))).unwrap(), [1], "a third is another message: {fault:?}");
        let session = block_on(Session::open(store.clone(), "s", Settings::default())).unwrap();
        assert_eq!(texts(&session), ["one", "one"], "{fault:?}");
    }
}

#[test]
fn the_same_message_under_another_label_is_another_push() {
    let (store, mut session) = open();
    let labeled = |agent: &str| Batch::from(Message::user("one")).label(Label::default().agent(agent));
    store.fail(Fault::Answer);
    block_on(session.append(labeled("first"))).unwrap_err();
    block_on(session.append(labeled("second"))).unwrap();
    assert_eq!(texts(&session), ["one", "one"]);
    assert_ne!(store.keys()[0], store.keys()[1]);
}

#[test]
fn a_push_that_was_given_up_does_not_lend_its_key_to_the_next_message() {
    let (store, mut session) = open();
    store.fail(Fault::Append);
    block_on(session.push(Message::user("one"))).unwrap_err();
    store.fail(Fault::Read);
    {
        let mut again = pin!(session.push(Message::user("one")));
        let is_pending = block_on(poll_fn(|context| Poll::Ready(again.as_mut().poll(context).is_pending())));
        assert!(is_pending);
    }
    block_on(session.push(Message::user("other"))).unwrap();
    let keys = store.keys();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "the store would take the message for the lost one");
    assert_eq!(texts(&session), ["other"]);
}
