//! The presets that are modeled on other systems, checked against vectors of those systems' behavior.

use crate::vectors::preset::hold;
use futures_lite::future::block_on;
use lookback_agent::{ContextFilter, Pipeline};
use lookback_engine::{Settings, policy::Policy};
use lookback_presets as presets;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};

#[test]
fn turn_window() {
    hold("turn-window", "presets/turn-window.json");
}

#[test]
fn rolling_summary() {
    hold("rolling-summary", "presets/rolling-summary.json");
}

#[test]
fn message_window() {
    hold("message-window", "presets/message-window.json");
}

#[test]
fn managed_window() {
    hold("managed-window", "presets/managed-window.json");
}

/// Returns the rounds that each call of a run sees, with `managed-window` as middleware.
fn rounds_as_stage(per_turn: &str) -> Vec<u64> {
    block_on(async {
        let settings = Settings::default().dialect(Dialect::Bedrock).policy(Policy::unlimited());
        let session = Session::open(MemoryStore::new(), "run", settings).await.unwrap();
        let policy = presets::named(&format!("managed-window:window_size=2,per_turn={per_turn}")).unwrap();
        let mut run = Pipeline::new(session).with(ContextFilter::new(policy)).with_iterations(6);
        run.start(Message::user("Find out why the build fails.")).await.unwrap();
        let mut rounds = Vec::new();
        while let Some(call) = run.next().await.unwrap() {
            rounds.push(call.view.totals().rounds);
            let asks = Message::assistant_with_calls("", [ToolCall::new(format!("c{}", call.iteration), "read", "{}")]);
            for tool in run.answered(asks, None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
        }
        rounds
    })
}

#[test]
fn a_stage_looks_at_its_limits_as_often_as_its_preset_does() {
    assert_eq!(rounds_as_stage("false"), [0, 1, 2, 3, 4, 5], "between turns");
    assert_eq!(rounds_as_stage("true"), [0, 1, 1, 1, 1, 1], "before every call");
    assert_eq!(rounds_as_stage("2"), [0, 1, 2, 1, 2, 1], "before every second call");
}
