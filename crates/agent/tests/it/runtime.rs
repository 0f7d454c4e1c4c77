//! Summaries, facts and middleware with clients that need a tokio runtime, and the errors if there is none.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_agent::{FactSheet, Pipeline};
use lookback_compat::crux::SlidingWindow;
use lookback_engine::Settings;
use lookback_facts::Memory;
use lookback_presets as presets;
use lookback_session::Session;
use lookback_session::SummaryOptions;
use lookback_session::{CompactionOutcome, Hooks};
use lookback_store::MemoryStore;
use lookback_summarize::{Function, SummarizeOptions, Summarizer, summarize};
use lookback_wire::message::{Message, ToolCall};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

const FACTS: &str = r#"{"facts":[{"kind":"finding","text":"It is blank.","confidence":0.9,"message":2}]}"#;

/// Starts an endpoint that gives every client the same answer, after it has read from the client.
fn endpoint(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_to_string(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

/// Asks an endpoint after a pause. Both need tokio's runtime.
async fn ask(address: SocketAddr, text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A summarizer whose client runs on tokio.
fn client(answer: &'static str) -> impl Summarizer + 'static {
    let address = endpoint(answer);
    Function::new("small-model", move |task| async move { ask(address, &task.prompt).await })
}

/// Runs a test in a multi-threaded runtime, and in one with only the caller's thread.
fn in_each_runtime<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for mut builder in [Builder::new_multi_thread(), Builder::new_current_thread()] {
        builder.enable_all().build().unwrap().block_on(test());
    }
}

/// A session that keeps four messages and a summary of the others.
async fn session() -> Session {
    let policy = presets::named("rolling-summary:window_size=4").unwrap();
    Session::open(MemoryStore::new(), "chat", Settings::default().policy(policy)).await.unwrap()
}

/// Returns a session's summary of a conversation with twelve messages.
async fn summary_of(mut session: Session) -> Option<String> {
    let messages = (0..12).map(|number| Message::user(format!("Message {number} says more than nothing.")));
    session.append(messages.collect::<Vec<_>>()).await.unwrap();
    session.window().await.unwrap();
    session.wait_for_summary().await.unwrap();
    session.view().summary().map(|summary| summary.text.clone())
}

/// Returns the number of facts that a fact sheet extracts in a run of eight rounds.
async fn facts_extracted(sheet: impl FnOnce(FactSheet) -> FactSheet) -> usize {
    let store = Arc::new(MemoryStore::new());
    let memory = Memory::open(store.clone(), "run").await.unwrap();
    let policy = presets::named("rounds:max_rounds=5,target_rounds=2").unwrap();
    let session = Session::open(store, "run", Settings::default().policy(policy)).await.unwrap();
    let mut run = Pipeline::new(session).with(sheet(FactSheet::new(memory.clone())));
    run.start(Message::user("Read all pages.")).await.unwrap();
    for number in 1..=8 {
        run.next().await.unwrap().unwrap();
        let call = ToolCall::new(format!("c{number}"), "read", format!(r#"{{"page":{number}}}"#));
        for tool in run.answered(Message::assistant_with_calls("", [call]), None).await.unwrap() {
            run.tool(&tool, |_| async { Ok::<_, String>("A page.") }).await.unwrap();
        }
    }
    run.stop("enough").await.unwrap();
    assert_eq!(run.failures().count(), 0);
    memory.facts().await.unwrap().len()
}

#[test]
fn a_summarizer_that_runs_on_tokio_is_spawned_by_tokio() {
    in_each_runtime(|| async {
        let session =
            session().await.with_summarizer(SummaryOptions::new(client("They counted.")).spawner(tokio::spawn));
        assert_eq!(summary_of(session).await.as_deref(), Some("They counted."));
    });
}

#[test]
fn a_summarizer_of_a_crux_window_is_spawned_by_tokio() {
    in_each_runtime(|| async {
        let builder = SlidingWindow::builder(4, client("They counted.")).spawner(tokio::spawn);
        let window = builder.open().await.unwrap();
        for number in 0..12 {
            window.push(Message::user(format!("Message {number} says more than nothing."))).await.unwrap();
        }
        let messages = window.get_messages().await.unwrap();
        assert!(messages[0].text().contains("They counted."), "{}", messages[0].text());
    });
}

#[test]
fn facts_are_extracted_by_a_summarizer_that_is_spawned_by_tokio() {
    in_each_runtime(|| async {
        let extraction =
            |sheet: FactSheet| sheet.with_extraction(client(FACTS), Duration::from_secs(60)).with_spawner(tokio::spawn);
        assert!(facts_extracted(extraction).await > 0);
    });
}

#[cfg(feature = "tokio")]
#[test]
fn with_the_feature_nobody_has_to_name_a_spawner() {
    in_each_runtime(|| async {
        let session = session().await.with_summarizer(client("They counted."));
        assert_eq!(summary_of(session).await.as_deref(), Some("They counted."));
        let extraction = |sheet: FactSheet| sheet.with_extraction(client(FACTS), Duration::from_secs(60));
        assert!(facts_extracted(extraction).await > 0);
    });
}

#[cfg(feature = "tokio")]
#[test]
fn with_the_feature_middleware_finds_the_runtime_of_its_caller() {
    use lookback_agent::{Event, Failure, Middleware, Reaction, Run};

    struct Weather(SocketAddr);

    impl Middleware for Weather {
        fn name(&self) -> &str {
            "weather"
        }

        fn on(&mut self, event: &Event, _run: &Run) -> Result<Reaction, Failure> {
            if !matches!(event, Event::BeforeModel) {
                return Ok(Reaction::none());
            }
            let text = tokio::runtime::Handle::current().block_on(ask(self.0, "What is it like outside?"))?;
            Ok(Reaction::none().note(text))
        }
    }

    in_each_runtime(|| async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Weather(endpoint("It rains.")));
        run.start(Message::user("What shall I wear?")).await.unwrap();
        let call = run.next().await.unwrap().unwrap();
        assert!(call.to_json().unwrap().contains("It rains."));
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn a_summarizer_without_the_runtime_that_it_needs_is_told_of_and_not_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let model = Function::new("small-model", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok("They counted.".to_owned())
        }
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let hooks = Hooks::default().on_compact_end(move |end| {
        if let CompactionOutcome::Failed { reason } = &end.outcome {
            heard.lock().unwrap().push(reason.to_string());
        }
    });
    block_on(async {
        let mut session = session().await.with_summarizer(model).with_hooks(hooks);
        let messages = (0..12).map(|number| Message::user(format!("Message {number} says more than nothing.")));
        session.append(messages.collect::<Vec<_>>()).await.unwrap();
        for number in 0..5 {
            session.push(Message::user(format!("One more: {number}."))).await.unwrap();
            session.window().await.unwrap();
            session.wait_for_summary().await.unwrap();
        }
        assert_eq!(session.window().await.unwrap().view().messages().count(), 17, "nothing was lost");
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 1);
    assert!(told.iter().all(|reason| reason.contains("`tokio::spawn` to `SummaryOptions::spawner`")), "{told:?}");
}

#[test]
fn a_summary_of_a_list_says_that_a_runtime_is_missing_too() {
    let model = client("They counted.");
    let failed = block_on(summarize(&[Message::user("One, two.")], &model, &SummarizeOptions::default())).unwrap_err();
    assert!(failed.to_string().starts_with("small-model needs a tokio runtime"), "{failed}");
}

#[test]
fn facts_are_not_extracted_without_the_runtime_and_the_run_goes_on() {
    block_on(async {
        let extraction = |sheet: FactSheet| sheet.with_extraction(client(FACTS), Duration::from_secs(60));
        assert_eq!(facts_extracted(extraction).await, 0);
    });
}
