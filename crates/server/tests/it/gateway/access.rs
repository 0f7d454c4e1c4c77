//! Access to a gateway: its keys, the limits on requests, and its timeouts.

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::time::Duration;

use super::*;
use lookback_server::gateway::Key;
use stand_in::Fault;

/// Returns a gateway with a key for each of these names. The gateway's own key for the upstream is the value of `PATH`.
pub(super) fn with_keys(names: &[&str]) -> (Lab, Vec<String>, String) {
    let made: Vec<_> = names.iter().map(|name| Key::generate(name.parse().unwrap()).unwrap()).collect();
    let keys: String = made.iter().map(|(_, key)| key.to_toml()).collect();
    let config = format!("[[upstream]]\nurl = \"UPSTREAM\"\nkey-env = \"PATH\"\n{keys}");
    (Lab::configured(&config), made.into_iter().map(|(secret, _)| secret).collect(), config)
}

#[test]
fn without_a_key_of_the_gateway_nothing_passes() {
    let (lab, ..) = with_keys(&["ann"]);
    for dialect in DIALECTS {
        let mut client = Client::new(dialect);
        let answer = client.say(&lab, "Hi");
        assert_eq!(answer.status, 401, "{}", answer.body);
        assert!(answer.body.contains("no key of this gateway"), "{}", answer.body);
    }
    assert_eq!(lab.send("GET", "/v1/models", &[], "").status, 401);
    assert_eq!(lab.stand_in.count(), 0);
    // Monitoring needs no key, and sees the refused requests.
    assert_eq!(lab.send("GET", "/readyz", &[], "").status, 200);
    let refused = format!("lookback_answers_total{{status=\"4xx\"}} {}\n", DIALECTS.len() + 1);
    assert!(lab.send("GET", "/metrics", &[], "").body.contains(&refused));
}

#[test]
fn a_key_of_the_gateway_goes_no_further_and_the_upstream_gets_its_own() {
    let (lab, keys, _) = with_keys(&["ann"]);
    let own = std::env::var("PATH").unwrap();
    for (path, name, value, expected) in [
        ("/v1/messages", "x-api-key", keys[0].clone(), ("x-api-key", own.clone())),
        (
            "/v1/chat/completions",
            "authorization",
            format!("Bearer {}", keys[0]),
            ("authorization", format!("Bearer {own}")),
        ),
        ("/v1beta/models/m:generateContent", "x-goog-api-key", keys[0].clone(), ("x-goog-api-key", own.clone())),
        ("/v1/responses", "x-lookback-key", keys[0].clone(), ("authorization", format!("Bearer {own}"))),
    ] {
        let user = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "input": "Hi",
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
        lab.send("POST", path, &[(name, value.as_str())], &user.to_string());
        let seen = lab.stand_in.last().unwrap();
        assert!(seen.headers.values().all(|value| !value.to_str().unwrap().contains("lookback_")), "{path}");
        assert_eq!(seen.headers.get(expected.0).unwrap(), expected.1.as_str(), "{path}");
    }
    // The client's own key for the provider is sent.
    lab.send("POST", "/v1/responses", &[("x-lookback-key", &keys[0]), ("authorization", "Bearer mine")], "{}");
    assert_eq!(lab.stand_in.last().unwrap().headers.get("authorization").unwrap(), "Bearer mine");
}

#[test]
fn the_key_of_an_upstream_is_for_model_calls_and_for_the_paths_that_are_named() {
    let (lab, keys, config) = with_keys(&["ann"]);
    let key = ("x-lookback-key", keys[0].as_str());
    for (method, path) in [
        ("GET", "/v1/files"),
        ("DELETE", "/v1/files/f"),
        ("POST", "/v1/files"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/organization/users"),
        ("GET", "/v1/models/..%2Ffiles"),
        ("GET", "/v1/files/../models"),
        ("GET", "/"),
    ] {
        let refused = lab.send(method, path, &[key], "");
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.body);
        assert!(refused.body.contains("`paths`"), "{}", refused.body);
        // A key in a hop-by-hop header does not count as the client's own.
        let ends = [key, ("connection", "authorization"), ("authorization", "Bearer mine")];
        assert_eq!(lab.send(method, path, &ends, "").status, 403, "{method} {path}");
    }
    assert_eq!(lab.stand_in.count(), 0);
    assert_eq!(lab.send("GET", "/v1/models", &[key], "").status, 200);
    assert_eq!(lab.send("POST", "/v1/messages/count_tokens", &[key], "{}").status, 200);
    // With its own key for the provider, a client may use all paths.
    assert_eq!(lab.send("GET", "/v1/files", &[key, ("authorization", "Bearer mine")], "").status, 200);
    assert_eq!(lab.stand_in.last().unwrap().headers.get("authorization").unwrap(), "Bearer mine");
    let named = config.replace("key-env", "paths = [\"/v1/files*\"]\nkey-env");
    let named = lab.restarted(&named);
    assert_eq!(named.send("GET", "/v1/files/f", &[key], "").status, 200);
    assert_eq!(named.send("GET", "/v1/batches", &[key], "").status, 403);
    assert_eq!(named.send("GET", "/v1/files/../batches", &[key], "").status, 403);
}

#[test]
fn tenants_with_equal_names_of_sessions_share_nothing() {
    let (lab, keys, _) = with_keys(&["ann", "bob"]);
    for key in &keys {
        let mut client = Client::new(Dialect::Anthropic);
        client.headers = vec![("x-lookback-key", key.clone()), ("x-lookback-session", "mine".to_owned())];
        let answer = client.say(&lab, &format!("The words of {}", &key[..14]));
        assert_eq!((answer.status, answer.header("x-lookback-line")), (200, Some("new")));
    }
    let names = |tenant: &str| {
        let store = lab.store.scoped(&tenant.parse().unwrap()).unwrap();
        futures_lite::future::block_on(store.list("")).unwrap().len()
    };
    assert_eq!((names("ann"), names("bob")), (1, 1));
    assert!(futures_lite::future::block_on(lab.store.list("")).unwrap().is_empty());
}

#[test]
fn who_asks_too_often_is_told_when_to_ask_again() {
    let lab = Lab::configured("[[upstream]]\nurl = \"UPSTREAM\"\n[limits]\nrequests-per-minute = 2\n");
    let mut client = Client::new(Dialect::OpenAiChat);
    assert_eq!([client.say(&lab, "1").status, client.say(&lab, "2").status], [200, 200]);
    let answer = client.say(&lab, "3");
    assert_eq!(answer.status, 429, "{}", answer.body);
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&after), "{after}");
    // The error must not read like one about a conversation that is too long.
    assert_eq!(
        Dialect::OpenAiChat.provider_error(Some(429), &answer.body),
        lookback_wire::dialect::ProviderError::Other
    );
    assert_eq!(lab.send("POST", "/v1/chat/completions", &[("authorization", "Bearer other")], "{}").status, 400);
}

#[test]
fn who_has_too_much_open_waits() {
    let lab = Lab::configured("[[upstream]]\nurl = \"UPSTREAM\"\n[limits]\nconcurrent = 1\n");
    lab.stand_in.fail_next(Fault::Wait(Duration::from_secs(3)));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| Client::new(Dialect::OpenAiChat).say(&lab, "1").status);
        while lab.stand_in.count() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(Client::new(Dialect::OpenAiChat).say(&lab, "2").status, 429);
        assert_eq!(slow.join().unwrap(), 200);
    });
    assert_eq!(Client::new(Dialect::OpenAiChat).say(&lab, "3").status, 200);
}

#[test]
fn what_is_too_large_or_too_deep_is_refused_in_words_that_no_client_takes_for_an_overflow() {
    let lab = Lab::configured("[[upstream]]\nurl = \"UPSTREAM\"\n[limits]\nbody = 1000\nnesting = 20\n");
    for (body, words) in [("x".repeat(1001), "more bytes"), ("[".repeat(21), "nested deeper")] {
        for (path, dialect) in [("/v1/messages", Dialect::Anthropic), ("/v1/responses", Dialect::OpenAiResponses)] {
            let answer = lab.send("POST", path, &[], &body);
            assert_eq!(answer.status, 400, "{}", answer.body);
            assert!(answer.body.contains(words), "{}", answer.body);
            assert_eq!(dialect.provider_error(Some(400), &answer.body), lookback_wire::dialect::ProviderError::Other);
        }
    }
    assert_eq!(lab.stand_in.count(), 0);
}

#[test]
fn an_upstream_that_is_silent_is_not_waited_for_forever() {
    let lab = Lab::configured("[[upstream]]\nurl = \"UPSTREAM\"\n[timeouts]\nanswer = 2\npause = 1\n");
    lab.stand_in.fail_next(Fault::Wait(Duration::from_secs(60)));
    let answer = Client::new(Dialect::Anthropic).say(&lab, "Hi");
    assert_eq!(answer.status, 504, "{}", answer.body);
    // An answer that has begun is cut off, without an invented end.
    lab.stand_in.fail_next(Fault::Stall);
    let mut client = Client::new(Dialect::Anthropic);
    client.messages.push(client.said("user", "Hi"));
    let answer = client.ask(&lab);
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    // A stream is cut off, too, after the part that arrived.
    lab.stand_in.fail_next(Fault::Stall);
    let mut client = Client { stream: true, ..client };
    client.messages[0] = client.said("user", "Hello");
    let agent = ureq::Agent::new_with_defaults();
    let sent = agent.post(format!("{}{}", lab.base, client.path())).header("authorization", "Bearer k");
    let mut came = Vec::new();
    let broken = sent.send(client.body().to_string()).unwrap().body_mut().as_reader().read_to_end(&mut came);
    assert!(broken.is_err(), "no end is made up: {}", String::from_utf8_lossy(&came));
    assert!(String::from_utf8_lossy(&came).starts_with("event: message_start"), "{}", String::from_utf8_lossy(&came));
}

#[test]
fn a_request_goes_where_its_model_says_and_nowhere_else() {
    let (other, elsewhere) = StandIn::start();
    let config = format!(
        "[[upstream]]\nurl = \"UPSTREAM\"\n[[upstream]]\nurl = \"{elsewhere}\"\nname = \"other\"\nmodels = [\"m*\"]\n"
    );
    let lab = Lab::configured(&config);
    assert_eq!(Client::new(Dialect::OpenAiChat).say(&lab, "Hi").status, 200);
    assert_eq!((other.count(), lab.stand_in.count()), (1, 0));
    let named = [("x-lookback-upstream", "https://evil.example")];
    assert_eq!(lab.send("POST", "/v1/messages", &named, "{}").status, 404);
    assert_eq!((other.count(), lab.stand_in.count()), (1, 0));
}

#[test]
fn a_gateway_with_a_certificate_listens_for_tls() {
    let folder = std::env::temp_dir().join(format!("lookback-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let make = "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost";
    let made = Command::new("openssl").current_dir(&folder).args(make.split(' ')).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let config = "[[upstream]]\nurl = \"http://127.0.0.1:9\"\n[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n";
    let config = Config::from_toml(config).unwrap().within(&folder);
    let base = serve(Gateway::new(MemoryStore::new()).with_config(config));
    let asked = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-servername", "localhost", "-CAfile"])
        .arg(folder.join("cert.pem"))
        .args(["-connect", base.strip_prefix("http://").unwrap()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut asked = asked.unwrap();
    let mut input = asked.stdin.take().unwrap();
    input.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    asked.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    drop(input);
    let _ = asked.wait();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
    // The error about an invalid certificate names the file.
    std::fs::write(folder.join("cert.pem"), "no certificate").unwrap();
    let config = "[[upstream]]\nurl = \"http://127.0.0.1:9\"\n[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n";
    let wrong = Config::from_toml(config).unwrap().within(&folder).check().unwrap_err();
    assert!(wrong.to_string().ends_with("cert.pem: there is no certificate in PEM"), "{wrong}");
    std::fs::remove_dir_all(&folder).unwrap();
}
