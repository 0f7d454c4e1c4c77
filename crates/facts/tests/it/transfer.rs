//! Exports of facts: what an import restores, what it adds to existing facts, and what it refuses to read.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_facts::{
    Counts, Effect, Export, Fact, FactEntry, FactKind, Imported, LeftMessage, Memory, Scope, Source, Speaker,
    Statement, Trust, export, import,
};
use lookback_store::{MemoryStore, Store};
use lookback_summarize::Function;
use lookback_tokens::Estimate;
use lookback_wire::message::Message;

fn open() -> Memory {
    block_on(Memory::open(MemoryStore::new(), "chat-1")).unwrap()
}

fn said(kind: FactKind, text: &str, by: Speaker, time: i64) -> Statement {
    Statement::new(kind, text, Source::new(by)).time(time)
}

fn state(memory: &Memory, kind: FactKind, text: &str, by: Speaker, time: i64) -> String {
    block_on(memory.state(Scope::Session, said(kind, text, by, time))).unwrap().id.to_string()
}

fn exported(memory: &Memory) -> String {
    block_on(export(memory, Scope::Session)).unwrap()
}

fn imported(memory: &Memory, text: &str) -> Imported {
    block_on(import(memory, Scope::Session, &Export::read(text).unwrap(), Effect::Write)).unwrap()
}

fn counts(set: impl FnOnce(&mut Counts)) -> Counts {
    let mut counts = Counts::default();
    set(&mut counts);
    counts
}

fn facts(memory: &Memory) -> Vec<Fact> {
    block_on(memory.facts()).unwrap()
}

fn texts(memory: &Memory) -> Vec<String> {
    facts(memory).into_iter().map(|fact| fact.statement.text).collect()
}

/// Returns a memory with a superseded, a confirmed, a resolved, a forgotten and a disputed fact.
fn lived() -> Memory {
    let memory = open();
    state(&memory, FactKind::Finding, "It listens on port 5050.", Speaker::Model, 1);
    state(&memory, FactKind::Finding, "It listens on port 6060.", Speaker::Model, 2);
    state(&memory, FactKind::Finding, "it listens on port 6060", Speaker::Person, 3);
    state(&memory, FactKind::Finding, "It listens on port 7070.", Speaker::Tool("netstat".into()), 4);
    let blocker = state(&memory, FactKind::Blocker, "API_KEY is missing.", Speaker::Model, 5);
    block_on(memory.resolve(blocker.parse().unwrap(), "It is set.", Source::new(Speaker::Model))).unwrap();
    let wrong = state(&memory, FactKind::Decision, "Use YAML.", Speaker::Model, 6);
    block_on(memory.forget(wrong.parse().unwrap(), Source::new(Speaker::Model))).unwrap();
    state(&memory, FactKind::Constraint, "Never touch `legacy`.", Speaker::Person, 7);
    memory
}

#[test]
fn an_empty_memory_gets_identifiers_and_history_back() {
    let old = lived();
    let text = exported(&old);
    assert_eq!(text.lines().count(), 9);
    assert!(text.starts_with(r#"{"scope":"session","position":0,"entry":{"stated":{"kind":"finding","#), "{text}");
    let new = open();
    let report = imported(&new, &text);
    assert!(report.restored && report.refused.is_empty());
    assert_eq!(report.counts, counts(|counts| counts.new = 3));
    assert_eq!(facts(&new), facts(&old));
    assert_eq!(exported(&new), text);
    let id = "f1".parse().unwrap();
    assert_eq!(block_on(new.history(id)).unwrap(), block_on(old.history(id)).unwrap());
    let again = imported(&new, &text);
    assert!(!again.restored && again.refused.is_empty());
    assert_eq!(again.counts, counts(|counts| counts.known = 3));
    assert_eq!(exported(&new), text);
}

#[test]
fn what_is_restored_hides_no_shared_facts_and_counts_no_messages_as_extracted_from() {
    let messages = [LeftMessage::new(3, Message::user("It is so."))];
    let extracted = |memory: &Memory| {
        let answer = r#"{"facts":[{"kind":"finding","text":"It is so.","confidence":1,"message":1}]}"#;
        let model = Function::new("m", move |_| async move { Ok(answer.to_owned()) });
        block_on(memory.extract(&messages, &model, &Estimate::default())).unwrap().len()
    };
    let old = open();
    let npm = block_on(old.state(Scope::Shared, said(FactKind::Preference, "Use npm.", Speaker::Model, 1))).unwrap().id;
    assert_eq!(extracted(&old), 1);
    let yarn = said(FactKind::Preference, "Use yarn here.", Speaker::Model, 2);
    block_on(old.state(Scope::Session, yarn.superseding(npm).superseding("f0".parse().unwrap()))).unwrap();
    assert_eq!(texts(&old), ["Use yarn here."]);
    // In this store, `s0` is a different fact, and the message is a different one, too.
    let new = open();
    let never = said(FactKind::Constraint, "Never push to main.", Speaker::Person, 1);
    block_on(new.state(Scope::Shared, never)).unwrap();
    assert!(imported(&new, &exported(&old)).restored);
    assert_eq!(texts(&new), ["Use yarn here.", "Never push to main."]);
    let entries = block_on(new.entries(Scope::Session)).unwrap();
    assert_eq!(entries[1], FactEntry::Extracted { from: vec![] });
    assert!(matches!(&entries[2], FactEntry::Stated(statement) if statement.supersedes == ["f0".parse().unwrap()]));
    assert_eq!(extracted(&new), 1);
}

#[test]
fn what_takes_the_place_of_more_than_may_be_named_is_read_and_taken_over() {
    let old = open();
    let first = said(FactKind::Finding, "It is slow.", Speaker::Model, 1).about("the build");
    block_on(old.state(Scope::Session, first.clone())).unwrap();
    let named = (0..32).map(|at| state(&old, FactKind::Decision, &format!("Step {at} is done."), Speaker::Model, 2));
    let mut then = first;
    then.text = "It is fast.".into();
    then.supersedes = named.map(|id| id.parse().unwrap()).collect();
    let begun = exported(&old);
    block_on(old.state(Scope::Session, then)).unwrap();
    let text = exported(&old);
    let new = open();
    assert!(imported(&new, &text).restored);
    assert_eq!(exported(&new), text);
    let other = open();
    state(&other, FactKind::Preference, "Something else stands here.", Speaker::Model, 1);
    imported(&other, &begun);
    assert_eq!(imported(&other, &text).counts, counts(|counts| (counts.new, counts.superseded) = (1, 33)));
    assert_eq!(texts(&other), ["Something else stands here.", "It is fast."]);
}

#[test]
fn what_is_known_already_is_confirmed_once_and_what_is_new_is_added() {
    let new = open();
    state(&new, FactKind::Decision, "Write it in Rust.", Speaker::Model, 1);
    state(&new, FactKind::Constraint, "never touch `legacy`", Speaker::Model, 2);
    let text = exported(&lived());
    let report = imported(&new, &text);
    assert!(!report.restored && report.refused.is_empty());
    assert_eq!(report.counts, counts(|counts| (counts.new, counts.confirmed, counts.disputed) = (2, 1, 1)));
    let all = facts(&new);
    let told: Vec<_> = all.iter().map(|fact| (fact.statement.text.as_str(), fact.trust, fact.confirmations)).collect();
    assert_eq!(
        told,
        [
            ("Write it in Rust.", Trust::Medium, 0),
            ("never touch `legacy`", Trust::High, 1),
            // The import includes the person's confirmation.
            ("It listens on port 6060.", Trust::High, 1),
            ("It listens on port 7070.", Trust::Low, 0),
        ]
    );
    let before = exported(&new);
    let again = imported(&new, &text);
    assert_eq!(again.counts, counts(|counts| counts.known = 3));
    assert_eq!(exported(&new), before);
}

#[test]
fn a_fact_takes_the_place_of_what_it_took_the_place_of_where_it_comes_from() {
    let old = open();
    let first = state(&old, FactKind::Finding, "The build takes long.", Speaker::Model, 1);
    let begun = exported(&old);
    let second = said(FactKind::Finding, "Linking takes long.", Speaker::Model, 2).superseding(first.parse().unwrap());
    let second = block_on(old.state(Scope::Session, second)).unwrap().id;
    let third = said(FactKind::Finding, "The linker swaps.", Speaker::Model, 3).superseding(second);
    block_on(old.state(Scope::Session, third)).unwrap();
    let new = open();
    state(&new, FactKind::Decision, "Something else stands here.", Speaker::Model, 1);
    imported(&new, &begun);
    let report = imported(&new, &exported(&old));
    assert_eq!(report.counts, counts(|counts| (counts.new, counts.superseded) = (1, 1)));
    assert_eq!(texts(&new), ["Something else stands here.", "The linker swaps."]);
}

#[test]
fn what_was_superseded_or_forgotten_since_does_not_come_back() {
    let text = exported(&lived());
    let new = open();
    imported(&new, &text);
    let gone = facts(&new).iter().find(|fact| fact.statement.kind == FactKind::Constraint).unwrap().id;
    block_on(new.forget(gone, Source::new(Speaker::Person))).unwrap();
    state(&new, FactKind::Finding, "It listens on port 8080.", Speaker::Person, 9);
    let before = texts(&new);
    assert_eq!(imported(&new, &text).counts, counts(|counts| counts.known = 3));
    assert_eq!(texts(&new), before);
}

#[test]
fn what_is_older_than_what_is_known_is_left_out() {
    let new = open();
    state(&new, FactKind::Finding, "It listens on port 8080.", Speaker::Person, 9);
    let old = open();
    state(&old, FactKind::Finding, "It listens on port 5050.", Speaker::Person, 1);
    assert_eq!(imported(&new, &exported(&old)).counts, counts(|counts| counts.outdated = 1));
    assert_eq!(texts(&new), ["It listens on port 8080."]);
}

#[test]
fn what_may_not_take_the_place_of_another_is_refused_and_the_rest_is_taken() {
    let old = open();
    let first = state(&old, FactKind::Decision, "Use TOML.", Speaker::Model, 1);
    let second = said(FactKind::Decision, "Use YAML.", Speaker::Model, 2).superseding(first.parse().unwrap());
    block_on(old.state(Scope::Session, second)).unwrap();
    state(&old, FactKind::Decision, "Indent with spaces.", Speaker::Model, 3);
    let new = open();
    state(&new, FactKind::Decision, "Use TOML.", Speaker::Person, 1);
    let report = imported(&new, &exported(&old));
    assert_eq!(report.counts, counts(|counts| counts.new = 1));
    assert_eq!(report.refused[0].line, 2);
    assert!(report.refused[0].reason.to_string().contains("high trust"), "{:?}", report.refused);
    assert_eq!(texts(&new), ["Use TOML.", "Indent with spaces."]);
}

#[test]
fn telling_what_an_import_would_come_to_writes_nothing() {
    let export = Export::read(&exported(&lived())).unwrap();
    for memory in [open(), lived()] {
        let before = exported(&memory);
        let told = block_on(import(&memory, Scope::Session, &export, Effect::DryRun)).unwrap();
        assert_eq!(exported(&memory), before);
        assert_eq!(told, block_on(import(&memory, Scope::Session, &export, Effect::Write)).unwrap());
    }
}

#[test]
fn facts_of_a_session_may_become_shared_and_lines_may_be_left_out() {
    let text: String = exported(&lived()).lines().skip(1).map(|line| format!("{line}\r\n\n")).collect();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let memory = block_on(Memory::open(store, "chat-2")).unwrap();
    let report = block_on(import(&memory, Scope::Shared, &Export::read(&text).unwrap(), Effect::Write)).unwrap();
    assert_eq!((report.restored, report.counts.new), (false, 3));
    let ids: Vec<_> = facts(&memory).iter().map(|fact| fact.id.to_string()).collect();
    assert_eq!(ids, ["s0", "s2", "s3"]);
    assert_eq!(facts(&memory)[0].statement.source.session.as_deref(), Some("chat-1"));
}

#[test]
fn a_bad_line_is_named_and_nothing_is_taken() {
    let good = exported(&lived());
    let stated = |position: u64, text: &str, more: &str| {
        format!(
            r#"{{"scope":"session","position":{position},"entry":{{"stated":{{"kind":"finding","text":"{text}","confidence":1,"source":{{"by":"model"}}{more}}}}}}}"#
        )
    };
    let long = "x".repeat(2_001);
    for (line, says) in [
        ("{".to_owned(), "line 10: not valid JSON: EOF while parsing"),
        ("secret".to_owned(), "line 10: not valid JSON: expected value"),
        ("[]".to_owned(), "line 10: not a line of a facts export: "),
        (r#"{"scope":"session","position":9}"#.to_owned(), "missing field `entry`"),
        (r#"{"scope":"secret","position":9}"#.to_owned(), "expected `session` or `shared` at column 17"),
        (r#"{"scope":"session","position":"secret"}"#.to_owned(), "expected u64 at column "),
        (stated(9, "a", r#","supersedes":["x1"]"#), "`x1` is not a fact's identifier"),
        (stated(8, "a", ""), "line 10: entry 8 comes after entry 8"),
        (stated(9, "a", "").replace("session", "shared"), "line 10: the file contains both a session's facts"),
        (stated(9, "a", r#","supersedes":["f9"]"#), "line 10: entry 9 refers to f9, which is not stated before it"),
        (stated(9, " ", ""), "line 10: the text is empty"),
        (stated(9, &long, ""), "line 10: the text has 2001 characters; at most 2000 are allowed"),
        (
            r#"{"scope":"session","position":9,"entry":{"extracted":{"from":[]}},"secret":1}"#.to_owned(),
            "unknown field",
        ),
    ] {
        let error = Export::read(&format!("{good}{line}\n{good}")).unwrap_err().to_string();
        assert!(error.contains(says), "{line}: {error}");
        assert!(error.contains("line 10: "), "{error}");
        assert!(line.contains("\"secret\":1") || !error.contains("secret"), "{error}");
    }
    assert!(Export::read("x").unwrap_err().to_string().starts_with("line 1: not valid JSON: "));
    assert_eq!(Export::read("\n \n").unwrap().scope(), None);
}

#[test]
fn entries_that_refer_to_each_other_in_every_way_come_to_an_end() {
    let line = |position: u64| {
        let ids: Vec<_> = (position.saturating_sub(32)..position).map(|at| format!("\"f{at}\"")).collect();
        format!(
            "{{\"scope\":\"session\",\"position\":{position},\"entry\":{{\"stated\":{{\"kind\":\"finding\",\"text\":\"a{position}\",\"confidence\":1,\"source\":{{\"by\":\"model\"}},\"supersedes\":[{}]}}}}}}\n",
            ids.join(",")
        )
    };
    // The first position is missing, so the log cannot be restored as it was.
    let text: String = (1..2_000).map(line).collect();
    let memory = open();
    assert_eq!(imported(&memory, &text).counts, counts(|counts| counts.new = 1));
    assert_eq!(texts(&memory), ["a1999"]);
    assert!(matches!(block_on(memory.entries(Scope::Session)).unwrap()[..], [FactEntry::Stated(_)]));
}

#[test]
fn imports_at_once_take_each_fact_once() {
    let text: String = (0..200)
        .map(|position| {
            format!(
                "{{\"scope\":\"session\",\"position\":{position},\"entry\":{{\"stated\":{{\"kind\":\"finding\",\"text\":\"Fact {position} holds.\",\"confidence\":1,\"source\":{{\"by\":\"model\"}},\"time\":7}}}}}}\n"
            )
        })
        .collect();
    let export = Export::read(&text).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let new: u64 = std::thread::scope(|scope| {
        let import_one = || {
            let memory = block_on(Memory::open(store.clone(), "chat-1")).unwrap();
            block_on(import(&memory, Scope::Session, &export, Effect::Write)).unwrap().counts.new
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(import_one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(new, 200);
    let memory = block_on(Memory::open(store, "chat-1")).unwrap();
    assert_eq!(block_on(memory.entries(Scope::Session)).unwrap().len(), 200);
}
