//! Pages contain what each call saw, load and run nothing foreign, and escape all contents.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::ops::ControlFlow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_facts::{Memory, Statement};
use lookback_inspector::{Contents, Ended, KnownFact, Requests, Story, request};
use lookback_presets::named;
use lookback_recordings::Recording;
use lookback_replay::lost::ClientCompaction;
use lookback_replay::prices::{Price, Prices};
use lookback_replay::replay::replay;
use lookback_replay::timeline::Timeline;
use lookback_session as session;
use lookback_session::Batch;
use lookback_session::Session;
use lookback_store::{LogName, MemoryStore, Store};
use lookback_wire::{
    dialect::{Dialect, Preamble},
    message::{Message, ToolCall},
};
use serde_json::Value;
use serde_json::value::RawValue;

fn price() -> &'static Price {
    Prices::builtin().find("anthropic-5m").unwrap()
}

fn name() -> LogName {
    "s".parse().unwrap()
}

fn timeline(store: &dyn Store) -> Timeline {
    block_on(Timeline::load(store, &name(), &*Settings::default().counter, price())).unwrap()
}

/// Returns a store with the example, replayed with a policy.
fn example(policy: &str) -> MemoryStore {
    let text = include_str!("../../../examples/session.jsonl");
    let recording = Recording::read(text, "session", None).unwrap().remove(0);
    let settings = Settings::default().dialect(recording.dialect).policy(named(policy).unwrap());
    let store = MemoryStore::new();
    block_on(async {
        let replay = replay(&recording, settings, price(), 0, &mut |_| ControlFlow::Continue(())).await.unwrap();
        replay.save(&store, &name()).await.unwrap();
    });
    store
}

/// Returns a store with a session of these messages, with a call before each of them.
fn store_with(messages: Vec<Message>) -> MemoryStore {
    let store = std::sync::Arc::new(MemoryStore::new());
    block_on(async {
        let settings =
            Settings::default().dialect(Dialect::OpenAiChat).policy(named("messages:max_messages=4").unwrap());
        let mut session = Session::open(store.clone(), "s", settings).await.unwrap();
        for message in messages {
            session.window().await.unwrap();
            session.push(message).await.unwrap();
        }
        drop(session);
    });
    std::sync::Arc::into_inner(store).unwrap()
}

/// Returns the JSON of a data script of the page.
fn data(page: &str, id: &str) -> Value {
    let begin = format!("<script id=\"{id}\" type=\"application/json\">");
    let from = page.find(&begin).unwrap() + begin.len();
    let end = from + page[from..].find("</script>").unwrap();
    serde_json::from_str(&page[from..end]).unwrap()
}

/// Returns the JSON of a packed script of the page.
fn packed(page: &str, id: &str) -> Value {
    let begin = format!("<script id=\"{id}\" type=\"application/octet-stream\">");
    let from = page.find(&begin).unwrap() + begin.len();
    let end = from + page[from..].find("</script>").unwrap();
    let bytes = BASE64_STANDARD.decode(&page[from..end]).unwrap();
    serde_json::from_reader(GzDecoder::new(&*bytes)).unwrap()
}

#[test]
fn a_page_has_what_became_of_each_message_at_each_call() {
    let timeline = timeline(&example("tokens:max_tokens=16000,target_tokens=8000"));
    let page = Story::new("s", &timeline, price()).to_html(Contents::Shown);
    let data = data(&page, "data");
    let rows = data["rows"].as_array().unwrap();
    assert_eq!(rows.len(), timeline.rows.len());
    assert_eq!(data["calls"].as_array().unwrap().len(), timeline.calls.len());
    for (row, told) in timeline.rows.iter().zip(rows) {
        for (state, told) in row.states.iter().zip(told.as_array().unwrap()) {
            let reason = &data["reasons"][usize::try_from(told[1].as_u64().unwrap()).unwrap()];
            assert_eq!((&told[0], &reason[0]), (&state.call.into(), &state.is_shown.into()));
            assert_eq!(reason[1], state.fate.as_str());
            assert_eq!(told[3] == -1, !state.is_shown);
        }
    }
}

#[test]
fn the_requests_of_a_page_are_those_that_were_sent_byte_for_byte() {
    let store = example("default");
    let timeline = timeline(&store);
    let requests = block_on(Requests::read(&store, &name(), &timeline)).unwrap();
    for call in [1, 38, 53, 78] {
        let position = timeline.calls[call - 1].receipt.position;
        let view = block_on(session::adapter::view_at(&store, &name(), position)).unwrap();
        let sent: Vec<_> = view.encode(timeline.dialect).unwrap().iter().map(|raw| raw.get().to_owned()).collect();
        assert_eq!(requests.get(call as u64).unwrap(), format!("[{}]", sent.join(",")));
    }
    assert!(requests.get(79).is_none());
    let page = Story::new("s", &timeline, price()).with_requests(&requests).to_html(Contents::Shown);
    assert_eq!(packed(&page, "requests"), serde_json::to_value(&requests).unwrap());
}

/// Contents of a session that would do harm if a page took them for more than text.
const HOSTILE: [&str; 7] = [
    "<script>document.title = 'taken'</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "<!--<script>",
    "\u{202e}gnp.exe\u{202c} \u{1b}[31mred\u{1b}[0m \u{0}",
    "javascript:alert(1)",
];

#[test]
fn contents_are_text_whatever_they_contain() {
    let mut messages = Vec::new();
    for (index, text) in HOSTILE.iter().enumerate() {
        let id = format!("call_{index}_{text}");
        messages.push(Message::user(*text));
        messages.push(Message::assistant_with_calls(*text, [ToolCall::new(&id, *text, *text)]));
        messages.push(Message::tool_result(&id, *text));
        messages.push(Message::assistant(*text));
    }
    let store = store_with(messages);
    let timeline = timeline(&store);
    let requests = block_on(Requests::read(&store, &name(), &timeline)).unwrap();
    let story = Story::new(HOSTILE[0], &timeline, price()).with_policy(HOSTILE[1]).with_requests(&requests);
    for page in [
        story.clone().with_alternative(HOSTILE[2], &timeline).to_html(Contents::Shown),
        story.to_html(Contents::Masked),
    ] {
        // All tags that can run or load something are the page's own.
        assert_eq!(page.matches("<script>").count(), 1, "only the page's own script");
        assert!(page.matches("<script ").count() >= 1 && !page.contains("<img src=x") && !page.contains("<svg onload"));
        assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}') && !page.contains('\u{0}'));
        assert!(!page.contains("href=\"javascript:") && !page.contains("<!--<script>"));
    }
}

#[test]
fn a_page_allows_its_own_style_and_script_and_nothing_else() {
    let page = Story::new("s", &timeline(&example("none")), price()).to_html(Contents::Shown);
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; img-src data:; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(page.matches(" style=").count() + page.matches(" onclick=").count(), 0);
}

#[test]
fn without_contents_a_page_has_sizes_and_reasons_and_no_words() {
    let store = example("default");
    let timeline = timeline(&store);
    let requests = block_on(Requests::read(&store, &name(), &timeline)).unwrap();
    let page = Story::new("s", &timeline, price()).with_requests(&requests).to_html(Contents::Masked);
    for row in &timeline.rows {
        for word in row.message.text().split_whitespace().filter(|word| word.len() > 18) {
            assert!(!page.contains(word), "{word}");
        }
        for (_, call) in row.message.tool_calls() {
            assert!(!page.contains(&call.id), "{}", call.id);
            // The page's own text contains the names of some tools.
            assert!(!page.contains(&call.name) || ["search", "shell"].contains(&&*call.name), "{}", call.name);
        }
    }
    assert!(page.contains("body tokens exceed the limit of 24,000") && page.contains("Contents are left out"));
}

#[test]
fn without_contents_a_compaction_by_the_client_has_counts_and_no_words() {
    let messages = [
        r#"{"role":"user","content":"Never push <i>to</i> main."}"#,
        r#"{"role":"assistant","content":"Then I read src/boil.rs."}"#,
        r#"{"role":"user","content":"Go on."}"#,
        r#"{"role":"assistant","content":"Done."}"#,
    ];
    let text = format!(r#"{{"id":"a","messages":[{}],"meta":{{"compactions":[2]}}}}"#, messages.join(","));
    let recording = Recording::read(&text, "a", None).unwrap().remove(0);
    let settings = Settings::default().dialect(recording.dialect).policy(named("none").unwrap());
    let store = MemoryStore::new();
    let replay = block_on(replay(&recording, settings, price(), 0, &mut |_| ControlFlow::Continue(()))).unwrap();
    let positions = replay.positions().to_vec();
    block_on(replay.save(&store, &name())).unwrap();
    let timeline = timeline(&store);
    let by_client = || ClientCompaction::in_replay(&timeline, &recording, &positions);
    let page = |contents| Story::new("s", &timeline, price()).with_client_compactions(by_client()).to_html(contents);
    let masked = page(Contents::Masked);
    assert!(masked.contains("no longer saw 1 of 1 rules of the person, 0 decisions, and 1 names and numbers."));
    assert!(!masked.contains("Never push") && !masked.contains("boil.rs"));
    let shown = page(Contents::Shown);
    assert!(shown.contains("Never push &lt;i&gt;to&lt;/i&gt; main.") && !shown.contains("Never push <i>"));
}

#[test]
fn a_session_without_calls_has_a_page() {
    for messages in [vec![], vec![Message::user("Hello.")]] {
        let page = Story::new("s", &timeline(&store_with(messages)), price()).to_html(Contents::Shown);
        assert!(page.contains("No call was made yet."));
    }
}

#[test]
fn the_other_policies_stand_beside_it() {
    let (this, other) = (timeline(&example("default")), timeline(&example("none")));
    let page = Story::new("s", &this, price())
        .with_policy("default")
        .with_alternative("none", &other)
        .to_html(Contents::Shown);
    assert!(page.contains("What another policy would have done") && page.contains("<code>none</code>"));
    let theirs = format!("${:.2}", other.total.cost);
    assert!(page.contains(&theirs), "{theirs}");
}

#[test]
fn facts_are_told_as_they_stood_at_each_call() {
    let store = std::sync::Arc::new(MemoryStore::new());
    block_on(async {
        let settings = Settings::default().dialect(Dialect::OpenAiChat);
        let mut session = Session::open(store.clone(), "s", settings).await.unwrap();
        let memory = Memory::open(store.clone(), "s").await.unwrap();
        // From 0 to 9 seconds, a call each second, and the answer half a second later.
        for second in 0..10 {
            session.append(Batch::from(Message::user("Go on.")).at(Some(second * 1_000))).await.unwrap();
            session.window().await.unwrap();
            session.append(Batch::from(Message::assistant("Done.")).at(Some(second * 1_000 + 500))).await.unwrap();
        }
        let at = |statement: Statement, second: i64| statement.time(second * 1_000 + 700);
        memory.remember(at(Statement::finding("It listens on port 5050."), -1)).await.unwrap();
        memory.remember(at(Statement::preference("Use <i>pnpm</i>."), 1)).await.unwrap();
        memory.remember(at(Statement::finding("It listens on port 6060."), 4)).await.unwrap();
        memory.remember(at(Statement::decision("Ship it."), 99)).await.unwrap();
    });
    let timeline = timeline(&*store);
    let events = block_on(async { Memory::open(store, "s").await.unwrap().events().await.unwrap() });
    let facts = KnownFact::all("s", &timeline, &events);
    let told: Vec<_> =
        facts.iter().map(|known| (&*known.fact.statement.text, known.from, known.ended.clone())).collect();
    let replaced = facts.iter().find(|known| known.fact.statement.text.contains("5050")).unwrap();
    let Some(Ended { call: 6, by: Some(by), .. }) = replaced.ended else { panic!("{told:?}") };
    assert_eq!(facts.iter().find(|known| known.fact.id == by).unwrap().from, 6);
    assert_eq!(replaced.from, 1);
    let known_at = |call| facts.iter().filter(|known| known.is_known_at(call)).count();
    assert_eq!([1, 2, 3, 6, 10, 11].map(known_at), [1, 1, 2, 2, 2, 3], "{told:?}");
    let page = Story::new("s", &timeline, price()).with_facts(facts).at(3).to_html(Contents::Shown);
    assert!(page.contains("2 of 4 were known at call 3."));
    assert!(page.contains("Use &lt;i&gt;pnpm&lt;/i&gt;.") && page.contains("after the last call"));
}

#[test]
fn a_request_has_the_names_that_its_dialect_has_for_its_members() {
    let store = std::sync::Arc::new(MemoryStore::new());
    block_on(async {
        let settings = Settings::default().dialect(Dialect::OpenAiResponses);
        let mut session = Session::open(store.clone(), "s", settings).await.unwrap();
        let system = RawValue::from_string("\"Be brief.\"".to_owned()).unwrap();
        session.set_preamble(&Preamble::default().with_system(system)).await.unwrap();
        for raw in [
            r#"{"type":"message","role":"user","content":"Hello."}"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello!"}]}"#,
        ] {
            session.window().await.unwrap();
            session.push(Dialect::OpenAiResponses.decode(raw).unwrap()).await.unwrap();
        }
    });
    let timeline = timeline(&*store);
    let view = block_on(session::adapter::view_at(&*store, &name(), timeline.calls[0].receipt.position)).unwrap();
    let request: Value = serde_json::from_str(&request(&view, timeline.dialect).unwrap()).unwrap();
    assert_eq!(request["instructions"], "Be brief.");
    assert_eq!(request["input"].as_array().unwrap().len(), 1);
    let requests = block_on(Requests::read(&*store, &name(), &timeline)).unwrap();
    let page = Story::new("s", &timeline, price()).with_requests(&requests).to_html(Contents::Shown);
    let data = data(&page, "data");
    assert_eq!((&data["list"], &data["preambles"][0][1][0][0]), (&"input".into(), &"instructions".into()));
}
