//! Several stages of a policy that change the same tool result.

use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy, Stage},
};
use lookback_tokens::cut::Truncation;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};

const ROUND: [&str; 3] = [
    r#"{"role":"user","content":[{"text":"Look"}]}"#,
    r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"look","input":{}}}]}"#,
    r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"image":{"format":"png","source":{"bytes":"iVBO"}}},{"text":"a long description of the picture that was taken"}]}}]}"#,
];
const REST: [&str; 3] = [
    r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c2","name":"look","input":{}}}]}"#,
    r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c2","content":[{"text":"nothing"}]}}]}"#,
    r#"{"role":"assistant","content":[{"text":"I see."}]}"#,
];

#[test]
fn a_result_that_is_cleared_stays_as_it_is() {
    for stages in [
        vec![Stage::ClearMedia { except_newest: 0 }, Stage::ClearResults { except_newest: 0, marker: None }],
        vec![Stage::ClearResults { except_newest: 0, marker: None }, Stage::ClearMedia { except_newest: 0 }],
    ] {
        // A limit that clearing alone cannot meet, so each window tries again.
        let policy = Policy { limits: Limits::tokens(20), stages, ..Policy::unlimited() };
        let mut engine = Engine::new(Settings::default().dialect(Dialect::Bedrock).policy(policy));
        for message in ROUND.into_iter().chain(REST) {
            engine.push(Dialect::Bedrock.decode(message).unwrap()).unwrap();
        }
        assert!(!engine.window().entries.is_empty());
        let encode = |engine: &Engine| -> Vec<String> {
            let sent = Dialect::Bedrock.encode(engine.view().shown()).unwrap();
            sent.iter().map(|raw| raw.get().to_owned()).collect()
        };
        let sent = encode(&engine);
        assert!(sent.concat().contains("cleared"));
        for _ in 0..3 {
            assert!(engine.window().entries.is_empty());
            assert_eq!(encode(&engine), sent);
        }
    }
}

#[test]
fn long_inputs_of_old_calls_are_cleared_in_every_dialect() {
    let stages = vec![Stage::ClearInputs { longest: 100, except_newest: 1, marker: None }];
    for dialect in Dialect::ALL {
        let policy = Policy {
            limits: Limits { bytes: Some(2_000), ..Limits::default() },
            stages: stages.clone(),
            ..Policy::unlimited()
        };
        let mut engine = Engine::new(Settings::default().dialect(dialect).policy(policy.with_entry_numbers()));
        engine.push(Message::user("Write them.")).unwrap();
        for number in 0..3 {
            let (id, content) = (format!("c{number}"), format!("line {number}\n").repeat(100));
            let arguments = serde_json::json!({"path": format!("{number}.txt"), "content": content});
            let call = ToolCall::new(&id, "write", arguments.to_string());
            engine.push(Message::assistant_with_calls("", [call])).unwrap();
            engine.push(Message::tool_result(&id, "done")).unwrap();
        }
        engine.window();
        let sent = dialect.encode(engine.view().shown()).unwrap();
        let request = lookback_wire::dialect::Request::from_raw(dialect, &sent).unwrap();
        assert!(dialect.check(&request).is_empty(), "{dialect}");
        let all: Vec<ToolCall> =
            request.messages().iter().flat_map(Message::tool_calls).map(|(_, call)| call.clone()).collect();
        let shown: Vec<serde_json::Value> =
            all.iter().map(|call| serde_json::from_str(&call.arguments).unwrap()).collect();
        assert_eq!(shown[0]["content"], "[700 characters cleared; entry 1 has them]", "{dialect}");
        assert_eq!(shown[0]["path"], "0.txt");
        assert_eq!(shown[1]["content"], "[700 characters cleared; entry 3 has them]");
        assert_eq!(shown[2]["content"].as_str().unwrap().len(), 700, "the newest round stays");
    }
}

#[test]
fn a_note_of_what_is_gone_names_the_entry_that_has_it() {
    let policy = Policy {
        arrival: Some(Truncation { head: 1_000, ..Truncation::default() }),
        stages: vec![Stage::ClearResults { except_newest: 0, marker: None }, Stage::Drop],
        ..Policy::unlimited()
    };
    let policy = policy.with_entry_numbers();
    let mut engine = Engine::new(Settings::default().policy(policy.clone()));
    engine.push(Message::user("Read it.")).unwrap();
    engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")])).unwrap();
    engine.push(Message::tool_result("c1", "x".repeat(3_000))).unwrap();
    let shown = |engine: &Engine| {
        let request = engine.view().encode(Dialect::OpenAiChat).unwrap();
        request.iter().map(|message| message.get().to_owned()).collect::<Vec<_>>().join("\n")
    };
    assert!(shown(&engine).contains("[... 2000 characters cut; entry 2 has them ...]"), "{}", shown(&engine));
    engine.push(Message::assistant("Done.")).unwrap();
    engine.compact(&Policy { limits: Limits { bytes: Some(600), ..Limits::default() }, ..policy });
    assert!(shown(&engine).contains("[tool result cleared: 3000 characters; entry 2 has them]"), "{}", shown(&engine));
}
