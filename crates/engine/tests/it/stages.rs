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
