//! Measures a push into each module of `compat` after 100 to 100,000 messages, compared with installable originals.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use agentlib_core::{MemoryProvider as _, MemoryWriteOptions, ModelMessage, Role};
use futures_lite::future::block_on;
use lookback_compat::strands::{self, ConversationManager as _, SlidingWindowConversationManager};
use lookback_compat::{agentlib, crux, langchain4j};
use lookback_summarize::Function;
use lookback_wire::{dialect::Dialect, message::Message};

use crate::median;

const HISTORIES: [u64; 4] = [100, 1_000, 10_000, 100_000];
const STRETCHES: u64 = 9;
const OPERATIONS: u64 = 200;

pub fn run() {
    println!("A push into each face, in us, by the messages before it; in memory, each text of some 80 characters\n");
    let header = HISTORIES.map(|history| format!("{history:>12}")).concat();
    println!("{:<44}{header}", "face");
    let row = |name: &str, measured: Vec<f64>| {
        let cells: String = measured.iter().map(|spent| format!("{spent:>12.1}")).collect();
        println!("{name:<44}{cells}");
    };
    row("agentlib::SlidingWindowMemory", agentlib_face());
    row("  the original, agentlib-memory 0.1.0", agentlib_original());
    row("crux::SlidingWindow, batch 20", crux_face());
    row("langchain4j::MessageWindowChatMemory", langchain4j_face());
    row("strands::SlidingWindowConversationManager", strands_face());
    match strands_original() {
        Some(measured) => row("  the original, strands-agents from PyPI", measured),
        None => println!("  the original, strands-agents: not installed (see bench/strands.py)"),
    }
    println!();
}

/// Returns the microseconds of a push at each length of history, as the median of several stretches.
fn measure(mut push: impl FnMut(u64)) -> Vec<f64> {
    let mut next = 0;
    let mut at = |history: u64| {
        while next < history {
            push(next);
            next += 1;
        }
        let stretches = (0..STRETCHES).map(|_| {
            let begun = Instant::now();
            (0..OPERATIONS).for_each(|_| {
                push(next);
                next += 1;
            });
            begun.elapsed().as_secs_f64() * 1e6 / OPERATIONS as f64
        });
        median(stretches.collect::<Vec<_>>())
    };
    HISTORIES.map(&mut at).to_vec()
}

fn text(index: u64) -> String {
    format!("Message {index} of a conversation about the module in src/file_{index}.rs and what it does")
}

fn message(index: u64) -> Message {
    if index.is_multiple_of(2) { Message::user(text(index)) } else { Message::assistant(text(index)) }
}

fn agentlib_face() -> Vec<f64> {
    let memory = agentlib::SlidingWindowMemory::new(agentlib::Options::default()).expect("options");
    let to = agentlib::WriteOptions::default();
    measure(|index| block_on(memory.write(vec![message(index)], &to)).expect("a write"))
}

fn agentlib_original() -> Vec<f64> {
    let memory = agentlib_memory::SlidingWindowMemory::new(4_000, 50);
    measure(|index| {
        let role = if index.is_multiple_of(2) { Role::User } else { Role::Assistant };
        let message = ModelMessage { role, content: text(index), tool_call_id: None, tool_calls: None };
        block_on(memory.write(vec![message], MemoryWriteOptions::default())).expect("a write");
    })
}

fn crux_face() -> Vec<f64> {
    let model = Function::new("instant", |_| async { Ok("What was said so far, in a few words.".to_owned()) });
    let window = block_on(crux::SlidingWindow::builder(20, model).batch(20).open()).expect("a window");
    measure(|index| block_on(window.push(message(index))).expect("a push"))
}

fn langchain4j_face() -> Vec<f64> {
    let memory = langchain4j::MessageWindowChatMemory::with_max_messages(40).expect("a memory");
    measure(|index| block_on(memory.add(message(index))).expect("an add"))
}

fn strands_face() -> Vec<f64> {
    let manager = SlidingWindowConversationManager::new(strands::SlidingWindowOptions::default()).expect("options");
    let mut list = Vec::new();
    measure(move |index| {
        list.extend(Dialect::Bedrock.convert(&message(index)).expect("it can be said"));
        block_on(manager.apply_management(&mut list)).expect("management");
    })
}

/// Returns the figures of `bench/strands.py`, which prints a line of JSON for each length and window. `None` if Strands
/// is not installed.
fn strands_original() -> Option<Vec<f64>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = folder.join(".venv/bin/python");
    let output =
        Command::new(python).arg(folder.join("strands.py")).output().ok().filter(|output| output.status.success())?;
    let lines = String::from_utf8(output.stdout).ok()?;
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap_or_default());
    Some(lines.filter(|line| line["window"] == 40).filter_map(|line| Some(line["push_ns"].as_f64()? / 1e3)).collect())
}
