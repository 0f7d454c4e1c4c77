//! Signed reasoning of an open tool loop: the provider accepts it only after its original prefix, so only what follows
//! it may leave.

use lookback_engine::policy::{Index, Limits, Policy, Stage};
use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::{Dialect, Request};
use serde_json::json;

/// Runs a tool loop of 60 rounds, in which every `each`-th answer has signed reasoning. Returns the requests.
fn requests(policy: Policy, each: usize) -> Vec<Request> {
    let mut engine = Engine::new(Settings::default().dialect(Dialect::Anthropic).policy(policy));
    let push = |engine: &mut Engine, message: serde_json::Value| {
        engine.push(Dialect::Anthropic.decode(&message.to_string()).unwrap()).unwrap();
    };
    let mut requests: Vec<Request> = Vec::new();
    for number in 0..20 {
        push(
            &mut engine,
            json!({"role": "user", "content": format!("What about {number}? {}", "Tell me. ".repeat(20))}),
        );
        push(&mut engine, json!({"role": "assistant", "content": "Nothing much."}));
    }
    push(&mut engine, json!({"role": "user", "content": "Fix all of the tests."}));
    for number in 0..60 {
        let outcome = engine.window();
        assert!(outcome.exceeded.is_none());
        let sent = Dialect::Anthropic.encode(engine.view().shown()).unwrap();
        let request = Request::from_raw(Dialect::Anthropic, &sent).unwrap();
        let request = match requests.last() {
            Some(previous) => request.after(previous),
            None => request,
        };
        requests.push(request);
        let mut content = vec![json!({"type": "tool_use", "id": format!("c{number}"), "name": "test", "input": {}})];
        if number % each == 0 {
            let thought = format!("The test {number} fails.");
            content.insert(0, json!({"type": "thinking", "thinking": thought, "signature": format!("s{number}")}));
        }
        push(&mut engine, json!({"role": "assistant", "content": content}));
        let output = format!("test {number} failed at src/test_{number}.rs\n{}", "and more of it ".repeat(40));
        let result = json!({"type": "tool_result", "tool_use_id": format!("c{number}"), "content": output});
        push(&mut engine, json!({"role": "user", "content": [result]}));
    }
    requests
}

fn policy() -> Policy {
    let index = Some(Index::default());
    let (limits, target) = (Limits::body(2_000), Some(Limits::body(1_000)));
    Policy { limits, target, caps: None, repeats: None, index, ..Policy::production() }
}

fn assert_accepted(requests: &[Request]) {
    for (number, request) in requests.iter().enumerate() {
        let findings = Dialect::Anthropic.check(request);
        assert!(findings.is_empty(), "{number}: {findings:?}");
    }
}

fn largest(requests: &[Request]) -> usize {
    requests.iter().map(|request| request.messages().len()).max().unwrap_or_default()
}

#[test]
fn in_a_loop_with_reasoning_at_its_beginning_what_follows_leaves() {
    let requests = requests(policy(), usize::MAX);
    assert_accepted(&requests);
    // Of the 120 messages of the loop, the window has at most those of a quarter of the limit and the open round.
    let before = requests[1].messages().len();
    assert!(largest(&requests) < before + 16, "{before} {}", largest(&requests));
    let last = requests.last().unwrap().messages();
    assert!(last.iter().any(|message| message.text().contains("Fix all of the tests.")));
    // The loop has an index of its own, behind its reasoning.
    assert!(last.iter().any(|message| message.text().contains("[Names") && message.text().contains(" test_1.rs")));
}

#[test]
fn in_a_loop_with_reasoning_in_each_answer_nothing_leaves() {
    let requests = requests(policy(), 1);
    assert_accepted(&requests);
    assert_eq!(requests.last().unwrap().messages().len() - requests[1].messages().len(), 2 * 58);
}

#[test]
fn in_a_loop_with_some_reasoning_the_last_of_it_binds() {
    let requests = requests(policy(), 25);
    assert_accepted(&requests);
    let all = requests.last().unwrap().messages().len() - requests[1].messages().len();
    assert!((20..2 * 58).contains(&all), "{all}");
}

#[test]
fn an_index_of_results_that_were_cleared_stands_behind_the_reasoning() {
    let clear = Stage::ClearResults { except_newest: 1, marker: None };
    let requests = requests(Policy { stages: vec![clear], ..policy() }, usize::MAX);
    assert_accepted(&requests);
    let last = requests.last().unwrap().messages();
    let thought = last.iter().position(|message| message.text().contains("The test 0 fails.")).unwrap();
    let index = last.iter().position(|message| message.text().contains("[Names")).unwrap();
    assert!(thought < index, "{thought} {index}");
}
