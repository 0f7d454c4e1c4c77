//! Measures the figures that Lookback claims, each compared with alternatives in the same run.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml [push|compaction|open|body|count|faces|summary]` runs one of
//! them, or all without a name. The others only run by name:
//!
//! - `... corpus FILE` replays real transcripts, `... notes FILE` replays them with notes to the model, and
//!   `... check FILE` checks summaries of them. The transcripts are not part of the repository.
//! - `... signed FILE` replays them with signed thinking in their tool loops.
//! - `... rules FILE...` puts rules that people said before the words of others, and looks for them in the windows.
//! - `... peers FILE [NAME...] [NAME=COMMAND...]` replays them through other libraries, or through a program of yours.
//! - `... referee FILE [CALLS]` asks a small model how much their windows lose.
//! - `... requests FILE` checks real requests, and compares token counts with the tokens that the providers reported.
//! - `... locomo FILE` asks the questions of LoCoMo, which is not part of the repository either, and `... search`
//!   searches a million messages.
//! - `... stores`, `... scale`, `... model` and `... trips` compare the stores, and start PostgreSQL and Redis.
//! - `... calls` measures the same calls as the benchmarks of the packages for Python and Node.
//! - `... gateway` compares the gateway with other proxies, and `... gateway recorded FILE [thinking]` sends real
//!   transcripts through it, on request with signed thinking in each answer.
//!
//! Shared machines are noisy, so read the ratios, which are medians.

mod alloc;
mod body;
mod calls;
mod check;
mod compaction;
mod corpus;
mod count;
mod faces;
mod gateway;
mod locomo;
mod model;
mod mutants;
mod notes;
mod open;
mod peers;
mod push;
mod referee;
mod requests;
mod rules;
mod scale;
mod search;
mod signed;
mod stores;
mod summary;
mod trips;

// The bootstrap of `lookback tune`.
#[path = "../../crates/cli/src/commands/tune/resample.rs"]
mod resample;
// The servers that the tests also start.
#[path = "../../crates/lookback/tests/servers/backend.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod backend;
#[path = "../../crates/lookback/tests/servers/postgres/server.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::panic)]
mod postgres;
#[path = "../../crates/lookback/tests/servers/process.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod process;
#[path = "../../crates/lookback/tests/servers/proxy.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]
mod proxy;
#[path = "../../crates/lookback/tests/servers/redis/server.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod redis;

use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            push::run();
            compaction::run();
            open::run();
            body::run();
            count::run();
            faces::run();
            summary::run();
        }
        ["push"] => push::run(),
        ["compaction"] => compaction::run(),
        ["open"] => open::run(),
        ["body"] => body::run(),
        ["calls"] => calls::run(),
        ["rules", ref files @ ..] => rules::run(files),
        ["count"] => count::run(),
        ["faces"] => faces::run(),
        ["summary"] => summary::run(),
        ["peers", file, ref names @ ..] => peers::run(file, names),
        ["corpus", file] => corpus::run(file, None),
        ["corpus", file, picture] => corpus::run(file, Some(picture)),
        ["referee", file] => referee::run(file, 30),
        ["referee", file, calls] => referee::run(file, calls.parse().expect("a number of calls")),
        ["signed", file] => signed::run(file),
        ["notes", file] => notes::run(file),
        ["check", file] => check::run(file),
        ["requests", file] => requests::run(file),
        ["locomo", file] => locomo::run(file),
        ["search"] => search::run(1_000_000),
        ["search", messages] => search::run(messages.parse().expect("a number of messages")),
        ["stores"] => stores::run(),
        ["scale"] => scale::run(),
        ["model"] => model::run(),
        ["trips"] => trips::run(),
        ["gateway"] => gateway::run(None),
        ["gateway", "first"] => gateway::first(),
        ["gateway", "streams"] => gateway::streams(),
        ["gateway", "memory"] => gateway::memory(),
        ["gateway", "recorded", file] => gateway::recorded(file, false),
        ["gateway", "recorded", file, "thinking"] => gateway::recorded(file, true),
        ["gateway", part] => gateway::run(Some(part)),
        // The commands of child processes.
        ["scale", url, sessions, number] => {
            scale::child(url, sessions.parse().expect("a number"), number.parse().expect("a number"));
        }
        ["open", store, session] => open::child(store, session),
        ["json", file] => body::child(file),
        ["count", counter, file] => count::child(counter, file),
        _ => {
            eprintln!(
                "usage: bench [push|compaction|open|body|calls|count|faces|summary|stores|scale|model|trips|gateway|search [N]|corpus FILE [SVG]|peers FILE [NAME...]|referee FILE [CALLS]|signed FILE|notes FILE|check FILE|requests FILE|locomo FILE]"
            );
            std::process::exit(2);
        }
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Returns the median of the figures. If their number is even, it is the larger of the two in the middle.
fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs this program with other arguments in a child process, and returns the figures that it prints.
fn child(arguments: &[&str]) -> Vec<f64> {
    let program = std::env::current_exe().expect("this program has a path");
    let output = std::process::Command::new(program).args(arguments).output().expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect()
}

/// Returns a message of an endless conversation: a question, a tool call, its result, an answer, and so on.
fn message(index: u64) -> lookback_wire::message::Message {
    let raw = match index % 4 {
        0 => format!(
            r#"{{"role":"user","content":"Question {index}: what does the module in src/file_{index}.rs do?"}}"#
        ),
        1 => format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{index}","type":"function","function":{{"name":"read_file","arguments":"{{\"path\":\"src/file_{index}.rs\"}}"}}}}]}}"#
        ),
        2 => format!(
            r#"{{"role":"tool","tool_call_id":"call_{}","content":"{}"}}"#,
            index - 1,
            "fn answer() -> u64 { 42 }\\n".repeat(120)
        ),
        _ => format!(
            r#"{{"role":"assistant","content":"It returns the answer to question {index}, as its only function says."}}"#
        ),
    };
    lookback_wire::dialect::Dialect::OpenAiChat.decode(&raw).expect("a message")
}
