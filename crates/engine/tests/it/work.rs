//! Work in progress: a compaction keeps the newest plan and the newest failure.

use lookback_engine::policy::{Keep, Limits, Policy};
use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};

fn policy(work: bool) -> Policy {
    let (limits, target) = (Limits::body(3_000), Some(Limits::body(1_200)));
    let production = Policy::production();
    Policy { limits, target, index: None, cold: None, keep: Keep { work, ..production.keep }, ..production }
}

/// Runs a session with a plan, a newer plan and a failure, and then 20 other rounds. Returns the last window.
fn window(dialect: Dialect, policy: Policy) -> String {
    let mut engine = Engine::new(Settings::default().dialect(dialect).policy(policy));
    let push = |engine: &mut Engine, message: Value| {
        engine.push(Dialect::OpenAiChat.decode(&message.to_string()).unwrap()).unwrap();
    };
    let steps = |done: &str| json!({"plan": [{"step": "Read the parser", "status": "done"}, {"step": "Fix the lexer", "status": done}]});
    push(&mut engine, json!({"role": "user", "content": "Fix the lexer."}));
    let mut calls = vec![
        ("plan", steps("open"), "Noted.".to_owned()),
        ("plan", steps("begun"), "Noted.".to_owned()),
        ("test", json!({"name": "lexer"}), "test lexer::comments ... FAILED\n0 passed; 1 failed".to_owned()),
    ];
    calls.extend(
        (0..20).map(|number| ("look", json!({"number": number}), format!("nothing of note in {number} ").repeat(60))),
    );
    for (number, (name, arguments, output)) in calls.into_iter().enumerate() {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"id": format!("c{number}"), "type": "function", "function": function});
        engine.window();
        push(&mut engine, json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        push(&mut engine, json!({"role": "tool", "tool_call_id": format!("c{number}"), "content": output}));
    }
    engine.window();
    let sent = dialect.encode(engine.view().shown()).unwrap();
    sent.iter().map(|message| message.get().to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_newest_plan_and_the_newest_failure_survive_a_cut_in_every_dialect() {
    for dialect in Dialect::ALL {
        let kept = window(dialect, policy(true));
        assert!(kept.contains("begun") && kept.contains("lexer::comments"), "{dialect}: {kept}");
        assert!(!kept.contains("open"), "{dialect}: the older plan leaves: {kept}");
        let without = window(dialect, policy(false));
        assert!(!without.contains("begun") && !without.contains("lexer::comments"), "{dialect}: {without}");
    }
}
