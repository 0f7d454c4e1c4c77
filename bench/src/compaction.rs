//! Measures a compaction of a window of 64,000 tokens, under the default policy and the earlier default policy.

use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy},
};
use lookback_models::Models;
use lookback_wire::message::{Message, ToolCall};

use crate::{corpus, median, time};

const TIMES: u64 = 15;

pub fn run() {
    println!("A compaction of a window of 64,000 tokens (o200k, without store and encoding)\n");
    println!("{:<22} {:>10} {:>10} {:>12} {:>12}", "policy", "median, ms", "longest", "tokens before", "after");
    let earlier = corpus::earlier_default();
    // The default has smaller windows. This one has higher limits, and none for a cold cache. Its other parts work.
    let limits = Limits { body: Some(64_000), ..Policy::production().limits };
    let default = Policy { limits, cold: None, ..Policy::production() };
    for (name, policy) in [("the earlier default", earlier), ("default, from 64,000", default)] {
        let runs: Vec<(f64, u64, u64)> = (0..TIMES).map(|run| compacted(&policy, run)).collect();
        let longest = runs.iter().map(|run| run.0).fold(0.0, f64::max);
        let (_, before, after) = runs[0];
        println!("{name:<22} {:>10.2} {longest:>10.2} {before:>12} {after:>12}", median(runs.iter().map(|run| run.0)));
    }
    println!();
}

/// Returns the milliseconds of the first compaction of a session of tool calls, and the tokens before and after it.
fn compacted(policy: &Policy, seed: u64) -> (f64, u64, u64) {
    let counter = Models::builtin().find("gpt-4o").map(lookback_tokens::counter).expect("a known model");
    let mut settings = Settings::default().policy(policy.clone());
    settings.counter = counter;
    let mut engine = Engine::new(settings);
    let push = |engine: &mut Engine, index| drop(engine.push(message(seed, index)).expect("it can be said"));
    push(&mut engine, 0);
    for call in 0.. {
        push(&mut engine, 2 * call + 1);
        push(&mut engine, 2 * call + 2);
        let before = engine.view().totals().size.tokens;
        let mut compacts = false;
        let spent = time(|| compacts = engine.window().plan.is_some());
        if compacts {
            return (spent.as_secs_f64() * 1e3, before, engine.view().totals().size.tokens);
        }
    }
    unreachable!("the window grows")
}

/// Returns a message of a session of tool calls: first the task, then calls and results in turn.
pub fn message(seed: u64, index: u64) -> Message {
    let Some(index) = index.checked_sub(1) else { return Message::user("Make the tests pass.") };
    let call = index / 2;
    let id = format!("call_{call}");
    if index % 2 == 1 {
        return Message::tool_result(&id, file(seed, call));
    }
    let path = format!(r#"{{"path":"src/module_{seed}/part_{}.rs"}}"#, call % 40);
    Message::assistant_with_calls("Let me look.", [ToolCall::new(&id, "read_file", path)])
}

/// Returns a tool's output for a file. Every fourth output repeats an earlier one.
fn file(seed: u64, call: u64) -> String {
    let shown = if call % 4 == 3 { call - 3 } else { call };
    let line = |line: u64| {
        let name = (seed * 7_919 + shown * 104_729 + line * 31) % 9_973;
        format!("{line:>5}\t    let value_{name} = read_field(&self.part_{shown}, {name})?; // see issue {line}\n")
    };
    (1..60 + (call * 37) % 90).map(line).collect()
}
