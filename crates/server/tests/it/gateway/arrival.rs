//! Results that the policy shortens as they arrive: before a provider has cached them, and the same way ever after.

use lookback_engine::policy::{Caps, Limits, Policy, Tokens};
use lookback_store::MemoryStore;
use lookback_wire::dialect::Request;

use super::*;

/// A policy that only shortens results, also if the model cannot read them back.
fn capping() -> Policy {
    let caps = Caps { file: 300, other: 100, names: 20, numbers: true, without_recall: 1 };
    Policy { caps: Some(caps), ..Policy::never_compact() }
}

fn long(what: &str) -> String {
    (0..200).map(|line| format!("{what} {line}: GET /items/{line}?page={line} 200 0.{line}s\n")).collect()
}

/// Has the model call a tool, and returns the request with the result as the upstream got it.
fn read_something(lab: &Lab, client: &mut Client, what: &str) -> String {
    let words = format!("Look at {what}. CALL read {{\"path\":\"{what}\",\"pattern\":\"x\"}}");
    client.messages.push(client.said("user", &words));
    let asked = client.ask(lab);
    client.messages.extend(replies(client.dialect, &asked.body));
    let request = Request::decode(client.body().to_string(), Some(client.dialect)).unwrap();
    let (_, call) = request.messages().iter().rev().flat_map(|message| message.tool_calls()).next().unwrap();
    client.messages.push(client.result(&call.id, &long(what)));
    let answer = client.ask(lab);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let sent = String::from_utf8(lab.stand_in.last().unwrap().body.to_vec()).unwrap();
    client.messages.extend(replies(client.dialect, &answer.body));
    sent
}

/// Returns the messages of a body, as they were written.
fn messages(dialect: Dialect, body: &str) -> Vec<String> {
    let request = Request::decode(body, Some(dialect)).unwrap();
    request.messages().iter().map(|message| message.wire().unwrap().raw.get().to_owned()).collect()
}

#[test]
fn a_result_is_shortened_when_it_is_new_and_the_same_way_ever_after() {
    for dialect in DIALECTS {
        let store = Arc::new(MemoryStore::new());
        let labs = [0, 1].map(|_| Lab::on(store.clone(), Some(capping())));
        let mut client = Client::new(dialect);
        let mut before: Vec<String> = Vec::new();
        for (turn, what) in ["a.log", "b.log", "c.log", "d.log"].iter().enumerate() {
            let sent = messages(dialect, &read_something(&labs[turn % 2], &mut client, what));
            assert_eq!(sent[..before.len()], before[..], "{dialect}: cached messages stay as they were");
            let newest = sent.last().unwrap();
            assert!(newest.contains("lines cut") && newest.len() < 1_500, "{dialect}: {newest}");
            before = sent;
        }
        assert!(labs.iter().all(|lab| lab.stand_in.report().refused.is_empty()));
        let cut = client.ask(&labs[0]);
        assert_eq!(cut.header("x-lookback-cut"), Some("16 of 16 messages sent, 4 of them shortened"), "{dialect}");
        // The log has all of it.
        let texts = labs[0].texts(cut.session());
        assert!(texts.len() >= 12, "{texts:?}");
    }
}

#[test]
fn what_a_provider_may_have_cached_is_not_shortened() {
    for dialect in DIALECTS {
        let plain = Lab::new(Some(Policy::never_compact()));
        let lab = Lab::new(Some(capping()));
        let mut client = Client::new(dialect);
        read_something(&plain, &mut client, "a.log");
        // The client comes to the gateway in the middle of its conversation.
        let sent = read_something(&lab, &mut client, "b.log");
        assert!(sent.contains("a.log 100: GET"), "{dialect}: it was sent before as it is");
        assert!(!sent.contains("b.log 100: GET"), "{dialect}: it is new");
    }
}

#[test]
fn a_cut_names_the_limit_that_was_exceeded_and_not_a_target() {
    let limits = Limits { body: Some(900), ..Limits::default() };
    let target = Limits { body: Some(500), tokens: Some(Tokens::Count(500)), ..Limits::default() };
    let lab = Lab::new(Some(Policy { limits, target: Some(target), ..Policy::unlimited() }));
    let mut client = Client::new(Dialect::Anthropic);
    let told = (0..40).find_map(|turn| {
        let answer = client.say(&lab, &format!("Question {turn}: {}", "some words ".repeat(10)));
        answer.header("x-lookback-compacted").map(str::to_owned)
    });
    let told = told.expect("a cut");
    assert!(told.ends_with(" exceed 900"), "{told}");
}

#[test]
fn without_a_way_to_read_back_the_default_shortens_less_and_a_retry_changes_nothing() {
    let lab = Lab::new(Some(Policy::production()));
    let mut client = Client::new(Dialect::OpenAiChat);
    let whole = read_something(&lab, &mut client, "a.log");
    assert!(whole.contains("a.log 100: GET"), "a model without recall sees all of it");
    let lab = Lab::new(Some(Policy::production()));
    let mut client = Client { tools: vec!["read", "mcp__memory__recall"], ..Client::new(Dialect::OpenAiChat) };
    let sent = read_something(&lab, &mut client, "a.log");
    assert!(!sent.contains("a.log 100: GET"), "a model with recall can read it");
    client.messages.pop();
    client.headers.push(("x-stainless-retry-count", "1".to_owned()));
    assert_eq!(client.ask(&lab).status, 200);
    assert_eq!(lab.stand_in.last().unwrap().body, sent);
}

#[test]
fn without_options_a_gateway_saves_where_the_model_can_read_back() {
    for (tools, saves) in [(vec!["read"], false), (vec!["read", "mcp__memory__recall"], true)] {
        let lab = Lab::new(None);
        let mut client = Client { tools, model: "gpt-4.1", ..Client::new(Dialect::OpenAiChat) };
        let sent = read_something(&lab, &mut client, "a.log");
        assert_eq!(!sent.contains("a.log 100: GET"), saves);
        let mut cuts = 0;
        for turn in 0..12 {
            let question = format!("Question {turn}. {}", "Tell me more about it, please. ".repeat(900));
            cuts += usize::from(client.say(&lab, &question).header("x-lookback-compacted").is_some());
        }
        // 80,000 tokens are far below 45 % of the model's context window.
        assert_eq!(cuts > 0, saves);
    }
}
