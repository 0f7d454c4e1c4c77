//! Tests of `lookback inspect`: its pages, who may read them, and what they may change.

#![cfg(feature = "server")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{LOOKBACK, Lab};

/// A running inspector, which stops when this is dropped.
struct Serving {
    child: Child,
    address: String,
    entry: String,
}

/// An answer with its status, its head, and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Serving {
    fn new(lab: &Lab, args: &[&str], env: &[(&str, &str)]) -> Serving {
        let mut command = lab.command(LOOKBACK);
        command.args(["inspect", "--http", "127.0.0.1:0"]).args(args).envs(env.iter().copied());
        Serving::begin(command)
    }

    fn begin(mut command: Command) -> Serving {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let told = line.strip_prefix("open http://").and_then(|rest| rest.strip_suffix(" in a browser\n"));
        let (address, entry) = told.unwrap_or_else(|| panic!("{line}")).split_once('/').unwrap();
        Serving { child, address: address.to_owned(), entry: entry.to_owned() }
    }

    fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Answer {
        self.send(method, path, headers, "")
    }

    /// Sends a form from a page of this server.
    fn post(&self, form: &str) -> Answer {
        let origin = format!("origin: http://{}", self.address);
        self.send("POST", "/edit", &[&origin, "content-type: application/x-www-form-urlencoded"], form)
    }

    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let host = format!("host: {}", self.address);
        let named = headers.iter().any(|header| header.to_lowercase().starts_with("host:"));
        let lines = headers.iter().copied().chain((!named).then_some(host.as_str()));
        let lines: String = lines.flat_map(|line| [line, "\r\n"]).collect();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        stream
            .write_all(format!("{method} {path} HTTP/1.1\r\n{lines}connection: close\r\n{length}\r\n{body}").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Returns the edition of a session from which its page was made.
    fn edition(&self, session: &str) -> String {
        let page = self.get(&format!("/session?name={session}")).body;
        page.split("data-edition=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_store_is_shown_with_its_sessions_and_their_calls() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    lab.run(&["facts", "add", "--session", "replay/session", "decision", "The <b>store</b> is SQLite."]).out();
    let serving = Serving::new(&lab, &[], &[]);
    let overview = serving.get("/");
    assert_eq!(overview.status, 200);
    for shown in ["href=\"session?name=replay/session\"", "2,267,408", "$1.19", "93.4 %"] {
        assert!(overview.body.contains(shown), "{shown}\n{}", overview.body);
    }
    // The address has the order, the filter and the search of a list, so they work without a script.
    assert!(!serving.get("/?filter=nothing").body.contains("session?name="));
    let found = serving.get("/?words=worse+than+the+bug").body;
    assert!(found.contains("session?name=replay/session#e"), "{found}");
    let facts = serving.get("/?words=sqlite").body;
    assert!(facts.contains("session?name=replay/session#fact-f0\">replay/session, decision f0</a>"), "{facts}");
    let page = serving.get("/session?name=replay/session&call=53");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Call <b>53</b> of 78 sent <b>44,548 tokens</b>"));
    assert!(page.body.contains("The &lt;b&gt;store&lt;/b&gt; is SQLite."), "facts are text");
    // The page contains only the beginnings of contents, and requests the rest.
    let part = format!("/part?name=replay/session&edition={}", serving.edition("replay/session"));
    let row = serving.get(&format!("{part}&row=0")).body;
    assert!(row.contains("You are a coding agent") && row.starts_with("[\""), "{row}");
    let all: Vec<Vec<String>> = serde_json::from_str(&serving.get(&part).body).unwrap();
    assert_eq!(serde_json::to_string(&all[0]).unwrap(), row);
    assert_eq!(serving.get("/part?name=replay/session&edition=1-2-3&row=0").status, 409, "rows have other numbers now");
    let request = serving.get("/request?name=replay/session&call=53").body;
    let sent = lab.run(&["sessions", "window", "replay/session", "--call", "53"]).json();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&request).unwrap()["messages"], sent);
    for (path, says) in [
        ("/session?name=none", "there is no such session"),
        ("/session?name=%FF", "there is no such session"),
        ("/request?name=replay/session&call=0", "the session has no such call"),
    ] {
        let answer = serving.get(path);
        assert!(
            (answer.status, &*answer.body) == (404, &*format!("{says}\n")),
            "{path}: {} {}",
            answer.status,
            answer.body
        );
    }
    assert_eq!(serving.get(&format!("{part}&row=99999")).status, 404);
    assert_eq!(serving.get(&format!("{part}&row=x")).status, 400);
    assert_eq!(serving.get("/nothing").status, 404);
}

#[test]
fn another_policy_is_tried_out_and_a_mistake_in_it_is_told() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let serving = Serving::new(&lab, &[], &[]);
    let whole = lab.run(&["replay", "session.jsonl", "--json", "--policy", "none", "--store", "other.db"]).lines();
    let page = serving.get("/session?name=replay/session&policy=none").body;
    let cost = format!("${:.2}", whole[0]["cost"].as_f64().unwrap());
    assert!(page.contains(&cost), "{cost}");
    assert!(page.contains("<pre id=\"toml\">"));
    let page = serving.get("/session?name=replay/session&policy=turns:max_turn=1").body;
    assert!(page.contains("role=\"alert\"") && !page.contains("<pre id=\"toml\">"), "{page}");
    // A policy is always text, never the path of a file on this machine.
    let page = serving.get("/session?name=replay/session&policy=/etc/passwd").body;
    assert!(page.contains("role=\"alert\"") && !page.contains("root:"));
}

#[test]
fn only_this_machine_is_served_and_no_page_of_another_site() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let serving = Serving::new(&lab, &[], &[]);
    assert_eq!(serving.ask("GET", "/", &["host: evil.example"]).status, 403);
    assert_eq!(serving.ask("GET", "/", &["host: localhost", "host: localhost"]).status, 400);
    assert_eq!(serving.ask("GET", "/", &["origin: https://evil.example"]).status, 403);
    for site in ["cross-site", "same-site"] {
        let site = format!("sec-fetch-site: {site}");
        assert_eq!(serving.ask("GET", "/session?name=replay/session&policy=none", &[&site]).status, 403, "{site}");
        assert_eq!(serving.ask("GET", "/", &[&site, "sec-fetch-mode: navigate"]).status, 200, "a link may be followed");
        let framed = [&*site, "sec-fetch-mode: navigate", "sec-fetch-dest: iframe"];
        assert_eq!(serving.ask("GET", "/", &framed).status, 403, "a frame is not a link");
    }
    let posted = serving.ask("POST", "/session?name=replay/session", &[]);
    assert!(posted.status == 405 && posted.head.contains("connection: close"), "{}", posted.head);
    let answer = serving.get("/");
    for header in [
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: same-origin",
        "cache-control: no-store",
        "frame-ancestors 'none'",
    ] {
        assert!(answer.head.contains(header), "{header}\n{}", answer.head);
    }
    assert!(!answer.head.contains("access-control"), "{}", answer.head);
    lab.run(&["inspect", "--http", "0.0.0.0:0"]).fails(2, "0.0.0.0:0 can be reached from other machines; set a token");
    lab.run(&["inspect", "none.db"]).fails(2, "none.db");
}

#[test]
fn with_a_token_a_browser_keeps_it_in_a_cookie() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let secret = "a-token-that-nobody-guesses";
    let serving = Serving::new(&lab, &["--token-env", "SECRET"], &[("SECRET", secret)]);
    assert_eq!(serving.entry, "?token=$SECRET", "the token itself is not printed");
    let refused = serving.get("/");
    assert_eq!(refused.status, 401);
    assert!(!refused.body.contains(secret));
    assert_eq!(serving.get("/?token=a-token-that-somebody-guesses").status, 401);
    let entered = serving.get(&format!("/?token={secret}"));
    assert_eq!(entered.status, 303);
    let cookie = entered.head.split("set-cookie: ").nth(1).unwrap().lines().next().unwrap();
    let port = serving.address.rsplit_once(':').unwrap().1;
    assert!(cookie.starts_with(&format!("lookback-{port}=")), "{cookie}");
    assert!(cookie.ends_with("; path=/; httponly; samesite=lax") && !cookie.contains(secret), "{cookie}");
    assert!(entered.head.contains("location: /\r\n"), "{}", entered.head);
    let cookie = cookie.split(';').next().unwrap();
    let page = serving.get(&format!("/session?name=replay/session&token={secret}&call=5"));
    assert!(page.head.contains("location: /session?name=replay/session&call=5\r\n"), "{}", page.head);
    assert_eq!(serving.get("/?token=a&token=b").status, 401);
    let elsewhere = serving.get(&format!("//evil.example/?token={secret}"));
    assert!(elsewhere.head.contains("location: /evil.example/\r\n"), "{}", elsewhere.head);
    assert_eq!(serving.ask("GET", "/", &[&format!("cookie: a=b; {cookie}")]).status, 200);
    assert_eq!(serving.ask("GET", "/", &[&format!("authorization: Bearer {secret}")]).status, 200);
    for other in [format!("cookie: lookback-{port}=other"), format!("cookie: lookback-{port}={secret}")] {
        assert_eq!(serving.ask("GET", "/", &[&other]).status, 401, "{other}");
    }
}

#[test]
fn a_token_may_have_signs_that_mean_something_in_an_address() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let serving = Serving::new(&lab, &["--token-env", "SECRET"], &[("SECRET", "c29tZSBzZWNyZXQ+/w==;x")]);
    let entered = serving.get("/?token=c29tZSBzZWNyZXQ+/w==;x");
    assert_eq!(entered.status, 303);
    let cookie = entered.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(serving.ask("GET", "/", &[&format!("cookie: {cookie}")]).status, 200);
    assert_eq!(serving.get("/?token=c29tZSBzZWNyZXQ%2B%2Fw%3D%3D%3Bx").status, 303);
}

#[test]
fn a_server_on_all_addresses_prints_one_that_can_be_opened_and_has_any_of_them() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let secret = [("SECRET", "a-token-that-nobody-guesses")];
    let args = ["--http", "0.0.0.0:0", "--token-env", "SECRET", "--allow-host", "Memory.LAN"];
    let mut command = lab.command(LOOKBACK);
    command.args(["inspect"]).args(args).envs(secret);
    let serving = Serving::begin(command);
    assert!(serving.address.starts_with("127.0.0.1:"), "{}", serving.address);
    let bearer = "authorization: Bearer a-token-that-nobody-guesses";
    for (host, status) in [("192.168.1.5:1", 200), ("[fd00::2]", 200), ("memory.lan:80", 200), ("evil.example", 403)] {
        assert_eq!(serving.ask("GET", "/", &[bearer, &format!("host: {host}")]).status, status, "{host}");
    }
}

#[test]
fn however_many_pages_follow_a_session_others_are_shown() {
    let lab = Lab::new().with("chat.jsonl", "{\"role\":\"user\",\"content\":\"Hi\"}\n");
    lab.run(&["sessions", "import", "chat.jsonl"]).out();
    let serving = Serving::new(&lab, &[], &[]);
    let mut following: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        write!(stream, "GET /live?name=chat HTTP/1.1\r\nhost: {}\r\n\r\n", serving.address).unwrap();
        following.push(stream);
    }
    let edition = serving.edition("chat");
    assert_eq!(serving.get("/").status, 200);
    // A client over the limit gets the current edition, and the time until it may ask again.
    let late = serving.get("/live?name=chat");
    assert!(late.status == 200 && late.body.contains(&format!("data: {edition}")), "{}", late.body);
    assert!(late.body.contains("retry: 10000"), "{}", late.body);
    let mut first = &following[0];
    let mut answer = String::new();
    while !answer.contains(&edition) {
        let mut some = [0; 4096];
        let count = first.read(&mut some).unwrap();
        assert!(count > 0, "{answer}");
        answer += std::str::from_utf8(&some[..count]).unwrap();
    }
    drop(following);
}

#[test]
fn a_session_that_was_deleted_and_made_anew_is_shown_as_it_is_now() {
    let lab = Lab::new();
    let import = |text: &str| {
        std::fs::write(lab.path("twin.jsonl"), format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")).unwrap();
        lab.run(&["sessions", "import", "twin.jsonl"]).out();
    };
    import("The first twin.");
    let serving = Serving::new(&lab, &["--edit"], &[]);
    assert!(serving.get("/session?name=twin").body.contains("The first twin."));
    assert_eq!(serving.post("name=twin&change=delete").status, 303);
    import("The other twin.");
    let page = serving.get("/session?name=twin").body;
    assert!(page.contains("The other twin.") && !page.contains("The first twin."), "{page}");
}

#[test]
fn a_session_whose_log_is_damaged_is_said_to_be_and_the_others_are_shown() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json", "--store", "logs/"]).out();
    std::fs::write(lab.path("bad.jsonl"), "{\"role\":\"user\",\"content\":\"Hello.\"}\n").unwrap();
    lab.run(&["sessions", "import", "bad.jsonl", "--store", "logs/"]).out();
    let log = lab.path("logs/memory/bad/turns.jsonl");
    let text = std::fs::read_to_string(&log).unwrap().replace("Hello", "Hullo");
    std::fs::write(&log, text).unwrap();
    let serving = Serving::new(&lab, &["logs/"], &[]);
    let overview = serving.get("/").body;
    assert!(overview.contains("its log is damaged") && overview.contains("$1.19"), "{overview}");
    assert!(!overview.contains("still being read"), "{overview}");
}

#[test]
fn with_edit_a_fact_is_forgotten_a_blocker_resolved_and_a_session_deleted_once_a_page_has_asked() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    let add = |kind: &str, text: &str| {
        lab.run(&["facts", "add", "--session", "replay/session", kind, text]).out();
    };
    add("decision", "The store is SQLite.");
    add("blocker", "The tests are red.");
    let facts = || lab.run(&["facts", "list", "--session", "replay/session", "--json"]).lines().len();
    let serving = Serving::new(&lab, &["--edit"], &[]);
    let page = serving.get("/session?name=replay/session").body;
    for (address, says) in [
        ("edit?name=replay/session&change=forget&fact=f0", "The store is SQLite."),
        ("edit?name=replay/session&change=resolve&fact=f1", "The tests are red."),
        ("edit?name=replay/session&change=delete&fact=", "This cannot be undone."),
    ] {
        assert!(page.contains(&format!("href=\"{}\"", address.replace('&', "&amp;"))), "{address}");
        let asked = serving.get(&format!("/{address}"));
        assert!(asked.status == 200 && asked.body.contains(says), "{address}: {}", asked.body);
    }
    assert_eq!(facts(), 2, "a page that asks changes nothing");
    // The server accepts forms only from its own pages.
    let forget = "name=replay%2Fsession&change=forget&fact=f0&why=old";
    for origin in ["", "origin: null", "origin: http://evil.example"] {
        let headers = [origin, "content-type: application/x-www-form-urlencoded"];
        let headers: Vec<&str> = headers.into_iter().filter(|header| !header.is_empty()).collect();
        assert_eq!(serving.send("POST", "/edit", &headers, forget).status, 403, "{origin}");
    }
    assert_eq!(facts(), 2);
    let done = serving.post(forget);
    assert!(done.status == 303 && done.head.contains("location: session?name=replay%2fsession#facts"), "{}", done.head);
    let run = lab.run(&["facts", "history", "--session", "replay/session", "f0"]);
    let history = run.out();
    assert!(history.contains("old"), "{history}");
    assert_eq!(serving.post(forget).status, 404, "it is gone already");
    let empty = serving.post("name=replay%2Fsession&change=resolve&fact=f1&why=+");
    assert!(empty.status == 422 && empty.body.contains("role=\"alert\""), "{}", empty.body);
    assert_eq!(serving.post("name=replay%2Fsession&change=resolve&fact=f1&why=green").status, 303);
    assert_eq!(facts(), 0);
    assert_eq!(serving.post("name=replay%2Fsession&change=rename").status, 422);
    assert_eq!(serving.post("name=replay%2Fsession&change=delete").status, 303);
    assert_eq!(serving.get("/session?name=replay/session").status, 404);
    lab.run(&["sessions", "show", "replay/session"]).fails(1, "replay/session");
}

#[test]
fn without_edit_nothing_is_changed() {
    let lab = Lab::new().with_example();
    lab.run(&["replay", "session.jsonl", "--json"]).out();
    lab.run(&["facts", "add", "--session", "replay/session", "decision", "The store is SQLite."]).out();
    let serving = Serving::new(&lab, &[], &[]);
    assert!(!serving.get("/session?name=replay/session").body.contains("edit?name="));
    assert_eq!(serving.get("/edit?name=replay/session&change=delete").status, 403);
    assert_eq!(serving.post("name=replay%2Fsession&change=delete").status, 405);
    assert_eq!(serving.get("/session?name=replay/session").status, 200);
}
