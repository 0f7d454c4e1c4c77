//! Access to the gateway's sessions: by REST, and as an MCP server.

use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};

use super::access::with_keys;
use super::calls::at;
use super::{Answer, Client, DIALECTS, Lab};

fn read(lab: &Lab, path: &str) -> Value {
    let answer = lab.send("GET", &format!("/lookback/v1{path}"), &[], "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn write(lab: &Lab, method: &str, path: &str, body: &Value) -> Answer {
    let json = [("content-type", "application/json")];
    lab.send(method, &format!("/lookback/v1{path}"), &json, &body.to_string())
}

fn in_path(session: &str) -> String {
    session.replace('/', "%2F").replace('@', "%40")
}

#[test]
fn a_session_is_read_as_it_was_said_and_as_it_is_sent() {
    let lab = Lab::new(Some(at(60)));
    let mut client = Client::new(Dialect::OpenAiChat);
    let mut session = String::new();
    for turn in 0..6 {
        session = client.say(&lab, &format!("question {turn} about the heron")).session().to_owned();
    }
    let listed = read(&lab, "/sessions");
    assert_eq!(listed["sessions"][0]["session"], session);
    assert_eq!(listed["next"], Value::Null);
    let path = format!("/sessions/{}", in_path(&session));
    let shown = read(&lab, &path);
    assert_eq!((&shown["messages"], &shown["session"]), (&json!(12), &json!(session)));

    // Page by page, with the newest messages first.
    let mut texts = Vec::new();
    let mut before = Value::Null;
    loop {
        let query = before.as_u64().map(|before| format!("&before={before}")).unwrap_or_default();
        let page = read(&lab, &format!("{path}/messages?limit=5{query}"));
        let page_texts = page["messages"].as_array().unwrap().iter().map(|message| message["text"].clone());
        texts.splice(0..0, page_texts);
        before = page["before"].clone();
        if before.is_null() {
            break;
        }
    }
    assert_eq!(texts, lab.texts(&session));

    let window = read(&lab, &format!("{path}/window"));
    assert_eq!((&window["dialect"], &window["history"]), (&json!("openai-chat"), &json!(12)));
    assert!(window["messages"].as_array().unwrap().len() < 12, "{window}");
    let calls = read(&lab, &format!("{path}/calls"));
    assert_eq!(calls["total"]["calls"], 6);
    let recalled = read(&lab, &format!("{path}/recall?query=question+0"));
    assert_eq!(recalled["passages"][0]["text"], "question 0 about the heron");
    let entry = recalled["passages"][0]["entry"].as_u64().unwrap();
    let message = read(&lab, &format!("{path}/messages/{entry}?offset=9&limit=1"));
    assert_eq!((&message["text"], &message["length"]), (&json!("0"), &json!(26)));
    let found = read(&lab, "/search?query=heron&limit=3");
    assert_eq!(found["found"].as_array().unwrap().len(), 3);
}

/// Returns the related sessions that a session's state lists, with the number of common messages.
fn related(lab: &Lab, session: &str) -> Vec<(String, u64)> {
    let shown = read(lab, &format!("/sessions/{}", in_path(session)));
    let of = |other: &Value| Some((other["session"].as_str()?.to_owned(), other["messages"].as_u64()?));
    shown["related"].as_array().unwrap().iter().map(|other| of(other).unwrap()).collect()
}

#[test]
fn a_conversation_that_went_back_names_the_session_that_it_left() {
    for dialect in DIALECTS {
        let lab = Lab::new(None);
        let (mut one, mut twin) = (Client::new(dialect), Client::new(dialect));
        let first = one.say(&lab, "Hi").session().to_owned();
        // Another conversation with the same question and another answer.
        let alike = twin.say(&lab, "Hi").session().to_owned();
        one.say(&lab, "Go on.");
        let mut back = Client::new(dialect);
        back.messages = one.messages.clone();
        one.say(&lab, "More.");
        let left = back.say(&lab, "Less.").session().to_owned();
        assert_ne!(left, first, "{dialect}");
        assert_eq!(related(&lab, &left), [(first.clone(), 4)], "{dialect}");
        assert_eq!(related(&lab, &first), [(left.clone(), 4)], "{dialect}");
        assert_eq!(related(&lab, &alike), [], "{dialect}");
        let page = lab.send("GET", &format!("/inspect/session?name={}", in_path(&left)), &[], "").body;
        assert!(page.contains("Related sessions: 1"), "{page}");
        assert!(page.contains("begins with the same 4 messages"), "{page}");
    }
}

#[test]
fn an_edited_end_and_another_system_prompt_do_not_hide_what_two_sessions_have_in_common() {
    let lab = Lab::new(None);
    let mut one = Client::new(Dialect::OpenAiChat);
    one.messages = vec![one.said("system", "Today is Monday.")];
    one.say(&lab, "Hi");
    one.say(&lab, "Go on");
    // The newest message grows, so the log has a branch.
    one.messages.truncate(one.messages.len() - 2);
    let first = one.say(&lab, "Go on, please.").session().to_owned();
    let mut back = Client::new(Dialect::OpenAiChat);
    back.messages = one.messages.clone();
    back.messages[0] = back.said("system", "Today is Tuesday.");
    one.say(&lab, "More.");
    let left = back.say(&lab, "Less.").session().to_owned();
    assert_ne!(left, first);
    assert_eq!(related(&lab, &left), [(first.clone(), 4)]);
    assert_eq!(related(&lab, &first), [(left, 4)]);
}

#[test]
fn sessions_of_a_conversation_that_the_client_names_are_related() {
    let lab = Lab::new(None);
    let client = |tools: &[&'static str]| Client {
        headers: vec![("x-lookback-session", "ticket".to_owned())],
        tools: tools.to_vec(),
        ..Client::new(Dialect::Anthropic)
    };
    let first = client(&["read", "write"]).say(&lab, "Mend it.").session().to_owned();
    let second = client(&["search"]).say(&lab, "Find the cause.").session().to_owned();
    assert_ne!(first, second);
    assert_eq!(related(&lab, &first), [(second.clone(), 0)]);
    assert_eq!(related(&lab, &second), [(first, 0)]);
}

#[test]
fn a_session_that_was_deleted_begins_anew_with_what_its_client_sends() {
    let lab = Lab::new(None);
    let mut client = Client::new(Dialect::Anthropic);
    client.say(&lab, "one");
    let session = client.say(&lab, "two").session().to_owned();
    let path = format!("/sessions/{}", in_path(&session));
    assert_eq!(write(&lab, "DELETE", &path, &Value::Null).status, 204);
    assert_eq!(write(&lab, "DELETE", &path, &Value::Null).status, 404);
    assert_eq!(read(&lab, "/sessions")["sessions"], json!([]));
    let answer = client.say(&lab, "three");
    assert_eq!(answer.status, 200);
    let texts = lab.texts(answer.session());
    assert_eq!(texts.iter().filter(|text| ["one", "two", "three"].contains(&text.as_str())).count(), 3, "{texts:?}");
}

#[test]
fn a_session_is_found_by_the_name_that_its_client_gave_it() {
    let lab = Lab::new(None);
    let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let say = |key: &str| {
        let headers =
            [("x-api-key", key), ("x-lookback-session", "support/4711"), ("content-type", "application/json")];
        lab.send("POST", "/v1/messages", &headers, &body).session().to_owned()
    };
    let mine = say("mine");
    assert!(mine.starts_with("support/4711@"), "{mine}");
    let path = "/sessions/support%2F4711";
    assert_eq!(read(&lab, path)["session"], mine);
    assert_eq!(read(&lab, &format!("{path}/messages"))["messages"].as_array().unwrap().len(), 2);
    // A fact belongs to the client's own session.
    let finding = json!({"kind": "finding", "text": "It listens on 5050."});
    assert_eq!(write(&lab, "POST", &format!("{path}/facts"), &finding).status, 201);
    assert_eq!(read(&lab, &format!("/sessions/{}/facts", in_path(&mine)))["facts"][0]["text"], "It listens on 5050.");

    // When a second client uses the same name, the name is ambiguous without the client's key.
    let other = say("other");
    let asked = lab.send("GET", &format!("/lookback/v1{path}"), &[], "");
    assert_eq!(asked.status, 409, "{}", asked.body);
    assert!(asked.body.contains(&mine) && asked.body.contains(&other), "{}", asked.body);
    for (key, session) in [("mine", &mine), ("other", &other)] {
        let shown = lab.send("GET", &format!("/lookback/v1{path}"), &[("x-api-key", key)], "");
        assert!(shown.status == 200 && shown.body.contains(session.as_str()), "{}", shown.body);
    }
    assert_eq!(write(&lab, "DELETE", path, &Value::Null).status, 409);
    assert_eq!(write(&lab, "DELETE", &format!("/sessions/{}", in_path(&other)), &Value::Null).status, 204);
    assert_eq!(write(&lab, "DELETE", path, &Value::Null).status, 204);
    assert_eq!(write(&lab, "DELETE", path, &Value::Null).status, 404);
    assert_eq!(read(&lab, "/sessions")["sessions"], json!([]));
}

#[test]
fn facts_are_written_resolved_and_forgotten() {
    let lab = Lab::new(None);
    let stated = write(&lab, "POST", "/sessions/chat/facts", &json!({"kind": "blocker", "text": "No key yet."}));
    assert_eq!(stated.status, 201, "{}", stated.body);
    let blocker: Value = serde_json::from_str(&stated.body).unwrap();
    write(&lab, "POST", "/sessions/chat/facts", &json!({"kind": "preference", "text": "Use pnpm."}));
    let facts = read(&lab, "/sessions/chat/facts");
    assert_eq!(facts["facts"][0]["text"], "No key yet.");
    assert_eq!((&facts["facts"][0]["by"], &facts["facts"][0]["trust"]), (&json!("person"), &json!("high")));
    let shared = read(&lab, "/facts");
    assert_eq!(shared["facts"].as_array().unwrap().len(), 1);
    assert_eq!(read(&lab, "/sessions/other/facts"), shared);

    let path = format!("/sessions/chat/facts/{}", blocker["id"].as_str().unwrap());
    assert_eq!(write(&lab, "POST", &format!("{path}/resolve"), &json!({"with": "Ann sent it."})).status, 204);
    assert_eq!(lab.send("GET", &format!("/lookback/v1{path}"), &[], "").status, 404);
    let shared = format!("/sessions/chat/facts/{}", shared["facts"][0]["id"].as_str().unwrap());
    assert_eq!(write(&lab, "DELETE", &format!("{shared}?why=old"), &Value::Null).status, 204);
    assert_eq!(read(&lab, "/facts")["facts"], json!([]));
}

#[test]
fn what_is_wrong_is_told_as_json() {
    let lab = Lab::new(None);
    for (method, path, body, status) in [
        ("GET", "/sessions?limit=0", "", 400),
        ("GET", "/sessions?limit=x", "", 400),
        ("GET", "/sessions?unknown=1", "", 400),
        ("GET", "/sessions/nobody", "", 404),
        ("GET", "/sessions/..%2F..%2Fetc", "", 400),
        ("GET", "/sessions/memory%3Achat%3Afacts", "", 400),
        ("GET", "/sessions/%FF", "", 400),
        ("GET", "/search", "", 400),
        ("GET", "/sessions/nobody/messages/0", "", 404),
        ("GET", "/sessions/nobody/messages/-1", "", 400),
        ("GET", "/sessions/chat/facts/x1", "", 400),
        ("POST", "/sessions/chat/facts", "{", 400),
        ("POST", "/sessions/chat/facts", "{\"kind\":\"rumor\",\"text\":\"a\"}", 400),
        ("POST", "/sessions/chat/facts", "{\"kind\":\"finding\",\"text\":\" \"}", 400),
        ("POST", "/sessions/chat/facts", "{\"kind\":\"finding\",\"text\":\"a\",\"confidence\":2}", 400),
        ("DELETE", "/sessions/chat/facts/f9", "", 404),
        ("PUT", "/sessions", "", 405),
        ("GET", "/nothing", "", 404),
    ] {
        let json = [("content-type", "application/json")];
        let answer = lab.send(method, &format!("/lookback/v1{path}"), &json, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.body);
        let error: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{path}: {}", answer.body));
        assert!(error["error"]["message"].is_string(), "{path}: {error}");
    }
    assert_eq!(lab.stand_in.count(), 0, "nothing of this goes upstream");
}

#[test]
fn without_keys_only_this_machine_reads_and_no_web_page() {
    let lab = Lab::new(None);
    for (headers, status) in [
        ([("host", "localhost")], 200),
        ([("host", "evil.example")], 403),
        ([("origin", "http://evil.example")], 403),
        ([("origin", "null")], 403),
    ] {
        for path in ["/lookback/v1/sessions", "/lookback/v1/facts"] {
            assert_eq!(lab.send("GET", path, &headers, "").status, status, "{headers:?}");
        }
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        let typed =
            [&[("accept", "application/json, text/event-stream"), ("content-type", "application/json")], &headers[..]];
        let answer = lab.send("POST", "/mcp", &typed.concat(), &hello);
        assert_eq!(answer.status == 403, status == 403, "{headers:?}: {} {}", answer.status, answer.body);
    }
}

#[test]
fn a_key_reads_what_its_tenant_has_and_nothing_else() {
    let (lab, keys, _) = with_keys(&["ann", "bob"]);
    let fact = json!({"kind": "preference", "text": "Use pnpm."}).to_string();
    let keyed = [("x-lookback-key", keys[0].as_str()), ("content-type", "application/json")];
    assert_eq!(lab.send("GET", "/lookback/v1/sessions", &[], "").status, 401);
    assert_eq!(lab.send("POST", "/mcp", &[], "{}").status, 401);
    assert_eq!(lab.send("POST", "/lookback/v1/sessions/chat/facts", &keyed, &fact).status, 201);
    let facts = |secret: &str| {
        let bearer = format!("Bearer {secret}");
        let headers = [("authorization", bearer.as_str()), ("host", "gateway.example")];
        lab.send("GET", "/lookback/v1/facts", &headers, "").body
    };
    assert!(facts(&keys[0]).contains("pnpm"));
    assert_eq!(facts(&keys[1]), "{\"facts\":[]}");

    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "memory_search", "arguments": {"query": "pnpm"},
    }});
    let mcp = |secret: &str| {
        let headers = [
            ("x-lookback-key", secret),
            ("mcp-protocol-version", "2025-06-18"),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        lab.send("POST", "/mcp", &headers, &call.to_string()).body
    };
    assert!(mcp(&keys[0]).contains("pnpm"), "{}", mcp(&keys[0]));
    assert!(!mcp(&keys[1]).contains("pnpm"));
}

#[test]
fn a_history_that_a_client_brings_is_no_calls_and_costs_nothing_again() {
    for dialect in super::DIALECTS {
        let lab = Lab::new(None);
        let mut client = Client::new(dialect);
        for turn in 0..30 {
            let question = format!("Question {turn}. {}", "Tell me more about it. ".repeat(20));
            client.messages.push(client.said("user", &question));
            client.messages.push(client.said("assistant", &format!("Answer {turn}. {}", "So it is. ".repeat(20))));
        }
        let session = client.say(&lab, "Go on.").session().to_owned();
        client.say(&lab, "And on.");
        let path = format!("/sessions/{}/calls", in_path(&session));
        let calls = read(&lab, &path);
        assert_eq!(calls["total"]["calls"], 2, "{dialect}: {calls}");
        assert_eq!(calls["calls"][0]["prefix_break"], Value::Null, "{dialect}: {calls}");
        let (sent, cached) = (&calls["calls"][0]["sent_tokens"], &calls["calls"][0]["cache_read_tokens"]);
        assert!(cached.as_u64().unwrap() * 10 >= sent.as_u64().unwrap() * 8, "{dialect}: {calls}");
    }
}
