//! Tests of `lookback serve`: its configuration, reloading it, and stopping.

#![cfg(feature = "server")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::common::{LOOKBACK, Lab};

/// An upper bound for every wait here, even on a slow machine.
const LONGEST: Duration = Duration::from_secs(120);

/// A running gateway, which stops when this is dropped.
struct Serving {
    child: Child,
    address: String,
    told: Receiver<String>,
}

impl Serving {
    fn new(lab: &Lab, args: &[&str]) -> Serving {
        Serving::begin(lab.command(LOOKBACK), args)
    }

    fn begin(mut command: Command, args: &[&str]) -> Serving {
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let (send, told) = channel();
        std::thread::spawn(move || lines.for_each(|line| drop(send.send(line))));
        let first = told.recv_timeout(LONGEST).unwrap();
        let address = first.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{first}")).to_owned();
        Serving { child, address, told }
    }

    /// Returns the head and the body of an answer.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn next_line(&self) -> String {
        self.told.recv_timeout(LONGEST).unwrap()
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_policy_is_explained_for_a_model_in_tokens_and_with_reasons() {
    let lab = Lab::new().with("mine.toml", "policy = \"frugal\"\n");
    assert_snapshot!(lab.all(&[
        &["serve", "--explain-policy", "claude-sonnet-4-5"],
        &["serve", "--explain-policy", "my-model"],
        &["serve", "--explain-policy", "deepseek-chat", "--config", "mine.toml"],
        &["serve", "--explain-policy", "gpt-5", "--policy", "none"],
        &["serve", "--explain-policy", "gpt-5", "--policy", "two-tier", "--add", "summaries"],
        &["serve", "--explain-policy", "gpt-5", "--policy", "default:prices=gpt-4o", "--shadow"],
    ]));
}

#[test]
fn a_mistake_in_the_configuration_is_told_with_its_line() {
    let lab = Lab::new()
        .with("unknown.toml", "listen = \"127.0.0.1:1\"\nport = 1\n")
        .with("empty.toml", "")
        .with("open.toml", "[[upstream]]\nurl = \"https://a.example\"\nkey-env = \"PATH\"\n")
        .with("policy.toml", "policy = \"frugal\"\n[[upstream]]\nurl = \"https://a.example\"\n")
        .with("holdout.toml", "\nholdout = 2.0\n[[upstream]]\nurl = \"https://a.example\"\n")
        .with("twice.toml", "[[upstream]]\nname = \"a\"\nurl = \"https://a.example\"\n".repeat(2))
        .with("hidden.toml", "[[upstream]]\nurl = \"https://a.example\"\n".repeat(2))
        .with("fine.toml", "store = \"mine.db\"\n[[upstream]]\nurl = \"https://a.example\"\n");
    let files = ["none", "unknown", "empty", "open", "policy", "holdout", "twice", "hidden", "fine"]
        .map(|name| format!("{name}.toml"));
    let lines = files.each_ref().map(|file| ["serve", "--check", "--config", file]);
    let lines: Vec<&[&str]> = lines.iter().map(|line| &line[..]).collect();
    // An option overrides the file.
    let option = ["serve", "--check", "--config", "holdout.toml", "--holdout", "0.1"];
    assert_snapshot!(lab.all(&lines) + &lab.all(&[&option, &["serve"]]));
}

#[test]
fn a_wrong_upstream_is_told_without_a_password_in_it() {
    let lab = Lab::new();
    let wrong = [
        "https://me:secret@a.example",
        "https://a.example?key=secret",
        "me:secret@a.example",
        "latin=https://a.example",
    ];
    for url in wrong {
        let refused = lab.all(&[&["serve", "--check", "--upstream", url]]);
        let told = refused.split_once('\n').unwrap().1;
        assert!(!told.contains("secret"), "{told}");
    }
    let lines = wrong.map(|url| ["serve", "--check", "--upstream", url]);
    let twice = ["serve", "--check", "--upstream", "https://a.example", "--upstream", "https://b.example"];
    let lines: Vec<&[&str]> = lines.iter().map(|line| &line[..]).chain([&twice[..]]).collect();
    assert_snapshot!(lab.all(&lines));
}

#[test]
fn a_changed_configuration_is_used_from_the_signal_on_and_a_wrong_one_is_not() {
    let plain = "[[upstream]]\nurl = \"http://127.0.0.1:9\"\n";
    let lab = Lab::new().with("gateway.toml", plain);
    let gateway = Serving::new(&lab, &["--config", "gateway.toml"]);
    assert!(gateway.get("/v1/models").starts_with("HTTP/1.1 502"));
    assert!(gateway.next_line().contains("the upstream cannot be reached"));
    let made = lab.command(LOOKBACK).args(["serve", "--new-key", "ann"]).output().unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    assert!(told.starts_with("the key of ann, which is not shown again: lookback_"), "{told}");
    let table = String::from_utf8(made.stdout).unwrap();
    fs::write(lab.path("gateway.toml"), format!("{plain}{table}")).unwrap();
    gateway.signal("-HUP");
    assert_eq!(gateway.next_line(), "the changed configuration is used from now on");
    assert!(gateway.get("/v1/models").starts_with("HTTP/1.1 401"));
    fs::write(lab.path("gateway.toml"), "listen = 5\n").unwrap();
    gateway.signal("-HUP");
    assert_eq!(gateway.next_line(), "error: gateway.toml: line 1: invalid type: integer `5`, expected socket address");
    assert!(gateway.get("/v1/models").starts_with("HTTP/1.1 401"));
    assert!(gateway.get("/readyz").ends_with("ready\n"));
}

#[test]
fn what_could_not_serve_is_refused_by_a_check() {
    let lab = Lab::new()
        .with("a-file", "")
        .with("text.db", "This is a text, and no database. ".repeat(100))
        .with("summarizer.toml", "[[upstream]]\nurl = \"https://a.example\"\n\n[summarizer]\nmodel = \"m\"\n")
        .with("itself.toml", "listen = \"127.0.0.1:9000\"\n[[upstream]]\nurl = \"http://localhost:9000/v1\"\n");
    let check = |args: &[&str]| lab.run(&[&["serve", "--check"], args].concat());
    let upstream = ["--upstream", "https://a.example"];
    for (store, says) in [
        ("a-file/memory.db", "a-file"),
        ("a-file/files/", "a-file"),
        ("text.db", "text.db is not a store of Lookback"),
        (":memory:", "needs the path of a file"),
        ("mysql://host/x", "expected sqlite:"),
    ] {
        check(&[&upstream[..], &["--store", store]].concat()).fails(2, says);
    }
    check(&["--config", "summarizer.toml"]).fails(2, "summarizer.toml: line 4: the summarizer has no `dialect`");
    check(&["--config", "itself.toml"]).fails(2, "itself.toml: line 3: the upstream http://localhost:9000/v1 is this");
    check(&["--upstream", "http://127.0.0.1:8787"]).fails(2, "is this gateway itself");
    // `--check` creates no store.
    for store in ["new/memory.db", "new/files/"] {
        check(&[&upstream[..], &["--store", store]].concat()).out();
    }
    let left: Vec<_> = fs::read_dir(lab.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_to_whoever_watches() {
    let lab = Lab::new().with("chat.jsonl", "{\"role\":\"user\",\"content\":\"Hi\"}\n");
    lab.run(&["sessions", "import", "chat.jsonl", "--store", "memory.db"]).out();
    // Writes of a process with a file size limit fail as on a full disk.
    let mut command = lab.command("sh");
    command.args(["-c", "trap '' XFSZ; exec prlimit --fsize=40960 \"$@\"", "sh", LOOKBACK]);
    let full = Serving::begin(command, &["--upstream", "http://127.0.0.1:9", "--store", "memory.db"]);
    let ready = full.get("/readyz");
    assert!(ready.ends_with("ready, but no space is left for the store: requests pass as they come\n"), "{ready}");
}

#[test]
fn a_call_is_told_in_one_line_without_its_contents() {
    let lab = Lab::new();
    let gateway = Serving::new(&lab, &["--upstream", "http://127.0.0.1:9", "--log", "json"]);
    let body = r#"{"model":"m","messages":[{"role":"user","content":"my secret plan"}]}"#;
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    let head =
        format!("host: localhost\r\nconnection: close\r\nauthorization: Bearer sk-1\r\ncontent-length: {}", body.len());
    write!(stream, "POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let failure: serde_json::Value = serde_json::from_str(&gateway.next_line()).unwrap();
    let what = failure["what"].as_str().unwrap();
    assert!(what.starts_with("http://127.0.0.1:9: the upstream cannot be reached: "), "{what}");
    assert!(what.contains("refused") && !what.contains("secret") && !what.contains("sk-1"), "{what}");
    let line = gateway.next_line();
    assert!(!line.contains("secret") && !line.contains("sk-1"), "{line}");
    let call: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&call["event"], &call["status"], &call["line"]), (&"call".into(), &502.into(), &"new".into()));
    assert_eq!(call["dialect"], "openai-chat");
}

/// Starts an upstream that begins a stream, and ends it on a message of the channel.
fn streaming() -> (String, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (end, ends) = channel();
    std::thread::spawn(move || {
        let (mut gateway, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut some = [0; 4096];
            let count = gateway.read(&mut some).unwrap();
            request.extend_from_slice(&some[..count]);
        }
        let said =
            |text: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        write!(gateway, "{head}{}", said("The first half")).unwrap();
        ends.recv().unwrap();
        let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        write!(gateway, "{}{finish}", said(", and the second.")).unwrap();
    });
    (address, end)
}

#[test]
fn a_gateway_that_is_to_stop_waits_for_nobody_who_says_nothing() {
    let lab = Lab::new().with("chat.jsonl", "{\"role\":\"user\",\"content\":\"Hi\"}\n");
    lab.run(&["sessions", "import", "chat.jsonl", "--store", "memory.db"]).out();
    let mut gateway = Serving::new(&lab, &["--upstream", "http://127.0.0.1:9", "--store", "memory.db"]);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";
    let begun = format!("{head}content-length: 1000\r\n\r\n{{");
    let mut kept = Vec::new();
    for said in ["", head, &begun].repeat(20) {
        let mut stream = TcpStream::connect(&gateway.address).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        kept.push(stream);
    }
    // A page that follows a session gets an answer without an end.
    let mut page = TcpStream::connect(&gateway.address).unwrap();
    page.write_all(b"GET /inspect/live?name=chat HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    while !answer.contains("data:") {
        let mut some = [0; 4096];
        let count = page.read(&mut some).unwrap();
        assert!(count > 0, "{answer}");
        answer += std::str::from_utf8(&some[..count]).unwrap();
    }
    let asked = std::time::Instant::now();
    gateway.signal("-TERM");
    assert!(gateway.child.wait().unwrap().success());
    // Open answers would have thirty seconds to finish.
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    drop(kept);
}

#[test]
fn a_gateway_that_is_to_stop_finishes_the_streams_that_are_open() {
    let lab = Lab::new();
    let (upstream, end) = streaming();
    let mut gateway = Serving::new(&lab, &["--upstream", &upstream, "--store", "memory.db"]);
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#;
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    let head = format!("host: localhost\r\nconnection: close\r\ncontent-length: {}", body.len());
    write!(stream, "POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    while !answer.contains("The first half") {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        answer += std::str::from_utf8(&some[..count]).unwrap();
    }
    gateway.signal("-TERM");
    // It accepts no new connections.
    while TcpStream::connect(&gateway.address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gateway.child.try_wait().unwrap().is_none(), "it waits for the stream");
    end.send(()).unwrap();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(", and the second.") && answer.contains("data: [DONE]"), "{answer}");
    assert!(gateway.child.wait().unwrap().success());
    let found = lab.command(LOOKBACK).args(["sessions", "list", "--store", "memory.db"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();

    let session = found.split_whitespace().find(|word| word.starts_with("chat")).unwrap();
    let recalled =
        lab.command(LOOKBACK).args(["recall", session, "second half", "--store", "memory.db"]).output().unwrap();
    let recalled = String::from_utf8(recalled.stdout).unwrap();
    assert!(recalled.contains("The first half, and the second."), "{recalled}");
}

/// Starts an upstream that answers each call at once.
fn quick() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for gateway in listener.incoming() {
            let mut gateway = gateway.unwrap();
            gateway.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let (mut asked, mut some) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = gateway.read(&mut some) {
                    asked.extend_from_slice(&some[..count]);
                    if asked.ends_with(br#""}]}"#) {
                        asked.clear();
                        let said = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Fine."},"finish_reason":"stop"}]}"#;
                        let head = format!("content-type: application/json\r\ncontent-length: {}", said.len());
                        let _ = gateway.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{said}").as_bytes());
                    }
                }
            });
        }
    });
    address
}

/// Returns how long the first and the tenth call of a model take through a fresh gateway.
fn first_and_tenth(upstream: &str, path: &str, model: &str) -> (Duration, Duration) {
    let lab = Lab::new();
    let gateway = Serving::new(&lab, &["--upstream", upstream, "--store", "memory.db"]);
    let mut messages = Vec::new();
    let mut took = Vec::new();
    for number in 0..10 {
        messages.push(format!(r#"{{"role":"user","content":"Question {number}"}}"#));
        let body = format!(r#"{{"model":"{model}","max_tokens":99,"messages":[{}]}}"#, messages.join(","));
        let head = format!(
            "host: localhost\r\nconnection: close\r\nauthorization: Bearer k\r\ncontent-length: {}",
            body.len()
        );
        let asked = format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}");
        let begun = Instant::now();
        let mut stream = TcpStream::connect(&gateway.address).unwrap();
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        took.push(begun.elapsed());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        messages.push(r#"{"role":"assistant","content":"Fine."}"#.to_owned());
    }
    (took[0], took[9])
}

#[test]
fn the_first_answer_waits_for_nothing_that_is_loaded() {
    let upstream = quick();
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let chat = "/v1/chat/completions";
    // Models with two vocabularies, and models whose tokens are estimated.
    for (path, model) in
        [(chat, "gpt-5"), (chat, "gpt-4"), (chat, "mistral-large"), ("/v1/messages", "claude-opus-4-5")]
    {
        let (mut first, mut tenth) = (Vec::new(), Vec::new());
        // Repeats the measurement, because the machine may be busy.
        let is_quick = (0..6).any(|_| {
            for _ in 0..3 {
                let took = first_and_tenth(&upstream, path, model);
                first.push(took.0);
                tenth.push(took.1);
            }
            // Loading a vocabulary alone takes several times as long.
            median(first.clone()) <= 3 * median(tenth.clone()) + Duration::from_millis(20)
        });
        assert!(is_quick, "{model}: the first took {first:?}, and the tenth {tenth:?}");
    }
}
