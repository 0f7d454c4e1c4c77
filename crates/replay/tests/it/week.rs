//! The use of agents over some time.

use lookback_recordings::{RecordedFile, Recording};
use lookback_replay::prices::Prices;
use lookback_replay::week::{Cause, Conversation, Kind, Place, Week};
use lookback_tokens::Estimate;
use serde_json::{Value, json};

/// Returns the log of pi with these lines, each the body of a message or of another line.
fn log(lines: &[Value]) -> Recording {
    let mut text = json!({"type": "session", "id": "s", "cwd": "/home/ada/kettle"}).to_string();
    for (index, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        line["id"] = json!(index.to_string());
        line["parentId"] = if index == 0 { Value::Null } else { json!((index - 1).to_string()) };
        line["timestamp"] = json!(format!("2026-11-2{}T10:00:{:02}Z", index / 60, index % 60));
        text += &format!("\n{line}");
    }
    RecordedFile::read(&text, "log", None).unwrap().recordings.remove(0)
}

fn said(text: &str) -> Value {
    json!({"type": "message", "message": {"role": "user", "content": text}})
}

fn answered(read: u64, written: u64, model: &str) -> Value {
    let usage = json!({"input": 10, "cacheRead": read, "cacheWrite": written, "output": 100});
    let content = json!([{"type": "text", "text": "Done."}]);
    json!({"type": "message", "message": {"role": "assistant", "content": content, "model": model, "usage": usage}})
}

const MODEL: &str = "claude-sonnet-4-5";

fn read(recording: &Recording, since: Option<i64>) -> Conversation {
    let price = |model: Option<&str>| Prices::builtin().find(model?);
    let place =
        Place { project: recording.project.clone(), agent: Some("pi"), newest: recording.newest(), ..Place::default() };
    Conversation::new(recording, place, since, &Estimate::default(), price)
}

/// The sums are those of the log, to the token, and the money is that of the price list.
#[test]
fn the_sums_are_those_that_the_provider_reported() {
    let recording = log(&[
        said("one"),
        answered(0, 5_000, MODEL),
        said("two"),
        answered(5_000, 500, MODEL),
        json!({"type": "compaction", "summary": "Two steps.", "usage": {"input": 7, "cacheRead": 5_500, "output": 3}}),
    ]);
    let week = Week::new(vec![read(&recording, None)]);
    let total = &week.total;
    assert_eq!(
        (total.calls, total.input, total.cache_read, total.cache_write, total.output),
        (3, 27, 10_500, 5_500, 203)
    );
    let (input, output) = (3e-6, 15e-6);
    // The summary's model is not in the log: its call counts as one of the conversation's.
    let cost = (27.0 + 10_500.0 * 0.1 + 5_500.0 * 1.25) * input + 203.0 * output;
    assert!((total.cost - cost).abs() < 1e-9, "{} {cost}", total.cost);
    assert_eq!(week.prices.len(), 1);
    let kinds: Vec<Kind> = week.conversations[0].calls.iter().map(|call| call.kind).collect();
    assert_eq!(kinds, [Kind::Reported, Kind::Reported, Kind::Aside]);
    for sums in [&week.days, &week.projects, &week.models, &week.agents] {
        let mut all = lookback_replay::week::Used::default();
        sums.values().for_each(|used| all += *used);
        assert_eq!(all.calls, total.calls);
        assert_eq!(all.sent(), total.sent());
    }
}

#[test]
fn misses_of_the_cache_have_their_causes() {
    let mut lines = vec![said("one"), answered(0, 5_000, MODEL), said("two"), answered(0, 6_000, MODEL)];
    lines.extend([said("three"), answered(0, 7_000, "claude-opus-4-5")]);
    lines.extend([
        json!({"type": "compaction", "summary": "All."}),
        said("four"),
        answered(0, 2_000, "claude-opus-4-5"),
    ]);
    // The next line is a day later.
    lines.resize(60, json!({"type": "label", "label": "nothing"}));
    lines.extend([
        said("five"),
        answered(0, 2_500, "claude-opus-4-5"),
        said("six"),
        answered(2_500, 100, "claude-opus-4-5"),
    ]);
    let week = Week::new(vec![read(&log(&lines), None)]);
    let causes: Vec<_> = week.misses.iter().map(|(cause, missed)| (*cause, missed.calls, missed.tokens)).collect();
    let wanted =
        [(Cause::Pause, 1, 2_000), (Cause::Compaction, 1, 2_010), (Cause::Model, 1, 6_000), (Cause::Other, 1, 5_000)];
    assert_eq!(causes, wanted);
    let other = week.misses[&Cause::Other];
    assert!((other.cost - 5_000.0 * (1.25 - 0.1) * 3e-6).abs() < 1e-9, "{}", other.cost);
}

#[test]
fn a_call_in_two_files_counts_once() {
    let recording = log(&[said("one"), answered(0, 5_000, MODEL), said("two"), answered(5_000, 500, MODEL)]);
    let copy = log(&[said("one"), answered(0, 5_000, MODEL)]);
    let week = Week::new(vec![read(&recording, None), read(&copy, None)]);
    assert_eq!((week.total.calls, week.copies), (2, 1));
    assert_eq!(week.total.cache_write, 5_500);
}

#[test]
fn only_calls_of_the_time_count() {
    let mut lines = vec![said("one"), answered(0, 5_000, MODEL)];
    lines.resize(60, json!({"type": "label", "label": "nothing"}));
    lines.extend([said("two"), answered(5_000, 500, MODEL)]);
    let recording = log(&lines);
    let day = "2026-11-21T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let week = Week::new(vec![read(&recording, Some(day))]);
    assert_eq!((week.total.calls, week.total.cache_write), (1, 500));
}

#[test]
fn a_log_without_usage_is_estimated() {
    let text =
        r#"[{"role":"user","content":"How long does the kettle boil?"},{"role":"assistant","content":"A minute."}]"#;
    let recording = Recording::read(text, "log", None).unwrap().remove(0);
    let week = Week::new(vec![read(&recording, None)]);
    assert_eq!((week.total.calls, week.total.estimated_calls, week.total.unpriced_calls), (1, 1, 1));
    assert_eq!(week.total.input, 7);
}

#[test]
fn a_copy_that_was_handed_over_counts_nothing() {
    let text = r#"[{"role":"user","content":"How long?"},{"role":"assistant","content":"A minute."}]"#;
    let name = lookback_recordings::handoff_id("11111111-2222-4333-8444-555555555555");
    let recording = Recording::read(text, &name, None).unwrap().remove(0);
    assert!(Week::new(vec![read(&recording, None)]).conversations.is_empty());
}

/// Anthropic charges twice the input for what it keeps for an hour, and keeps it over a pause of half an hour.
#[test]
fn what_is_written_for_an_hour_costs_more_and_lasts() {
    let row = |uuid: &str, parent: &str, time: &str, usage: Value| {
        let content = json!([{"type": "text", "text": "Done."}]);
        let message = json!({"role": "assistant", "id": uuid, "model": MODEL, "content": content, "usage": usage});
        json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": time, "message": message})
    };
    let written = json!({"cache_creation_input_tokens": 3_000, "cache_creation": {"ephemeral_1h_input_tokens": 2_000}});
    let first = json!({"type": "user", "uuid": "a", "parentUuid": null, "sessionId": "s", "message": {"role": "user", "content": "Hi"}});
    let lines = [
        first.to_string(),
        row("b", "a", "2026-11-20T10:00:00Z", written).to_string(),
        row("c", "b", "2026-11-20T10:30:00Z", json!({"cache_creation_input_tokens": 3_000})).to_string(),
    ];
    let recording = Recording::read(&lines.join("\n"), "log", None).unwrap().remove(0);
    let week = Week::new(vec![read(&recording, None)]);
    let cost = (1_000.0 * 1.25 + 2_000.0 * 2.0 + 3_000.0 * 1.25) * 3e-6;
    assert!((week.total.cost - cost).abs() < 1e-9, "{} {cost}", week.total.cost);
    assert_eq!(week.misses.keys().copied().collect::<Vec<_>>(), [Cause::Other]);
}

#[test]
fn results_and_compactions_of_a_copied_beginning_count_once() {
    let mut lines = vec![said("Read them.")];
    lines.extend(step(0, "large.txt", &"a word or two ".repeat(2_000)));
    lines.push(answered(0, 5_000, MODEL));
    let (original, fork) = (log(&lines), log(&lines));
    let week = Week::new(vec![read(&fork, None), read(&original, None)]);
    assert_eq!((week.conversations.len(), week.conversations[0].results.len()), (1, 1));
}

/// Returns a call of a tool and its result.
fn step(id: usize, path: &str, result: &str) -> [Value; 2] {
    let call = json!([{"type": "toolCall", "id": format!("t{id}"), "name": "read", "arguments": {"path": path}}]);
    let usage = json!({"input": 10, "cacheRead": 0, "cacheWrite": 100, "output": 10});
    let content = json!([{"type": "text", "text": result}]);
    [
        json!({"type": "message", "message": {"role": "assistant", "content": call, "model": MODEL, "usage": usage}}),
        json!({"type": "message", "message": {"role": "toolResult", "toolCallId": format!("t{id}"), "content": content}}),
    ]
}

#[test]
fn large_results_and_repeated_reads_are_found() {
    let mut lines = vec![said("Read them.")];
    for id in 0..3 {
        lines.extend(step(id, "small.txt", "tea"));
    }
    lines.extend(step(3, "large.txt", &"a word or two ".repeat(2_000)));
    lines.extend([answered(0, 5_000, MODEL), said("Thanks."), answered(5_000, 100, MODEL)]);
    let conversation = read(&log(&lines), None);
    let found: Vec<_> = conversation.results.iter().map(|it| (it.about.as_str(), it.calls)).collect();
    assert_eq!(found, [("large.txt", 2)]);
    let found: Vec<_> = conversation.repeats.iter().map(|it| (it.about.as_str(), it.times)).collect();
    assert_eq!(found, [("small.txt", 3)]);
}

/// A conversation that grows far above the limit costs less with a window, and a short one costs the same.
#[test]
fn a_window_saves_on_long_conversations_only() {
    let grown = |steps: u64, each: u64| {
        let mut lines = Vec::new();
        for step in 0..steps {
            lines.extend([said("more"), answered(step * each, each, MODEL)]);
        }
        let mut week = Week::new(vec![read(&log(&lines), None)]);
        week.conversations.clear();
        (week.total.saved, week.total.cost)
    };
    assert_eq!(grown(20, 1_000).0, 0.0);
    let (saved, cost) = grown(100, 4_000);
    assert!(saved > 0.3 * cost && saved < cost, "{saved} of {cost}");
}
