//! `Debug` of types with parts of a conversation, or facts from it, prints its shape and none of its words.

#![cfg(feature = "sqlite")]

use std::fmt::Debug;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_agent::{Event, FactSheet, Note, Pipeline, Reaction, Run, ToolOutcome, ToolStatus};
use lookback_compat::agentlib::ReadOptions;
use lookback_engine::{Settings, policy::Policy, view::View};
use lookback_facts as memory;
use lookback_facts::tools::Reply;
use lookback_facts::{
    Export, FactEntry, FactKind, LeftMessage, Memory, Recall, Scope, SheetOptions, Source, Speaker, Statement,
};
use lookback_recordings::Recording;
use lookback_session::HistoryQuery;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_sqlite::SqliteStore;
use lookback_store::{Append, Record};
use lookback_store::{FileStore, LogName, MemoryStore, Store};
use lookback_summarize::{Function, SummarizeOptions, SummaryTask, passages, summarize};
use lookback_tokens::Estimate;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};

const MARK: &str = "s3cret";

#[track_caller]
fn hides(value: &dyn Debug) {
    // Bytes are shown as numbers.
    let numbers = format!("{:?}", MARK.as_bytes());
    let numbers = numbers.trim_matches(['[', ']']);
    for shown in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(!shown.contains(MARK) && !shown.contains(numbers), "{shown}");
    }
}

fn mark() -> String {
    MARK.to_owned()
}

#[test]
fn stores_and_sessions_say_no_word() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn Store>; 3] = [
        Arc::new(MemoryStore::new()),
        Arc::new(FileStore::open(folder.path().join("files")).unwrap()),
        Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap()),
    ];
    for store in stores {
        block_on(async {
            let log: LogName = "chat".parse().unwrap();
            let mut session = Session::open(store.clone(), "chat", Settings::default()).await.unwrap();
            session.push(Message::user(MARK)).await.unwrap();
            session.push(Message::assistant_with_calls(MARK, [ToolCall::new(MARK, MARK, MARK)])).await.unwrap();
            session.push(Message::user(MARK)).await.unwrap();
            hides(&session.window().await.unwrap());
            hides(&session);
            hides(&store);
            let history = session.history().await.unwrap();
            assert_eq!(history.len(), 3);
            hides(&history);
            hides(&adapter::entries(&mut session).await.unwrap());
            let found = lookback_store::messages::search(&*store, Some(&log), MARK, 9).await.unwrap();
            assert!(!found.is_empty());
            hides(&found);
            let recalled = memory::recall(&*store, &log, &Recall::query(MARK)).await.unwrap();
            assert!(!recalled.passages.is_empty());
            hides(&recalled);
            hides(&Pipeline::new(session));
        });
    }
    hides(&Record::new(mark()).text(mark()));
    hides(&HistoryQuery::default().query(MARK));
    hides(&ReadOptions::default().query(mark()));
    let recording = format!(r#"{{"role":"user","content":"{MARK}"}}"#);
    hides(&Recording::read(&recording, "chat", Dialect::OpenAiChat).unwrap());
}

#[test]
fn a_store_in_memory_says_how_much_there_is() {
    let store = MemoryStore::new();
    let log: LogName = "chat".parse().unwrap();
    block_on(store.append(&log, Append::new(0, [Record::new(mark()).text(mark())]))).unwrap();
    assert_eq!(format!("{store:?}"), "MemoryStore { logs: 1, records: 1, .. }");
}

#[test]
fn facts_say_no_word() {
    block_on(async {
        let memory = Memory::open(MemoryStore::new(), "chat").await.unwrap();
        let source = Source::new(Speaker::Person);
        let statement = Statement::new(FactKind::Blocker, MARK, source.clone()).about(MARK).tag(MARK);
        hides(&statement);
        let stated = memory.state(Scope::Session, statement).await.unwrap();
        hides(&memory.facts().await.unwrap());
        hides(&memory);
        hides(&FactSheet::new(memory.clone()));
        let sheet = memory.sheet(&SheetOptions::default(), &Estimate::default()).await.unwrap();
        assert!(sheet.text.contains(MARK));
        hides(&sheet);
        hides(&memory.history(stated.id).await.unwrap());
        hides(&Export::read(&memory::export(&memory, Scope::Session).await.unwrap()).unwrap());
        let (id, time) = (stated.id, None);
        hides(&FactEntry::Resolved { id, with: mark(), source: source.clone(), time });
        hides(&FactEntry::Forgotten { id, why: Some(mark()), source, time });
    });
    hides(&Reply::done(MARK));
}

#[test]
fn what_a_summarizer_reads_and_writes_says_no_word() {
    let task = SummaryTask::new(passages(&[Message::user(MARK)]), 100);
    let mut task = task.previous(MARK).focus([MARK]).instructions(MARK);
    task.fault = Some(mark());
    hides(&task);
    let options = SummarizeOptions::default().focus([MARK]).previous(MARK);
    hides(&options);
    let model = Function::new("m", |ask| async move {
        hides(&ask);
        Ok(mark())
    });
    hides(&block_on(summarize(&[Message::user(MARK)], &model, &options)).unwrap());
}

#[test]
fn a_run_and_its_stages_say_no_word() {
    let note = Note::new("watch", MARK);
    hides(&note);
    let call = ToolCall::new(MARK, MARK, MARK);
    let outcome = ToolOutcome::new(call.clone(), MARK, ToolStatus::Returned);
    hides(&Event::BeforeTool(call));
    hides(&Event::AfterTool(outcome));
    hides(&Reaction::none().note(MARK).answer(MARK));
    hides(&Reaction::none().refuse(MARK));
    let mut run = Run::new("chat".parse().unwrap(), View::default(), Dialect::default(), Policy::unlimited());
    run.task = Some(MARK.into());
    run.left = vec![LeftMessage::new(0, Message::user(MARK))].into();
    run.notes = vec![note].into();
    hides(&run);
}
