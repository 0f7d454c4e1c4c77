//! Rules that people said in real sessions: whether they stand in the windows of the default policy.
//!
//! `bench/rules.json` has the places of 214 such rules, which a reader found without looking for words. Their texts are
//! not part of the repository.

use std::collections::BTreeMap;

use lookback_engine::policy::{Keep, Limits, Policy};
use lookback_engine::{Engine, Settings};
use lookback_tokens::{Estimate, TokenCounter};
use lookback_wire::edit::shown_text;
use lookback_wire::message::{Message, ToolCall};
use serde_json::Value;

use crate::corpus::read;

/// The tokens that other people say after a rule.
const OTHERS: u64 = 12_000;

/// A message in a person's role.
struct Said {
    id: String,
    message: u64,
    text: String,
}

/// Puts each rule before 12,000 tokens of what people said in other sessions, compacts at least ten times, and counts
/// the rules that stand in every window, with the default's `keep.people` and without it.
pub fn run(files: &[&str]) {
    let said: Vec<Said> = files.iter().flat_map(|file| people(file)).collect();
    let labels = concat!(env!("CARGO_MANIFEST_DIR"), "/rules.json");
    let labels: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(labels).expect("labels")).expect("JSON");
    println!("{:<16} {:>6} {:>10} {:>14} {:>18}", "source", "rules", "stand", "without people", "tokens of a window");
    let mut found: BTreeMap<&str, [u64; 5]> = BTreeMap::new();
    for label in &labels {
        let number = |name: &str| label[name].as_u64().unwrap_or_default();
        let id = label["id"].as_str().unwrap_or_default();
        let Some(rule) = said.iter().position(|said| said.id == id && said.message == number("message")) else {
            continue;
        };
        let place = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
        let quote = said[rule].text.get(place("start")..place("end")).expect("a place in a text");
        for source in [id.split('/').next().unwrap_or(id), "all"] {
            let of = found.entry(source).or_default();
            of[0] += 1;
            for (at, people) in [Policy::production().keep.people, 0].into_iter().enumerate() {
                let (stands, tokens) = stands(&said, rule, quote, people);
                of[1 + at] += u64::from(stands);
                of[3 + at] += tokens;
            }
        }
    }
    for (source, [rules, stand, without, tokens, before]) in found {
        let (tokens, before) = (tokens / rules, before / rules);
        println!("{source:<16} {rules:>6} {stand:>10} {without:>14} {:>18}", format!("{tokens} ({before})"));
    }
}

/// Returns whether a rule stands in every window, and the mean tokens of a window.
fn stands(said: &[Said], rule: usize, quote: &str, people: u64) -> (bool, u64) {
    let production = Policy::production();
    let limits = Limits { body: Some(26_000), ..production.limits };
    let policy = Policy { limits, cold: None, keep: Keep { people, ..production.keep }, ..production };
    let mut engine = Engine::new(Settings::default().policy(policy));
    // Each rule comes before other messages.
    let others = said.iter().cycle().skip(rule * 7).filter(|other| other.id != said[rule].id);
    let (mut tokens, mut calls, mut compactions, mut sent) = (0, 0_u64, 0, 0);
    let mut stands = true;
    for text in ["Hello, here is the project.", &said[rule].text].into_iter().chain(others.map(|other| &*other.text)) {
        tokens += Estimate::default().text(text);
        engine.push(Message::user(text)).expect("a message");
        for _ in 0..4 {
            calls += 1;
            let id = format!("c{calls}");
            let call = ToolCall::new(&id, "run", format!(r#"{{"step": {calls}}}"#));
            let line = |line| format!("step {calls}: part {line} was done in {} ms\n", line * 7 % 13);
            engine.push(Message::assistant_with_calls("", [call])).expect("a message");
            engine.push(Message::tool_result(&id, (0..90).map(line).collect::<String>())).expect("a message");
            compactions += u64::from(!engine.window().entries.is_empty());
            sent += engine.view().totals().size.tokens;
            let mut shown = engine.view().messages().map(|item| shown_text(item.message(), item.edits()));
            // The first four calls are made before the rule is said.
            stands &= calls <= 4 || shown.any(|shown| shown.contains(quote));
        }
        engine.push(Message::assistant("Done.")).expect("a message");
        if tokens >= OTHERS && compactions >= 10 {
            break;
        }
    }
    (stands, sent / calls)
}

/// Reads the messages in a person's role from a file of transcripts.
fn people(file: &str) -> Vec<Said> {
    let text = String::from_utf8(read(file)).expect("text");
    let sessions = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    sessions
        .flat_map(|session| {
            let id = session["id"].as_str().unwrap_or_default().to_owned();
            let messages = session["messages"].as_array().cloned().unwrap_or_default();
            messages.into_iter().zip(0..).filter(|(message, _)| message["role"] == "user").filter_map(
                move |(message, at)| {
                    let texts = match &message["content"] {
                        Value::String(text) => vec![text.clone()],
                        content => {
                            let texts =
                                content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
                            texts.map(str::to_owned).collect()
                        }
                    };
                    let text = texts.join("\n");
                    (!text.trim().is_empty()).then(|| Said { id: id.clone(), message: at, text })
                },
            )
        })
        .collect()
}
