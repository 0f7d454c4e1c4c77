//! What makes a window cheaper without losing what it needs: limits on the body, an index of what has left, lines that
//! are shown once, caps by kind, and cuts while the cache is cold.

use lookback_core::policy::{Cold, Index, Repeats};
use lookback_core::transcript::{Entry, Origin, UsageReport};
use lookback_core::{Caps, Dialect, Engine, Limits, Message, Policy, Preamble, Settings, ToolCall, View};
use serde_json::value::RawValue;

fn engine(policy: Policy) -> Engine {
    Engine::new(Settings::default().policy(policy))
}

/// Pushes a call with its result, and returns the entries that record them.
fn call(engine: &mut Engine, id: &str, arguments: &str, result: &str) -> Vec<Entry> {
    let asked = Message::assistant_with_calls("", [ToolCall::new(id, "read", arguments)]);
    let mut entries = engine.push(asked).unwrap();
    entries.extend(engine.push(Message::tool_result(id, result)).unwrap());
    entries
}

fn shown(view: &View) -> String {
    let request = view.encode(Dialect::OpenAiChat).unwrap();
    request.iter().map(|message| message.get().to_owned()).collect::<Vec<_>>().join("\n")
}

fn file(lines: std::ops::Range<usize>) -> String {
    lines.map(|line| format!("let number_{line} = {line} + 1; // a line of a file\n")).collect()
}

#[test]
fn a_long_head_does_not_make_the_body_smaller() {
    let limits = |limits, target| Policy { limits, target: Some(target), ..Policy::unlimited() };
    let compacts = |policy| {
        let mut engine = engine(policy);
        engine.push(Message::system("rule ".repeat(400))).unwrap();
        engine.push(Message::user("Go on.")).unwrap();
        let mut compactions = 0;
        for number in 0..40 {
            call(&mut engine, &format!("c{number}"), "{}", &format!("result {number} ").repeat(5));
            let entries = engine.window().entries;
            compactions += entries.iter().filter(|entry| matches!(entry, Entry::Compaction(_))).count();
        }
        compactions
    };
    let whole = compacts(limits(Limits::tokens(600), Limits::tokens(300)));
    let body = compacts(limits(Limits::body(600), Limits::body(300)));
    assert!(body > 0 && whole >= 3 * body, "{whole} and {body}");
}

#[test]
fn an_index_lists_names_that_left_and_the_next_one_replaces_it() {
    let index = Some(Index { budget: 200 });
    let policy =
        Policy { limits: Limits::body(1_600), target: Some(Limits::body(1_200)), index, ..Policy::unlimited() };
    let mut engine = engine(policy);
    engine.push(Message::user("Fix it.")).unwrap();
    for number in 0..30 {
        let path = format!(r#"{{"path":"src/deep/module_{number}.rs"}}"#);
        call(&mut engine, &format!("c{number}"), &path, &"some prose, and more of it ".repeat(8));
        engine.window();
    }
    let index = engine.view().index().unwrap();
    assert!(index.names.iter().any(|name| name.name == "src/deep/module_0.rs"), "{}", shown(engine.view()));
    assert!(index.size.tokens <= 200 && index.size.tokens * 4 <= engine.view().totals().size.tokens);
    let text = index.message.text();
    // The paths of a folder are in one line, and nothing that is in the window is listed.
    assert_eq!(text.matches("src/deep/").count(), 1, "{text}");
    assert!(!text.contains("module_29.rs"), "{text}");
    let notes =
        engine.view().messages().filter(|item| item.is_own() && item.message().text().contains("no longer shown"));
    assert_eq!(notes.count(), 1);
    // It is behind the task.
    let second = engine.view().messages().nth(1).unwrap();
    assert_eq!(second.message().text(), text);
}

#[test]
fn an_index_is_the_same_after_a_session_is_opened_again() {
    let index = Some(Index { budget: 200 });
    let policy = Policy { limits: Limits::body(800), target: Some(Limits::body(600)), index, ..Policy::unlimited() };
    let mut engine = engine(policy);
    let mut log = engine.push(Message::user("Fix it.")).unwrap();
    for number in 0..20 {
        let path = format!(r#"{{"path":"src/module_{number}.rs"}}"#);
        log.extend(call(&mut engine, &format!("c{number}"), &path, &"some prose, and more of it ".repeat(5)));
        log.extend(engine.window().entries);
    }
    engine.checkpoint(&mut log);
    let at = |position: u64| log.get(usize::try_from(position).unwrap());
    let start = log.len() - 1;
    let folded = lookback_core::transcript::fold(start as u64, &log[start..], at).unwrap();
    assert!(engine.view().index().is_some());
    assert_eq!(shown(&folded), shown(engine.view()));
    assert_eq!(folded.index().map(|index| &index.names), engine.view().index().map(|index| &index.names));
}

#[test]
fn a_file_that_is_read_again_is_shown_once() {
    let policy = Policy { repeats: Some(Repeats::default()), ..Policy::unlimited() };
    let mut engine = engine(policy);
    call(&mut engine, "c1", "{}", &file(0..40));
    call(&mut engine, "c2", "{}", &file(0..40).replace("number_20 ", "number_twenty "));
    let sent = shown(engine.view());
    assert!(sent.contains("[... 20 lines as shown above, in entry 1 ...]"), "{sent}");
    assert!(sent.contains("[... 19 lines as shown above, in entry 1 ...]"), "{sent}");
    assert_eq!(sent.matches("number_5 ").count(), 1);
    assert_eq!(sent.matches("number_twenty ").count(), 1);
}

#[test]
fn lines_are_put_back_if_the_entry_that_shows_them_leaves() {
    let policy = Policy { repeats: Some(Repeats::default()), ..Policy::unlimited() };
    let mut engine = engine(policy);
    engine.push(Message::user("Read it twice.")).unwrap();
    call(&mut engine, "c1", "{}", &file(0..40));
    call(&mut engine, "c2", "{}", &file(0..40));
    engine.push(Message::assistant("I have read it.")).unwrap();
    assert_eq!(shown(engine.view()).matches("number_5 ").count(), 1);
    let before = engine.view().totals().size.messages;
    engine.compact(&Policy { limits: Limits::messages(before - 1), ..engine.settings().policy.clone() });
    let sent = shown(engine.view());
    assert!(!sent.contains("c1"), "{sent}");
    assert_eq!(sent.matches("number_5 ").count(), 1, "{sent}");
    assert!(!sent.contains("as shown above"), "{sent}");
}

#[test]
fn a_result_never_refers_to_what_is_shown_below_it() {
    let policy = Policy { repeats: Some(Repeats::default()), ..Policy::unlimited() };
    let mut engine = engine(policy);
    let calls = ["c1", "c2"].map(|id| ToolCall::new(id, "read", "{}"));
    engine.push(Message::assistant_with_calls("", calls)).unwrap();
    engine.push(Message::user("Never mind.")).unwrap();
    engine.push(Message::assistant_with_calls("", [ToolCall::new("c3", "read", "{}")])).unwrap();
    engine.push(Message::tool_result("c3", file(0..40))).unwrap();
    // It joins the first group, which is above.
    engine.push(Message::tool_result("c1", file(0..40))).unwrap();
    assert_eq!(shown(engine.view()).matches("number_5 ").count(), 2);
    // A late result waits, and takes the place of its stand-in at a compaction.
    engine.window();
    engine.push(Message::tool_result("c2", file(0..40))).unwrap();
    engine.compact(&Policy { limits: Limits::messages(7), ..engine.settings().policy.clone() });
    assert!(!shown(engine.view()).contains("as shown above"), "{}", shown(engine.view()));
}

#[test]
fn a_result_is_capped_by_what_it_shows() {
    let policy = Policy { caps: Some(Caps { file: 600, other: 200, names: 50 }), ..Policy::unlimited() };
    let mut engine = engine(policy);
    let numbered: String = file(0..30).lines().zip(1..).map(|(line, number)| format!("{number}\t{line}\n")).collect();
    call(&mut engine, "c1", "{}", &numbered);
    call(&mut engine, "c2", r#"{"path":"src/main.rs"}"#, &file(100..130));
    call(&mut engine, "c3", r#"{"command":"cargo test"}"#, &file(200..230));
    let sent = shown(engine.view());
    assert!(sent.contains("number_15 ") && sent.contains("number_115 ") && !sent.contains("let number_215 "), "{sent}");
    assert!(sent.contains("lines cut; entry 5 has them, with "), "{sent}");
}

/// A session of rounds whose body is between the cold limit and the usual one.
fn half_full(times: impl Fn(i64) -> Option<i64>) -> Engine {
    let cold = Cold { limits: Limits::body(200), target: Limits::body(100), ..Cold::default() };
    let policy = Policy { limits: Limits::body(2_000), cold: Some(cold), ..Policy::unlimited() };
    let mut engine = Engine::new(Settings::default().policy(policy).model("gpt-4o"));
    let mut say = |message: Message, time| drop(engine.receive(message, Origin::Client, time).unwrap());
    say(Message::user("Go on."), times(0));
    for number in 0..10 {
        let id = format!("c{number}");
        say(Message::assistant_with_calls("", [ToolCall::new(&id, "read", "{}")]), times(number));
        say(Message::tool_result(&id, "some prose, and more of it ".repeat(8)), times(number));
    }
    engine
}

fn compacts(engine: &mut Engine) -> bool {
    let outcome = engine.window();
    let cold = |entry: &Entry| matches!(entry, Entry::Compaction(compaction) if compaction.cold);
    let compacted = outcome.entries.iter().any(cold);
    assert_eq!(outcome.plan.is_some_and(|plan| plan.cold), compacted);
    compacted
}

#[test]
fn a_cold_cache_is_a_free_cut() {
    assert!(!compacts(&mut half_full(|_| None)), "without times, nothing is cold");
    assert!(!compacts(&mut half_full(|number| Some(number * 60_000))), "no pause");
    let mut paused = half_full(|number| Some(number * 60_000));
    paused.push(Message::assistant("Done.")).unwrap();
    paused.receive(Message::assistant("Done."), Origin::Client, Some(600_000)).unwrap();
    paused.receive(Message::user("And now?"), Origin::Client, Some(901_000)).unwrap();
    assert!(compacts(&mut paused));
    assert!(!compacts(&mut paused), "once");

    let mut told = half_full(|_| None);
    told.cache_is_cold();
    assert!(compacts(&mut told));

    let mut instructed = half_full(|_| None);
    let tools = RawValue::from_string(r#"[{"type":"function","function":{"name":"read"}}]"#.to_owned()).unwrap();
    instructed.set_preamble(&Preamble::default().with_tools(tools));
    assert!(compacts(&mut instructed));

    let mut other = half_full(|_| None);
    let report = |model: &str| UsageReport { model: model.to_owned(), estimated: 10, reported: 10 };
    other.usage(report("gpt-4o"));
    assert!(!compacts(&mut other));
    other.usage(report("gpt-5"));
    assert!(compacts(&mut other));
}
