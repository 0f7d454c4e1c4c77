//! The agent of `examples/agent.rs` as a process, with an endpoint that checks each request against the provider's
//! rules.

#![cfg(all(unix, feature = "http", feature = "sqlite"))]

mod upstream;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::example::example;
use futures_lite::future::block_on;
use lookback_engine::{Settings, transcript::Entry};
use lookback_session::Session;
use lookback_store::LogName;
use lookback_store::{Append, Record};
use lookback_wire::dialect::{Dialect, Request};
use serde_json::{Value, json};
use tempfile::TempDir;
use upstream::{Options, Reply, Seen, Upstream};

const TASK: &str = "What is this about?";

/// A folder with files, a store next to it, and files that must not be read.
struct Place {
    folder: TempDir,
    upstream: Upstream,
    /// The store's path in the folder.
    store: &'static str,
}

impl Place {
    fn new(options: Options, script: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("notes.txt"), "buy milk\n").unwrap();
        fs::write(root.join("sub/plan.txt"), "first\nthe whale sings\n").unwrap();
        fs::write(folder.path().join("secret.txt"), "top secret whale").unwrap();
        symlink(folder.path().join("secret.txt"), root.join("leak.txt")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        for number in 0..8 {
            fs::write(root.join(format!("long{number}.txt")), format!("{number} lines go on\n").repeat(350)).unwrap();
        }
        Place { folder, upstream: Upstream::new(options, script), store: "store.db" }
    }

    fn command(&self, session: &str, more: &[&str]) -> Command {
        let mut command = self.bare(more);
        command.args(["--session-id", session, "--store"]).arg(self.store());
        command
    }

    /// The agent's command line, without a session and a store.
    fn bare(&self, more: &[&str]) -> Command {
        let dialect = self.upstream.options.dialect;
        let provider = if dialect == Dialect::Anthropic { "ANTHROPIC" } else { "OPENAI" };
        let mut command = Command::new(example("agent"));
        command.args(["--dialect", dialect.name()]);
        command.arg("--root").arg(self.folder.path().join("root")).args(more).env_clear();
        command.env(format!("{provider}_BASE_URL"), &self.upstream.base);
        command.env(format!("{provider}_API_KEY"), "secret").env(format!("{provider}_MODEL"), "model-1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command("s", more).output().unwrap()
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join(self.store)
    }

    /// Returns the requests, after checking that each extends the one before, unless a compaction came between, and
    /// that the session can continue.
    fn audited(&self) -> Vec<Seen> {
        let seen = self.upstream.seen();
        let dialect = self.upstream.options.dialect;
        let breaks = seen.windows(2).filter(|pair| {
            let (before, after) = (pieces(&pair[0].body), pieces(&pair[1].body));
            assert_eq!(pair[0].body["tools"], pair[1].body["tools"]);
            !after.starts_with(&before)
        });
        let breaks = breaks.count();
        let store = lookback_location::open(self.store()).unwrap();
        block_on(async {
            let name = "s".parse().unwrap();
            let end = store.head(&name, None).await.unwrap().unwrap().end;
            let records = store.read(&name, 0..end).await.unwrap();
            let entries = records.iter().map(|record| serde_json::from_str::<Entry>(record).unwrap());
            let compactions = entries.filter(|entry| matches!(entry, Entry::Compaction(_))).count();
            assert!(breaks <= compactions, "{dialect}: {breaks} broken prefixes, {compactions} compactions");
            let mut session = Session::open(store, "s", Settings::default().dialect(dialect)).await.unwrap();
            let window = session.window().await.unwrap().to_json().unwrap();
            let request = Request::decode(window, Some(dialect)).unwrap();
            assert!(dialect.check(&request).is_empty(), "{dialect}");
        });
        seen
    }
}

/// The pieces of text, calls and results that the model reads, regardless of how messages group them.
fn pieces(body: &Value) -> Vec<Value> {
    let mut pieces = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        match &message["content"] {
            Value::Array(blocks) => pieces.extend(blocks.iter().map(|block| json!([message["role"], block]))),
            Value::String(text) if message["role"] != "tool" => {
                pieces.push(json!([message["role"], {"type": "text", "text": text}]));
            }
            _ => pieces.push(message.clone()),
        }
    }
    pieces
}

/// The texts of the user and of Lookback.
fn user_texts(body: &Value) -> Vec<String> {
    let text = |piece: &Value| Some(piece.get(1)?["text"].as_str()?.to_owned()).filter(|_| piece[0] == "user");
    pieces(body).iter().filter_map(text).collect()
}

/// The results of tools.
fn results(body: &Value) -> Vec<String> {
    let result = |piece: &Value| {
        let openai = Some(&piece["content"]).filter(|_| piece["role"] == "tool");
        let anthropic = piece.get(1).filter(|block| block["type"] == "tool_result").map(|block| &block["content"]);
        openai.or(anthropic).map(|content| content.as_str().map_or_else(|| content.to_string(), str::to_owned))
    };
    pieces(body).iter().filter_map(result).collect()
}

fn is_last(seen: &Seen) -> bool {
    seen.body["tool_choice"] == "none" || seen.body["tool_choice"]["type"] == "none"
}

fn says(seen: &Seen, words: &str) -> bool {
    user_texts(&seen.body).iter().any(|text| text.contains(words))
}

fn call(name: &'static str, arguments: Value) -> Reply {
    Reply::Call(vec![(name, arguments)])
}

fn in_both(test: impl Fn(Options)) {
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic] {
        test(Options { dialect, limit: None, numbers: true, usage: None });
    }
}

/// The standard output and the standard error of an agent that succeeded.
fn done(output: &Output) -> (String, String) {
    let (out, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    (out.into_owned(), told.into_owned())
}

fn failed(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{told}");
    told
}

#[test]
fn files_are_read_and_facts_remembered_and_no_path_leaves_the_folder() {
    in_both(|options| {
        let place = Place::new(options, |number, _| match number {
            0 => Reply::Call(vec![
                ("list", json!({"path": "."})),
                ("read", json!({"path": "notes.txt"})),
                ("search", json!({"text": "whale"})),
            ]),
            1 => Reply::Call(vec![
                ("read", json!({"path": "../secret.txt"})),
                ("read", json!({"path": "leak.txt"})),
                ("list", json!({"path": "up"})),
                ("read", json!({"path": "up/secret.txt"})),
                ("read", json!({"path": "/etc/hostname"})),
                ("memory_finding", json!({"content": "The whale is in sub/plan.txt.", "confidence": 0.9})),
                ("fly", json!({})),
                ("read", json!({"path": 5})),
            ]),
            _ => Reply::Say("It is about milk."),
        });
        let (out, told) = done(&place.run(&[TASK]));
        assert_eq!(out, "It is about milk.\n");
        assert!(told.contains(r#"read {"path":"notes.txt"}"#) && told.ends_with("the model answered\n"), "{told}");
        let seen = place.audited();
        assert_eq!(seen.len(), 3);
        let first = results(&seen[1].body);
        assert!(first[0].contains("notes.txt\nsub"), "{first:?}");
        assert_eq!(first[1..], ["buy milk\n", "sub/plan.txt:0002: the whale sings"]);
        let second = results(&seen[2].body)[3..].to_vec();
        assert!(second[..5].iter().all(|text| text == "the folder has no such path"), "{second:?}");
        assert_eq!(second[5..], ["f0 is remembered.", "there is no tool `fly`", "`path` must be a text"]);
        assert!(seen.iter().all(|seen| !seen.body.to_string().contains("top secret")));
    });
}

#[test]
fn a_budget_is_told_of_at_four_fifths_and_ends_in_a_last_answer() {
    in_both(|options| {
        let place = Place::new(Options { usage: Some(290), ..options }, |number, body| {
            let last = body["tool_choice"] == "none" || body["tool_choice"]["type"] == "none";
            if last { Reply::Say("That is all.") } else { call("read", json!({"path": format!("long{number}.txt")})) }
        });
        let (out, told) = done(&place.run(&["--budget", "1000", TASK]));
        assert_eq!(out, "That is all.\n");
        assert!(told.contains("the model gave its last answer: 1200 of 1000 tokens are used"), "{told}");
        let seen = place.audited();
        assert_eq!(seen.iter().map(is_last).collect::<Vec<_>>(), [false, false, false, false, true]);
        assert!(!says(&seen[2], "Token budget") && says(&seen[3], "Token budget: 900 of 1000 tokens are used (90 %)"));
        assert!(says(&seen[4], "tokens are used up"));
    });
}

#[test]
fn a_model_that_goes_round_in_circles_is_told_so_and_made_to_answer() {
    in_both(|options| {
        let place = Place::new(options, |_, body| {
            let last = body["tool_choice"] == "none" || body["tool_choice"]["type"] == "none";
            if last { Reply::Say("I do not know.") } else { call("list", json!({"path": "sub"})) }
        });
        let (out, told) = done(&place.run(&[TASK]));
        assert_eq!(out, "I do not know.\n");
        assert!(told.contains("last answer: 8 iterations brought nothing new"), "{told}");
        let seen = place.audited();
        let first = |words| seen.iter().position(|seen| says(seen, words));
        assert_eq!(first("The same call was made 3 times in a row"), Some(3));
        assert_eq!(first("The last 4 iterations brought nothing new"), Some(5));
        assert_eq!(first("Still nothing new after 6 iterations"), Some(7));
        assert_eq!(seen.iter().position(is_last), Some(9));
        assert_eq!(seen.len(), 10);
    });
}

#[test]
fn the_last_iteration_has_no_tools() {
    in_both(|options| {
        // If the model calls tools anyway, they are not run.
        let place = Place::new(options, |number, _| call("read", json!({"path": format!("long{number}.txt")})));
        let told = failed(&place.run(&["--iterations", "3", TASK]));
        let end = "agent: the model called tools instead of giving its last answer: all 3 iterations are done\n";
        assert!(told.ends_with(end), "{told}");
        let seen = place.audited();
        assert_eq!(seen.iter().map(is_last).collect::<Vec<_>>(), [false, false, true]);
    });
}

#[test]
fn the_agent_and_the_command_line_use_one_store_where_none_is_named() {
    in_both(|options| {
        let place = Place::new(options, |_, _| Reply::Say("Here."));
        let work = place.folder.path();
        let mut command = place.bare(&["--session-id=s", TASK]);
        done(&command.current_dir(work).output().unwrap());
        assert!(work.join(".lookback/lookback.db").exists());
        let mut command = place.bare(&["--session-id=s", TASK]);
        done(&command.current_dir(work).env("LOOKBACK_STORE", "new/named.db").output().unwrap());
        assert!(work.join("new/named.db").exists());
        let mut command = place.bare(&["--session-id=s", TASK]);
        done(&command.current_dir(work).env("LOOKBACK_STORE", "").output().unwrap());
        // The third run continues the session of the first, which has an answer. The other store was empty.
        assert_eq!(place.upstream.seen().iter().map(|seen| occurrences(seen, TASK)).collect::<Vec<_>>(), [1, 1, 2]);
    });
}

#[test]
fn without_a_session_nothing_is_continued() {
    in_both(|options| {
        let place = Place::new(options, |_, _| Reply::Say("Here."));
        let store = place.store().display().to_string();
        let names = [0, 1].map(|_| {
            let (_, told) = done(&place.bare(&["--store", &store, TASK]).output().unwrap());
            told.lines().find_map(|line| line.strip_prefix("the session is ")).unwrap().to_owned()
        });
        assert_ne!(names[0], names[1]);
        assert_eq!(place.upstream.seen().iter().map(|seen| occurrences(seen, TASK)).collect::<Vec<_>>(), [1, 1]);
        // The name that was printed continues that session.
        done(&place.command(&names[0], &[TASK]).output().unwrap());
        assert_eq!(occurrences(&place.upstream.seen()[2], TASK), 2);
    });
}

#[test]
fn a_session_without_a_task_goes_on_where_it_was_left_and_then_chats() {
    in_both(|options| {
        let place = Place::new(options, |number, _| match number {
            0 => call("read", json!({"path": "notes.txt"})),
            1 => Reply::Status(500, "busy"),
            2 => Reply::Say("It is about milk."),
            _ => Reply::Say("As I said."),
        });
        failed(&place.run(&[TASK]));
        let mut child = place.command("s", &[]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"And now?\nSure?\n").unwrap();
        let (out, _) = done(&child.wait_with_output().unwrap());
        assert_eq!(out, "It is about milk.\nAs I said.\nAs I said.\n");
        let seen = place.audited();
        assert_eq!((seen.len(), results(&seen[2].body)), (5, vec!["buy milk\n".to_owned()]));
        assert_eq!(seen.iter().map(|seen| occurrences(seen, TASK)).collect::<Vec<_>>(), [1; 5]);
        assert_eq!((occurrences(&seen[4], "And now?"), occurrences(&seen[4], "Sure?")), (1, 1));
        // If it was left with an answer and nothing is typed, no request is sent.
        done(&place.run(&[]));
        assert_eq!(place.audited().len(), 5);
    });
}

#[test]
fn what_a_run_was_told_of_its_end_is_not_told_to_the_next() {
    in_both(|options| {
        let place = Place::new(options, |_, body| {
            let last = body["tool_choice"] == "none" || body["tool_choice"]["type"] == "none";
            if last { Reply::Say("That is all.") } else { call("list", json!({"path": "sub"})) }
        });
        done(&place.run(&["--iterations", "2", TASK]));
        done(&place.run(&["--iterations", "3", "And now?"]));
        let seen = place.audited();
        assert_eq!(seen.iter().map(is_last).collect::<Vec<_>>(), [false, true, false, false, true]);
        assert!(says(&seen[1], "This is the last of 2 iterations"));
        assert!(seen[2..].iter().all(|seen| !says(seen, "This is the last of 2 iterations")));
        assert!(says(&seen[4], "This is the last of 3 iterations"));
    });
}

#[test]
fn an_agent_whose_memory_is_damaged_goes_on_and_says_so() {
    in_both(|options| {
        let place = Place::new(options, |number, _| match number {
            0 => call("memory_get", json!({})),
            _ => Reply::Say("Here."),
        });
        let store = lookback_location::open(place.store()).unwrap();
        let facts = "s".parse::<LogName>().unwrap().facts_of();
        let damaged = Record::new("{");
        block_on(store.append(&facts, Append::new(0, [damaged]))).unwrap();
        drop(store);
        let (out, told) = done(&place.run(&[TASK]));
        assert_eq!(out, "Here.\n");
        assert!(
            told.contains("middleware `fact_sheet` failed at `before_iteration`") && told.contains("entry 0 of"),
            "{told}"
        );
        let seen = place.audited();
        assert!(says(&seen[0], "memory is not available now: "));
        assert!(results(&seen[1].body)[0].starts_with("memory is not available now; "), "{:?}", seen[1].body);
    });
}

#[test]
fn a_request_that_is_refused_as_too_long_is_made_smaller_until_it_fits() {
    in_both(|options| {
        let first = Place::new(options, |_, _| Reply::Say("Done."));
        done(&first.run(&[TASK]));
        let least = first.upstream.seen()[0].bytes as u64 / 4;
        for numbers in [true, false] {
            let options = Options { limit: Some(least + 5_000), numbers, ..options };
            let place = Place::new(options, |number, _| match number {
                0..8 => call("read", json!({"path": format!("long{number}.txt")})),
                _ => Reply::Say("Done."),
            });
            let (out, told) = done(&place.run(&[TASK]));
            assert_eq!(out, "Done.\n");
            assert!(told.contains("the request is too long"), "{told}");
            let seen = place.audited();
            assert!(seen.iter().any(|seen| seen.refused));
            for pair in seen.windows(2).filter(|pair| pair[0].refused) {
                assert!(pair[1].bytes < pair[0].bytes);
            }
            assert!(seen.iter().all(|seen| occurrences(seen, TASK) == 1));
        }
    });
}

fn occurrences(seen: &Seen, task: &str) -> usize {
    user_texts(&seen.body).iter().filter(|text| *text == task).count()
}

#[test]
fn an_endpoint_that_refuses_whatever_is_sent_is_asked_a_few_times_only() {
    in_both(|options| {
        let place = Place::new(Options { numbers: false, ..options }, |number, _| match number {
            0..4 => call("read", json!({"path": format!("long{number}.txt")})),
            4..40 => Reply::Refuse,
            _ => Reply::Say("Done."),
        });
        let told = failed(&place.run(&[TASK]));
        assert!(told.contains("agent: the window cannot be made smaller"), "{told}");
        let seen = place.audited();
        let refused = &seen[4..];
        assert!((2..=10).contains(&refused.len()), "{}", refused.len());
        assert!(refused.windows(2).all(|pair| pair[1].bytes < pair[0].bytes));
        assert!(refused.iter().all(|seen| occurrences(seen, TASK) == 1));
    });
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    in_both(|options| {
        for store in ["store.db", "files/"] {
            let place = Place::new(options, |number, _| match number {
                0 => Reply::Call(vec![
                    ("read", json!({"path": "notes.txt"})),
                    ("memory_preference", json!({"content": "Answer in one line."})),
                ]),
                1 => call("search", json!({"text": "whale"})),
                2 => Reply::Hold,
                3 => Reply::Say("It is about milk."),
                _ => Reply::Say("As I said."),
            });
            let place = Place { store, ..place };
            let mut child = place.command("s", &[TASK]).spawn().unwrap();
            place.upstream.held.recv_timeout(Duration::from_secs(60)).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(done(&place.run(&[TASK])).0, "It is about milk.\n");
            let seen = place.audited();
            assert_eq!((seen.len(), occurrences(&seen[3], TASK)), (4, 1));
            assert_eq!(results(&seen[3].body), results(&seen[2].body));
            assert_eq!(results(&seen[3].body)[0], "buy milk\n");

            // A new task and the fact sheet come after all of that. In another session, there is only the sheet.
            done(&place.run(&["And now?"]));
            let seen = place.audited();
            let (told, body) = (user_texts(&seen[4].body), seen[4].body.to_string());
            let at = |text: &str| told.iter().position(|said| said == text).unwrap();
            assert!(at(TASK) < at("And now?") && body.contains("It is about milk."), "{told:?}");
            assert_eq!(occurrences(&seen[4], TASK), 1);
            assert!(says(&seen[4], "Answer in one line."), "{told:?}");
            done(&place.command("other", &["Hello?"]).output().unwrap());
            let other = place.upstream.seen().pop().unwrap();
            assert!(says(&other, "Answer in one line.") && occurrences(&other, TASK) == 0);
        }
    });
}

#[test]
fn a_run_that_was_killed_before_the_first_answer_has_its_task_once() {
    in_both(|options| {
        let place = Place::new(options, |number, _| if number == 0 { Reply::Hold } else { Reply::Say("Here.") });
        let mut child = place.command("s", &[TASK]).spawn().unwrap();
        place.upstream.held.recv_timeout(Duration::from_secs(60)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(done(&place.run(&[TASK])).0, "Here.\n");
        let seen = place.audited();
        assert_eq!((seen.len(), occurrences(&seen[1], TASK)), (2, 1));
    });
}

#[test]
fn a_run_that_was_killed_amid_its_tools_keeps_the_results_that_it_has() {
    in_both(|options| {
        let place = Place::new(options, |number, _| match number {
            0 => Reply::Call(vec![("read", json!({"path": "notes.txt"})), ("read", json!({"path": "pipe"}))]),
            _ => Reply::Say("Here."),
        });
        // Reading a pipe blocks until another process writes to it.
        let pipe = place.folder.path().join("root/pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut child = place.command("s", &[TASK]).spawn().unwrap();
        let told = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(told.map_while(Result::ok).any(|line| line.contains("pipe")));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(done(&place.run(&[TASK])).0, "Here.\n");
        let seen = place.audited();
        let results = results(&seen[1].body);
        assert_eq!((seen.len(), results[0].as_str(), occurrences(&seen[1], TASK)), (2, "buy milk\n", 1));
        assert!(results[1].contains("interrupted"), "{results:?}");
    });
}

#[test]
fn an_endpoint_that_fails_ends_the_run_with_a_word_and_the_same_task_goes_on_later() {
    let faults = [
        ((500, r#"{"error":{"message":"overloaded"}}"#), "the provider answers with status 500: {"),
        ((0, ""), "cannot reach the provider: "),
        ((200, "<html>busy</html>"), "cannot read the model's answer: not valid JSON"),
        ((200, "{}"), "cannot read the model's answer: `"),
    ];
    in_both(|options| {
        for ((status, body), words) in faults {
            let place = Place::new(options, move |number, _| match number {
                0 => call("read", json!({"path": "notes.txt"})),
                1 if status == 0 => Reply::Close,
                1 => Reply::Status(status, body),
                _ => Reply::Say("It is about milk."),
            });
            let told = failed(&place.run(&[TASK]));
            assert!(told.contains(&format!("agent: {words}")), "{told}");
            place.audited();
            assert_eq!(done(&place.run(&[TASK])).0, "It is about milk.\n");
            let seen = place.audited();
            assert_eq!((seen.len(), occurrences(&seen[2], TASK)), (3, 1));
            assert_eq!(results(&seen[2].body), ["buy milk\n"]);
        }
    });
}

#[test]
fn a_wrong_call_of_the_agent_is_told_what_is_wrong() {
    in_both(|options| {
        let place = Place::new(options, |_, _| Reply::Say("Hello."));
        let says = |more: &[&str], words: &str| {
            let told = failed(&place.run(more));
            assert!(told.contains(words), "{told}");
        };
        says(&["--budget", "much", TASK], "--budget much: invalid digit");
        says(&["--budget="], "--budget : cannot parse");
        says(&["--buget", "5", TASK], "the task in quotes");
        says(&["--buget=5"], "the task in quotes");
        let told = failed(&place.bare(&[TASK, "--budget"]).output().unwrap());
        assert!(told.contains("--budget needs a value"), "{told}");
        let told = failed(&place.command("s", &[TASK]).env_clear().output().unwrap());
        assert!(told.contains("_API_KEY is not set"), "{told}");
        assert!(place.upstream.seen().is_empty());
    });
}
