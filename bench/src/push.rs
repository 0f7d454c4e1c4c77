//! Measures the time and allocations of a push and its window, with 100, 10,000 and 1,000,000 messages of history.
//!
//! It also measures differing files, whose tokens are counted as they arrive.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy},
};
use lookback_models::Models;
use lookback_tokens::TokenCounter;
use lookback_wire::message::Message;

use crate::{alloc, compaction, median, message, time};

/// A counter that costs nothing, as if the text had already been counted.
#[derive(Debug)]
struct Counted;

impl TokenCounter for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn text(&self, text: &str) -> u64 {
        text.len() as u64 / 4
    }
}

const OPERATIONS: u64 = 2_000;

pub fn run() {
    println!("A push and the window after it (without store and encoding, text already counted)\n");
    println!(
        "{:<28} {:>12} {:>14} {:>11} {:>14} {:>14}",
        "policy", "history", "us/push+window", "push alone", "allocations", "bytes"
    );
    let policies = [
        (
            "messages 40 to 20",
            Policy { limits: Limits::messages(40), target: Some(Limits::messages(20)), ..Policy::unlimited() },
        ),
        ("messages 40", Policy { limits: Limits::messages(40), ..Policy::unlimited() }),
        (
            "tokens 32000 to 16000",
            Policy { limits: Limits::tokens(32_000), target: Some(Limits::tokens(16_000)), ..Policy::unlimited() },
        ),
        ("the earlier default", crate::corpus::earlier_default()),
        ("default", Policy::production()),
    ];
    let counted: Arc<dyn TokenCounter> = Arc::new(Counted);
    for (name, policy) in policies {
        measure(name, &policy, &counted, message, &[100, 10_000, 1_000_000]);
    }
    println!("\nThe same for differing files, with o200k counting each text\n");
    let o200k = Models::builtin().find("gpt-4o").map(lookback_tokens::counter).expect("a known model");
    for (name, policy) in [("the earlier default", crate::corpus::earlier_default()), ("default", Policy::production())]
    {
        measure(name, &policy, &o200k, |index| compaction::message(0, index), &[10_000]);
    }
    println!();
}

/// Measures a policy after histories of these lengths, and prints a line for each.
fn measure(
    name: &str,
    policy: &Policy,
    counter: &Arc<dyn TokenCounter>,
    message: fn(u64) -> Message,
    histories: &[u64],
) {
    let mut first = None;
    for &history in histories {
        let mut settings = Settings::default().policy(policy.clone());
        settings.counter = counter.clone();
        let mut engine = Engine::new(settings);
        for index in 0..history {
            step(&mut engine, message(index));
        }
        // The median of several stretches ignores disturbed ones.
        let stretches = (0..9).map(|stretch| {
            let from = history + stretch * OPERATIONS;
            let messages: Vec<_> = (from..from + OPERATIONS).map(message).collect();
            let before = alloc::so_far();
            let mut pushes = Duration::ZERO;
            let spent = time(|| {
                for message in messages {
                    pushes += step(&mut engine, message);
                }
            });
            let after = alloc::so_far();
            let each = |count: u64| count as f64 / OPERATIONS as f64;
            let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / OPERATIONS as f64;
            (micros(spent), each(after.0 - before.0), each(after.1 - before.1), micros(pushes))
        });
        let stretches: Vec<_> = stretches.collect();
        let spent = median(stretches.iter().map(|stretch| stretch.0));
        let calls = median(stretches.iter().map(|stretch| stretch.1));
        let bytes = median(stretches.iter().map(|stretch| stretch.2));
        let alone = median(stretches.iter().map(|stretch| stretch.3));
        let (base, base_bytes) = *first.get_or_insert((spent, bytes));
        println!(
            "{name:<28} {history:>12} {:>14} {alone:>11.2} {calls:>14.1} {:>14}",
            format!("{spent:.2} ({:.2}x)", spent / base),
            format!("{bytes:.0} ({:.2}x)", bytes / base_bytes)
        );
    }
}

/// Pushes a message, and returns the time of the push. It also makes a window, except between a tool call and its
/// result, when an agent does not call the model.
fn step(engine: &mut Engine, message: Message) -> Duration {
    let calls = message.tool_calls().next().is_some();
    let spent = time(|| drop(black_box(engine.push(message).expect("it can be said"))));
    if !calls {
        black_box(engine.window());
    }
    spent
}
