//! Access to a gateway without keys: programs on its machine, and the hosts and pages that it is configured to allow.

use super::access::with_keys;
use super::*;

/// A browser's headers for a page of another site, and for a page whose own host name resolves to this machine.
const FOREIGN: [&[(&str, &str)]; 7] = [
    &[("origin", "https://evil.example")],
    &[("origin", "http://localhost:3000")],
    &[("origin", "null")],
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")],
    &[("host", "evil.example")],
    &[("host", "evil.example:80"), ("origin", "http://evil.example:80")],
];

const READ: [&str; 9] = [
    "/",
    "/v1/models",
    "/v1beta/models",
    "/healthz",
    "/readyz",
    "/metrics",
    "/lookback/v1/sessions",
    "/lookback/openapi.json",
    "/inspect/",
];

#[test]
fn without_keys_no_web_page_reaches_anything() {
    let lab = Lab::new(None);
    for foreign in FOREIGN {
        for dialect in DIALECTS {
            let mut client = Client::new(dialect);
            client.headers = foreign.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            let answer = client.say(&lab, "Write my secrets.");
            assert_eq!(answer.status, 403, "{foreign:?} {dialect:?}: {}", answer.body);
            let told: Value = serde_json::from_str(&answer.body).unwrap();
            let kind = if dialect == Dialect::Gemini { &told["error"]["status"] } else { &told["error"]["type"] };
            let expected = if dialect == Dialect::Gemini { "PERMISSION_DENIED" } else { "permission_error" };
            assert_eq!(kind, expected, "{told}");
            let names = if foreign[0].0 == "host" { "--allow-host" } else { "--allow-origin" };
            assert!(told["error"]["message"].as_str().unwrap().contains(names), "{told}");
            assert_eq!(dialect.provider_error(Some(403), &answer.body), lookback_wire::dialect::ProviderError::Other);
        }
        for path in READ {
            assert_eq!(lab.send("GET", path, foreign, "").status, 403, "{foreign:?} {path}");
        }
        for path in ["/mcp", "/v1/files", "/lookback/v1/sessions/a/facts"] {
            assert_eq!(lab.send("POST", path, foreign, "{}").status, 403, "{foreign:?} {path}");
        }
        assert_eq!(lab.send("OPTIONS", "/v1/messages", foreign, "").status, 403, "{foreign:?}");
    }
    assert_eq!(lab.stand_in.count(), 0, "nothing of this goes upstream");
    let refused = FOREIGN.len() * (DIALECTS.len() + READ.len() + 3 + 1);
    let counted = format!("lookback_answers_total{{status=\"4xx\"}} {refused}\n");
    assert!(lab.send("GET", "/metrics", &[], "").body.contains(&counted));
}

#[test]
fn programs_of_this_machine_are_served_however_they_name_it() {
    let lab = Lab::new(None);
    let port = lab.base.rsplit_once(':').unwrap().1;
    let own = lab.base.strip_prefix("http://").unwrap();
    for host in ["localhost", "127.0.0.1", "[::1]:1", own, &format!("LocalHost:{port}")] {
        let mut client = Client::new(Dialect::OpenAiChat);
        client.headers = vec![("host", host.to_owned())];
        assert_eq!(client.say(&lab, host).status, 200, "{host}");
    }
    // Node sends how it fetches, and a browser sends that the gateway's own page asks.
    let page = [("origin", lab.base.as_str()), ("sec-fetch-site", "same-origin")];
    for headers in [&[("sec-fetch-mode", "cors")][..], &page, &[("sec-fetch-site", "none")]] {
        assert_eq!(lab.send("GET", "/v1/models", headers, "").status, 200, "{headers:?}");
    }
    // The inspector may be opened by a link from another site. Other paths may not.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(lab.send("GET", "/inspect/", &link, "").status, 200);
    assert_eq!(lab.send("GET", "/v1/models", &link, "").status, 403);
    let framed = [link[0], link[1], ("sec-fetch-dest", "iframe")];
    assert_eq!(lab.send("GET", "/inspect/", &framed, "").status, 403);
}

#[test]
fn a_host_that_is_named_may_call_models_and_reads_nothing_that_is_kept() {
    let lab = Lab::configured("hosts = [\"lookback\", \"gateway.lan:8787\"]\n[[upstream]]\nurl = \"UPSTREAM\"\n");
    for (host, status) in [
        ("lookback", 200),
        ("Lookback:8787", 200),
        ("gateway.lan:8787", 200),
        ("gateway.lan", 403),
        ("lookback.evil.example", 403),
    ] {
        let mut client = Client::new(Dialect::Anthropic);
        client.headers = vec![("host", host.to_owned())];
        assert_eq!(client.say(&lab, host).status, status, "{host}");
        assert_eq!(lab.send("GET", "/metrics", &[("host", host)], "").status, status, "{host}");
        // A proxy may let anybody in.
        for path in ["/lookback/v1/sessions", "/inspect/"] {
            assert_eq!(lab.send("GET", path, &[("host", host)], "").status, 403, "{host}");
        }
    }
}

#[test]
fn a_page_that_is_named_may_call_models_and_is_told_so() {
    let lab = Lab::configured("origins = [\"https://app.example\"]\n[[upstream]]\nurl = \"UPSTREAM\"\n");
    let page = [("origin", "https://app.example"), ("sec-fetch-site", "cross-site")];
    let asks =
        [&page[..], &[("access-control-request-method", "POST"), ("access-control-request-headers", "x-api-key")]];
    let asked = lab.send("OPTIONS", "/v1/messages", &asks.concat(), "");
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, Some("https://app.example")));
    assert_eq!(asked.header("access-control-allow-headers"), Some("x-api-key"));
    assert_eq!(lab.stand_in.count(), 0, "the gateway answers that itself");
    let mut client = Client::new(Dialect::Anthropic);
    client.headers = page.map(|(name, value)| (name, value.to_owned())).to_vec();
    let answer = client.say(&lab, "Hi");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("https://app.example")));
    assert_eq!(lab.send("GET", "/lookback/v1/sessions", &page, "").status, 403);
    for other in ["https://evil.example", "http://app.example", "https://app.example.evil.example"] {
        let answer = lab.send("POST", "/v1/messages", &[("origin", other)], "{}");
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{other}");
    }
}

#[test]
fn a_gateway_on_all_addresses_has_any_of_them_and_no_other_name() {
    let (_stand_in, upstream) = stand_in::StandIn::start();
    let gateway = Gateway::new(MemoryStore::new()).with_upstream(upstream.parse().unwrap());
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || gateway.serve("0.0.0.0:0".parse().unwrap(), |address| send.send(address).unwrap()));
    let base = format!("http://127.0.0.1:{}", receive.recv().unwrap().port());
    let lab = Lab { base, ..Lab::new(None) };
    for (host, status) in [("localhost", 200), ("192.168.1.5:8787", 200), ("[fd00::2]", 200), ("evil.example", 403)] {
        assert_eq!(lab.send("GET", "/v1/models", &[("host", host)], "").status, status, "{host}");
    }
}

#[test]
fn with_keys_a_request_may_come_from_anywhere() {
    let (lab, keys, _) = with_keys(&["ann"]);
    for elsewhere in [("host", "gateway.example"), ("origin", "https://app.example")] {
        let mut client = Client::new(Dialect::Anthropic);
        client.headers = vec![("x-lookback-key", keys[0].clone()), (elsewhere.0, elsewhere.1.to_owned())];
        assert_eq!(client.say(&lab, "Hi").status, 200, "{elsewhere:?}");
    }
    // A browser that knows a key sends it for every page. No page of another site may read what is stored.
    let key = ("x-lookback-key", keys[0].as_str());
    for foreign in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        for path in ["/inspect/", "/lookback/v1/sessions"] {
            assert_eq!(lab.send("GET", path, &[key, foreign], "").status, 403, "{foreign:?} {path}");
        }
    }
}

#[test]
fn what_is_no_host_or_no_origin_is_told() {
    let wrong = |line: &str| {
        let text = format!("{line}\n[[upstream]]\nurl = \"https://a.example\"\n");
        let error = Config::from_toml(&text).unwrap().check().unwrap_err();
        assert_eq!(error.line_in(&text), Some(1), "{line}");
        error.to_string()
    };
    for host in ["http://gateway.lan", "gateway.lan/", "*", ""] {
        assert!(wrong(&format!("hosts = [\"{host}\"]")).contains("is not a host; --allow-host"), "{host}");
    }
    for origin in ["app.example", "https://app.example/", "null", "*"] {
        assert!(wrong(&format!("origins = [\"{origin}\"]")).contains("is not an origin; --allow-origin"), "{origin}");
    }
}
