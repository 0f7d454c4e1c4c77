//! Stages of a policy that meet at one tool result.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use lookback_core::{Dialect, Engine, Limits, Policy, Settings, Stage};

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
        vec![Stage::ClearMedia { keep: 0 }, Stage::ClearResults { keep: 0 }],
        vec![Stage::ClearResults { keep: 0 }, Stage::ClearMedia { keep: 0 }],
    ] {
        // A limit that clearing alone does not meet, so that each window tries.
        let policy = Policy { limits: Limits::tokens(20), stages, ..Policy::default() };
        let mut engine = Engine::new(Settings { dialect: Dialect::Bedrock, policy, ..Settings::default() });
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
