//! Tools that a message loads: the model can call them as long as the message is there, so the newest stays.

use lookback_engine::policy::{Limits, Policy};
use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::{Dialect, Preamble, Request};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

fn settings(dialect: Dialect) -> Settings {
    let (limits, target) = (Limits::body(2_000), Some(Limits::body(800)));
    let policy = Policy { limits, target, ..Policy::production() };
    Settings::for_model(dialect, "claude-opus-4-6").policy(policy)
}

/// Runs a conversation that loads a tool, then the same again, and then talks for long. Returns the requests.
fn requests(dialect: Dialect, preamble: Option<Value>, load: impl Fn(u32) -> Vec<Value>) -> (Engine, Vec<Request>) {
    let mut engine = Engine::new(settings(dialect));
    if let Some(tools) = preamble {
        let tools: Option<Box<RawValue>> = Some(to_raw_value(&tools).unwrap());
        let mut preamble = Preamble::default();
        preamble.tools = tools;
        engine.set_preamble(&preamble);
    }
    let push = |engine: &mut Engine, message: Value| {
        engine.push(dialect.decode(&message.to_string()).unwrap()).unwrap();
    };
    let mut requests = Vec::new();
    for number in 0..80 {
        push(&mut engine, json!({"role": "user", "content": format!("Question {number}. {}", "Tell me. ".repeat(20))}));
        if number == 2 || number == 5 {
            load(number).into_iter().for_each(|message| push(&mut engine, message));
        }
        engine.window();
        let sent = dialect.encode(engine.view().shown()).unwrap();
        requests.push(Request::from_raw(dialect, &sent).unwrap());
        push(
            &mut engine,
            json!({"role": "assistant", "content": format!("Answer {number}. {}", "So it is. ".repeat(30))}),
        );
    }
    (engine, requests)
}

/// Checks that each request after the first load has the newest, and that the last has only that.
fn check(requests: &[Request]) {
    for (number, request) in requests.iter().enumerate() {
        assert!(request.dialect().check(request).is_empty(), "{number}: {:?}", request.dialect().check(request));
        let loads = request.messages().iter().filter(|message| !message.loaded().is_empty()).count();
        assert_eq!(loads > 0, number >= 2, "{number}");
    }
    let last = requests.last().unwrap();
    let loaded: Vec<_> =
        last.messages().iter().flat_map(|message| message.loaded()).flat_map(|(_, names)| names).collect();
    assert_eq!(loaded, ["rate"]);
    assert!(last.messages().len() < 40);
}

#[test]
fn a_tool_that_a_result_loads_stays_with_its_call() {
    let declared = json!([
        {"name": "find", "input_schema": {"type": "object"}},
        {"name": "rate", "description": "Looks up a rate. ".repeat(60), "defer_loading": true, "input_schema": {"type": "object"}},
    ]);
    let load = |number: u32| {
        let id = format!("c{number}");
        vec![
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "find", "input": {"query": "rate"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": [{"type": "tool_reference", "tool_name": "rate"}]}]}),
        ]
    };
    let (engine, requests) = requests(Dialect::Anthropic, Some(declared), load);
    check(&requests);
    // The provider shows the model the whole tool in place of the reference.
    let item = engine.view().messages().find(|item| !item.message().loaded().is_empty()).unwrap();
    assert!(item.size().tokens > 200, "{:?}", item.size());
}

#[test]
fn tools_that_a_search_has_found_stay() {
    let found = json!([{"type": "function", "name": "rate", "defer_loading": true, "parameters": {"type": "object"}}]);
    for execution in ["client", "server"] {
        let load = |number: u32| {
            let id = format!("c{number}");
            vec![
                json!({"type": "tool_search_call", "call_id": id, "execution": execution, "status": "completed", "arguments": {"query": "rate"}}),
                json!({"type": "tool_search_output", "call_id": id, "execution": execution, "status": "completed", "tools": found}),
            ]
        };
        check(&requests(Dialect::OpenAiResponses, None, load).1);
    }
}

#[test]
fn tools_that_the_application_adds_stay() {
    let added = json!([{"type": "function", "name": "rate", "parameters": {"type": "object"}}]);
    let load = |_| vec![json!({"type": "additional_tools", "role": "developer", "tools": added})];
    check(&requests(Dialect::OpenAiResponses, None, load).1);
}

#[test]
fn other_functions_of_a_namespace_do_not_replace_those_that_were_found_before() {
    let load = |number: u32| {
        let id = format!("c{number}");
        let tools = json!([{"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": format!("f{number}")}]}]);
        vec![
            json!({"type": "tool_search_call", "call_id": id, "execution": "client", "status": "completed", "arguments": {}}),
            json!({"type": "tool_search_output", "call_id": id, "execution": "client", "status": "completed", "tools": tools}),
        ]
    };
    let (_, requests) = requests(Dialect::OpenAiResponses, None, load);
    let last = requests.last().unwrap();
    let loaded = last.messages().iter().flat_map(|message| message.loaded()).flat_map(|(_, names)| names);
    assert_eq!(loaded.collect::<Vec<_>>(), ["crm/f2", "crm/f5"]);
}

#[test]
fn results_beside_a_loaded_tool_are_cleared_and_the_load_stays_whole() {
    let load = |number: u32| {
        let (id, other) = (format!("c{number}"), format!("d{number}"));
        let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
        let call = |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        vec![
            json!({"role": "assistant", "content": [call(&id, "find"), call(&other, "read")]}),
            json!({"role": "user", "content": [
                result(&id, json!([{"type": "tool_reference", "tool_name": "rate"}])),
                result(&other, json!("a line of a long output\n".repeat(60))),
            ]}),
        ]
    };
    let (_, requests) = requests(Dialect::Anthropic, None, load);
    let sent: String =
        requests.last().unwrap().messages().iter().map(|message| message.wire().unwrap().raw.get()).collect();
    assert!(sent.contains("tool_reference") && sent.contains("tool result cleared"), "{sent}");
    assert!(!sent.contains("a line of a long output\\na line of a long output"), "{sent}");
}

#[test]
fn a_tool_that_one_message_loads_many_times_counts_once() {
    let tools = json!([{"name": "rate", "description": "Looks up a rate. ".repeat(60), "defer_loading": true, "input_schema": {"type": "object"}}]);
    let size = |times: usize| {
        let mut engine = Engine::new(settings(Dialect::Anthropic));
        let mut preamble = Preamble::default();
        preamble.tools = Some(to_raw_value(&tools).unwrap());
        engine.set_preamble(&preamble);
        let references = vec![json!({"type": "tool_reference", "tool_name": "rate"}); times];
        for message in [
            json!({"role": "user", "content": "Go."}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": references}]}),
        ] {
            engine.push(Dialect::Anthropic.decode(&message.to_string()).unwrap()).unwrap();
        }
        engine.view().messages().last().unwrap().size().tokens
    };
    let (none, once, often) = (size(0), size(1), size(5));
    assert!(once > none + 200, "{none} {once}");
    assert!(often < once + 4 * 100, "{once} {often}");
}
