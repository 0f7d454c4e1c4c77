//! Resuming a session: the vectors of `corpus/continuity/`, over each store.

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::Origin;
use lookback_engine::view::Item;
use lookback_presets as presets;
use lookback_session::Batch;
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::{FileStore, IntoStore, MemoryStore};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, Role, ToolCall},
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    history: Vec<String>,
    turns: u64,
    task: String,
    sends: Vec<String>,
    before: u64,
    unfinished: bool,
    policy: Option<String>,
}

fn vectors() -> Vec<Vector> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/continuity/resume.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// `u:words`, `a:words`, `s:words`, `n:words` of a note, `a*c1+c2` of calls, `t#c1:words` of a result.
fn message(short: &str) -> (Message, Origin) {
    let (head, words) = short.split_once(':').unwrap_or((short, ""));
    let message = match head {
        "u" | "n" => Message::user(words),
        "a" => Message::assistant(words),
        "s" => Message::system(words),
        _ => match (head.strip_prefix("a*"), head.strip_prefix("t#")) {
            (Some(calls), _) => {
                Message::assistant_with_calls("", calls.split('+').map(|id| ToolCall::new(id, "look", "{}")))
            }
            (_, Some(id)) => Message::tool_result(id, words),
            _ => panic!("{short}"),
        },
    };
    (message, if head == "n" { Origin::Lookback } else { Origin::Client })
}

fn short(item: &Item) -> String {
    let message = item.message();
    let calls: Vec<_> = message.tool_calls().map(|(_, call)| call.id.clone()).collect();
    if let Some((_, result)) = message.tool_results().next() {
        let text = if item.is_own() { "?".to_owned() } else { message.text() };
        return format!("t#{}:{text}", result.call_id);
    }
    match message.role() {
        Role::Assistant if !calls.is_empty() => format!("a*{}", calls.join("+")),
        Role::Assistant => format!("a:{}", message.text()),
        Role::System => format!("s:{}", message.text()),
        Role::User if item.is_note() => format!("n:{}", message.text()),
        Role::User => format!("u:{}", message.text()),
    }
}

fn resumes(dialect: Dialect, store: impl IntoStore + Clone) {
    // In the other dialects, the system prompt is sent outside the messages, and a window begins with a user message.
    let fits = |vector: &Vector| vector.policy.is_none() && vector.history.iter().all(|entry| !entry.starts_with("s:"));
    let vectors = vectors().into_iter().filter(|vector| dialect == Dialect::OpenAiChat || fits(vector));
    for (number, vector) in vectors.enumerate() {
        let policy = vector.policy.as_deref().map_or_else(Policy::default, |policy| presets::named(policy).unwrap());
        let settings = Settings::default().dialect(dialect).policy(policy);
        let name = format!("{dialect:?}/{number}");
        block_on(async {
            let mut before = Session::open(store.clone(), &name, settings.clone()).await.unwrap();
            for entry in &vector.history {
                let (message, origin) = message(entry);
                before.append(Batch::from(message).origin(origin).at(None)).await.unwrap();
            }
            if vector.policy.is_some() {
                before.window().await.unwrap();
            }
            drop(before);
            let mut session = Session::open(store.clone(), &name, settings).await.unwrap();
            let resumed = session.resume(Message::user(&vector.task), vector.turns).await.unwrap();
            assert_eq!((resumed.turns, resumed.unfinished), (vector.before, vector.unfinished), "{}", vector.name);
            let window = session.window().await.unwrap();
            let sent: Vec<String> = window.view().messages().map(short).collect();
            assert_eq!(sent, vector.sends, "{}", vector.name);
            let look = dialect.tool("look", "Looks.", &serde_json::json!({"type": "object"}));
            let tools = match dialect {
                Dialect::Bedrock => format!(r#","toolConfig":{{"tools":[{look}]}}"#),
                _ => format!(r#","tools":[{look}]"#),
            };
            let body = format!(r#"{{"messages":{}{tools}}}"#, window.to_json().unwrap());
            let request = lookback_wire::dialect::Request::decode(body, Some(dialect)).unwrap();
            let findings = dialect.check(&request);
            assert!(findings.is_empty(), "{}: {findings:?}", vector.name);
            // The whole history can still be read.
            let history = session.history().await.unwrap();
            let kept = vector.history.iter().filter(|entry| !entry.starts_with("n:")).count();
            assert!(vector.turns == 0 || history.len() >= kept, "{}", vector.name);
        });
    }
}

#[test]
fn a_session_goes_on_with_its_last_turns_and_its_task_once() {
    for dialect in Dialect::ALL {
        resumes(dialect, std::sync::Arc::new(MemoryStore::new()));
    }
}

#[test]
fn what_leaves_a_session_with_a_running_summary_is_summarized() {
    block_on(async {
        let policy = presets::named("rolling-summary:window_size=200").unwrap();
        let settings = Settings::default().policy(policy.clone());
        let mut session = Session::open(MemoryStore::new(), "s", settings).await.unwrap();
        for number in 1..=8 {
            session.push(Message::user(format!("The port of service {number} is 505{number}."))).await.unwrap();
            session.push(Message::assistant("Noted.")).await.unwrap();
        }
        session.resume(Message::user("Which ports are there?"), 2).await.unwrap();
        session.wait_for_summary().await.unwrap();
        let window = session.window().await.unwrap();
        let sent: Vec<String> = window.view().messages().map(|item| item.message().text()).collect();
        assert!(sent[0].contains("505") && window.view().summary().is_some(), "{sent:?}");
        assert_eq!(sent.len(), 1 + 2 * 2 + 1, "{sent:?}");
        assert_eq!(session.settings().policy, policy);
    });
}

#[test]
fn a_session_in_a_file_goes_on_with_its_last_turns_and_its_task_once() {
    let folder = tempfile::tempdir().unwrap();
    resumes(Dialect::OpenAiChat, std::sync::Arc::new(SqliteStore::open(folder.path().join("store.db")).unwrap()));
    resumes(Dialect::Anthropic, std::sync::Arc::new(FileStore::open(folder.path().join("files")).unwrap()));
}
