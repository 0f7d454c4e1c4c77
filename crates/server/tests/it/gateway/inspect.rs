//! The inspector of the gateway: a browser sees only the sessions of its key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lookback_wire::dialect::Dialect;

use super::access::with_keys;
use super::{Client, Lab};

#[test]
fn without_keys_this_machine_sees_the_sessions() {
    let lab = Lab::new(None);
    let session = Client::new(Dialect::OpenAiChat).say(&lab, "a question about the heron").session().to_owned();
    let to = lab.send("GET", "/inspect", &[], "");
    assert_eq!((to.status, to.header("location")), (308, Some("/inspect/")));
    let overview = lab.send("GET", "/inspect/", &[], "");
    assert!(overview.status == 200 && overview.body.contains(&session), "{}", overview.body);
    let page = lab.send("GET", &format!("/inspect/session?name={}", session.replace('@', "%40")), &[], "");
    assert!(page.status == 200 && page.body.contains("a question about the heron"), "{}", page.body);
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    for refused in [("origin", "https://evil.example"), ("host", "evil.example")] {
        assert_eq!(lab.send("GET", "/inspect/", &[refused], "").status, 403);
    }
}

#[test]
fn a_browser_sends_a_key_as_the_password_and_sees_its_tenant_alone() {
    let (lab, keys, _) = with_keys(&["ann", "bob"]);
    for (key, words) in keys.iter().zip(["the words of ann", "the words of bob"]) {
        let mut client = Client::new(Dialect::Anthropic);
        client.headers = vec![("x-lookback-key", key.clone()), ("x-lookback-session", "mine".to_owned())];
        assert_eq!(client.say(&lab, words).status, 200);
    }
    let asked = lab.send("GET", "/inspect/", &[], "");
    assert_eq!(asked.status, 401);
    assert!(asked.header("www-authenticate").is_some_and(|asks| asks.starts_with("Basic ")));
    let basic = |key: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("me:{key}")));
    let [ann, bob] = [&keys[0], &keys[1]].map(|key| basic(key));
    for (given, own, other) in
        [(&ann, "the words of ann", "the words of bob"), (&bob, "the words of bob", "the words of ann")]
    {
        // Neither finds what the other has read.
        let found = lab.send("GET", "/inspect/?words=words", &[("authorization", given)], "");
        assert_eq!(found.status, 200, "{}", found.body);
        assert!(found.body.contains(own) && !found.body.contains(other), "{}", found.body);
        let listed = found.body.split("session?name=").nth(1).unwrap().split(['"', '#']).next().unwrap();
        let page = lab.send("GET", &format!("/inspect/session?name={listed}"), &[("authorization", given)], "");
        assert!(page.body.contains(own) && !page.body.contains(other), "{}", page.body);
    }
    let wrong = basic("lookback_wrong");
    assert_eq!(lab.send("GET", "/inspect/", &[("authorization", &wrong)], "").status, 401);
}
