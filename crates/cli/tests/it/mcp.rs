//! Tests of `lookback mcp`: the protocol on standard input and output, and access over HTTP.

#![cfg(feature = "server")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::common::{LOOKBACK, Lab};
use serde_json::{Value, json};

const TOKEN: &str = "correct-horse-battery-staple";

fn request(id: u64, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn initialize(id: u64) -> String {
    let client = json!({ "name": "test", "version": "0" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    request(id, "initialize", params)
}

/// Returns the input of a client that sends these lines and then disconnects.
fn said(lines: &[String]) -> String {
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    [&[initialize(0), initialized], lines].concat().join("\n") + "\n"
}

/// A listening server, which stops when this is dropped.
struct Listening {
    child: Child,
    address: String,
}

impl Listening {
    fn new(lab: &Lab, args: &[&str]) -> Listening {
        let mut command = lab.command(LOOKBACK);
        command
            .args(["mcp", "--store", "memory.db"])
            .args(args)
            .env("SECRET", TOKEN)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp\n"));
        let address = address.unwrap_or_else(|| panic!("{line}")).replace("0.0.0.0", "127.0.0.1");
        Listening { child, address }
    }

    /// Sends a request with these additional headers, and returns the status and the body of the answer.
    fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut sent = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        sent += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        if !headers.iter().any(|(name, _)| *name == "Host") {
            sent += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            sent += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(format!("{sent}\r\n").as_bytes()).unwrap();
        // If the server refuses the request early, it may not read the body.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn post(&self, headers: &[(&str, &str)]) -> u16 {
        self.ask("POST /mcp", headers, &initialize(1)).0
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nothing_but_the_protocol_passes_over_standard_output() {
    let lab = Lab::new();
    let lines = [
        request(1, "tools/list", json!({})),
        request(2, "resources/list", json!({})),
        request(3, "resources/templates/list", json!({})),
        request(4, "resources/read", json!({ "uri": "lookback://sessions/nonesuch" })),
        request(5, "tools/call", json!({ "name": "nonesuch", "arguments": {} })),
        request(6, "prompts/get", json!({ "name": "nonesuch" })),
        "{ this is no JSON".to_owned(),
        request(7, "ping", json!({})),
        request(8, "tools/call", json!({ "name": 7 })),
        request(9, "resources/read", json!({})),
    ];
    let run = lab.pipe(&["mcp", "--store", "memory.db"], said(&lines));
    run.out();
    assert_eq!(run.stderr, "");
    let answers = run.lines();
    let mut ids: Vec<_> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // The answer to an invalid message has no id.
    let wrong: Vec<_> = answers.iter().filter(|answer| answer["id"].is_null()).collect();
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0]["error"]["code"], -32700);
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer(0)["result"]["serverInfo"]["name"], "lookback");
    assert!(answer(1)["result"]["tools"].is_array());
    for (id, code) in [(4, -32002), (5, -32602), (6, -32602), (8, -32602), (9, -32602)] {
        assert_eq!(answer(id)["error"]["code"], code, "{}", answer(id));
    }
}

#[test]
fn a_line_that_is_too_long_is_answered_and_passed_over() {
    let lines = [request(1, "tools/call", json!({ "name": "x".repeat(17 << 20) })), request(2, "ping", json!({}))];
    let run = Lab::new().pipe(&["mcp", "--store", "memory.db"], said(&lines));
    run.out();
    let answers = run.lines();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(0), json!(1), json!(2)]);
    assert_eq!(answers[1]["error"]["code"], -32600);
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_reads_nothing_is_not_read_from_and_keeps_nobody_from_ending() {
    let lab = Lab::new();
    let mut command = lab.command(LOOKBACK);
    command.args(["mcp", "--store", "memory.db"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let asks = std::thread::spawn(move || {
        let mut lines = said(&[]);
        for id in 1..=20_000 {
            lines += &(request(id, "tools/list", json!({})) + "\n");
        }
        // The write ends when the server ends.
        let _ = input.write_all(lines.as_bytes());
    });
    // Waits until the server has read nothing for a second.
    let read =
        || std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap().lines().next().unwrap().to_owned();
    let (mut before, mut quiet) = (read(), 0);
    while quiet < 20 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = read();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
    assert!(!asks.is_finished(), "all was read, and kept");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 200_000, "{line}");
    let begun = std::time::Instant::now();
    kill("-TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    asks.join().unwrap();
}

#[test]
fn a_client_may_go_away_at_any_time() {
    let lab = Lab::new();
    for said in [String::new(), "\n".to_owned(), initialize(0) + "\n", initialize(0)] {
        let run = lab.pipe(&["mcp", "--store", "memory.db"], &said);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{said:?}");
    }
}

#[test]
fn what_is_no_client_is_not_repeated() {
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/secret" }).to_string();
    let run = Lab::new().pipe(&["mcp", "--store", "memory.db"], notification + "\n");
    run.fails(2, "is not a client of the Model Context Protocol");
    assert!(!run.stderr.contains("secret"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_told_of_no_store_keeps_its_own_wherever_it_is_started() {
    let lab = Lab::new();
    let home = lab.path("home");
    let data = lab.path("data");
    let (home, data) = (home.to_str().unwrap(), data.to_str().unwrap());
    let remembers = request(
        1,
        "tools/call",
        json!({
            "name": "memory_preference", "arguments": { "content": "Use pnpm, not npm." }
        }),
    );
    for (env, at) in [
        (vec![("XDG_DATA_HOME", data), ("HOME", home)], format!("{data}/lookback/lookback.db")),
        (vec![("HOME", home)], format!("{home}/.local/share/lookback/lookback.db")),
        // A relative path is ignored.
        (vec![("XDG_DATA_HOME", "data"), ("HOME", home)], format!("{home}/.local/share/lookback/lookback.db")),
    ] {
        let run = lab.run_with(&["mcp"], said(std::slice::from_ref(&remembers)), &env);
        run.out();
        assert_eq!(run.stderr, format!("the store is {at}\n"));
        assert!(lab.run(&["facts", "list", "--shared", "--store", &at]).out().contains("pnpm"));
    }
    // If an option names the store, its path is not printed.
    for (args, env) in [
        (&["mcp", "--store", "own.db"][..], vec![("HOME", home)]),
        (&["mcp"][..], vec![("HOME", home), ("LOOKBACK_STORE", "own.db")]),
        (&["mcp"][..], vec![("HOME", home), ("LOOKBACK_STORE", "~/own.db")]),
    ] {
        let run = lab.run_with(args, said(&[]), &env);
        run.out();
        assert_eq!(run.stderr, "");
    }
    assert!(lab.path("own.db").exists() && lab.path("home/own.db").exists());
    lab.run_with(&["mcp"], "", &[("XDG_DATA_HOME", "/proc/nowhere")]).fails(2, "could not be created");
}

#[test]
fn a_store_in_the_home_folder_can_be_named_without_a_shell() {
    let lab = Lab::new();
    let home = lab.path("home");
    let env = [("HOME", home.to_str().unwrap()), ("USERPROFILE", home.to_str().unwrap())];
    let add = |store: &str| {
        let args = ["facts", "add", "--shared", "preference", "Use pnpm, not npm.", "--store", store];
        lab.run_with(&args, "", &env).out();
    };
    add("~/memory.db");
    assert!(home.join("memory.db").is_file());
    // A path that ends in a slash is a folder.
    add("~/memory/");
    assert!(home.join("memory").is_dir());
    // A name may begin with `~`.
    add("~memory.db");
    assert!(lab.path("~memory.db").is_file());
    let named = [env[0], env[1], ("LOOKBACK_STORE", "~/memory.db")];
    assert!(lab.run_with(&["facts", "list", "--shared"], "", &named).out().contains("pnpm"));
}

#[test]
fn a_wrong_command_line_is_named() {
    let lab = Lab::new().with("text.txt", "no store");
    let refused = |args: &[&str], says: &str| {
        let env = [("SHORT", "hunter2"), ("TWO", "one secret and another"), ("LOOKBACK_STORE", "memory.db")];
        let run = lab.run_with(&[&["mcp"], args].concat(), "", &env);
        run.fails(2, says);
        for secret in ["hunter2", "one secret"] {
            assert!(!run.stderr.contains(secret), "{}", run.stderr);
        }
    };
    refused(&["--http", "0.0.0.0:0"], "0.0.0.0:0 can be reached from other machines; set a token");
    refused(&["--http", "[::]:0"], "can be reached from other machines");
    refused(
        &["--http", "127.0.0.1:0", "--token-env", "NONE"],
        "--token-env NONE: this environment variable is not set",
    );
    refused(&["--http", "127.0.0.1:0", "--token-env", "SHORT"], "at least 16 characters, but this one has 7");
    refused(&["--http", "127.0.0.1:0", "--token-env", "TWO"], "character 4 is not one");
    refused(&["--http", "8765"], "an address is IP:PORT");
    refused(&["--token-env", "SHORT"], "--http <ADDRESS>");
    refused(&["--session", "../x"], "no part of a session's name");
    refused(&["--session", "memory:mcp:facts"], "Lookback reserves such names");
    refused(&["--store", "text.txt"], "text.txt is not a store of Lookback");
    let taken = Listening::new(&lab, &["--http", "127.0.0.1:0"]);
    refused(&["--http", &taken.address], "cannot listen on");
}

#[test]
fn a_request_needs_the_right_host_and_no_origin() {
    let lab = Lab::new();
    let server = Listening::new(&lab, &["--http", "localhost:0"]);
    let port = server.address.rsplit(':').next().unwrap();
    for host in ["localhost", "127.0.0.1", "[::1]", &format!("localhost:{port}")] {
        assert_eq!(server.post(&[("Host", host)]), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "memory.lan", "0.0.0.0"] {
        assert_eq!(server.post(&[("Host", host)]), 403, "{host}");
    }
    for origin in ["https://evil.example", "http://localhost", &format!("http://{}", server.address), "null"] {
        assert_eq!(server.post(&[("Origin", origin)]), 403, "{origin}");
    }
    let server = Listening::new(&lab, &["--http", "127.0.0.1:0", "--allow-host", "memory.lan"]);
    assert_eq!(server.post(&[("Host", "memory.lan:80")]), 200);
    assert_eq!(server.post(&[("Host", "evil.example")]), 403);
}

#[test]
fn a_token_keeps_others_out() {
    let lab = Lab::new();
    let server = Listening::new(&lab, &["--http", "0.0.0.0:0", "--token-env", "SECRET"]);
    let right = format!("Bearer {TOKEN}");
    for right in [right.clone(), format!("bearer {TOKEN}")] {
        assert_eq!(server.post(&[("Authorization", &right)]), 200);
    }
    let longer = format!("{right}x");
    for wrong in ["", "Bearer", "Bearer ", "Bearer wrong", &right[..right.len() - 1], &longer, TOKEN, "Basic abc"] {
        assert_eq!(server.post(&[("Authorization", wrong)]), 401, "{wrong}");
    }
    assert_eq!(server.post(&[]), 401);
    // Without the token, a client does not learn which paths exist.
    assert_eq!(server.ask("GET /elsewhere", &[], "").0, 401);
    assert_eq!(server.post(&[("Authorization", &right), ("Host", "evil.example")]), 403);
}

#[test]
fn a_request_is_bounded_and_has_one_place() {
    let lab = Lab::new();
    let server = Listening::new(&lab, &["--http", "127.0.0.1:0"]);
    let big = request(1, "tools/call", json!({ "name": "x".repeat(4 << 20) }));
    assert_eq!(server.ask("POST /mcp", &[], &big).0, 413);
    assert_eq!(server.ask("POST /mcp", &[], "{ this is no JSON").0 / 100, 4);
    assert_eq!(server.ask("GET /mcp", &[], "").0, 405);
    assert_eq!(server.ask("DELETE /mcp", &[], "").0, 405);
    assert_eq!(server.ask("POST /", &[], &initialize(1)).0, 404);
    assert_eq!(server.post(&[]), 200);
}

fn kill(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_request_that_is_under_way_is_answered_before_the_end() {
    let lab = Lab::new();
    let mut server = Listening::new(&lab, &["--http", "127.0.0.1:0"]);
    let body = initialize(1);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    let length = body.len();
    write!(stream, "{head}Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n").unwrap();
    let mut answer = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    // The server has accepted the request.
    answer.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    kill("-TERM", &server.child);
    while TcpStream::connect(&server.address).is_ok() {
        std::thread::yield_now();
    }
    stream.write_all(body.as_bytes()).unwrap();
    let mut rest = String::new();
    answer.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("HTTP/1.1 200 OK") && rest.contains("serverInfo"), "{rest}");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_stops_when_it_is_told_to() {
    let lab = Lab::new();
    for signal in ["-TERM", "-INT"] {
        let mut server = Listening::new(&lab, &["--http", "127.0.0.1:0"]);
        assert_eq!(server.post(&[]), 200);
        kill(signal, &server.child);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");

        let mut command = lab.command(LOOKBACK);
        command.args(["mcp", "--store", "memory.db"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}", initialize(0)).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("lookback"), "{line}");
        kill(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
    }
}
