//! Features that make a window cheaper: limits on the body, the index, repeated lines, caps, and cuts while the cache
//! is cold.

use lookback_engine::plan::{Occasion, Verdict};
use lookback_engine::policy::Caps;
use lookback_engine::policy::{Cold, Index, Payback, Repeats};
use lookback_engine::transcript::{Entry, Origin, UsageReport};
use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy},
    view::View,
};
use lookback_wire::{
    dialect::{Dialect, Preamble},
    message::{Message, ToolCall},
};
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
    // The paths of a folder are in one line, and names that are still in the window are not listed.
    assert_eq!(text.matches("src/deep/").count(), 1, "{text}");
    assert!(!text.contains("module_29.rs"), "{text}");
    let notes =
        engine.view().messages().filter(|item| item.is_own() && item.message().text().contains("no longer shown"));
    assert_eq!(notes.count(), 1);
    // The index is after the task.
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
    let folded = lookback_engine::transcript::fold(start as u64, &log[start..], at).unwrap();
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
fn of_those_that_refer_to_lost_lines_the_oldest_shows_them() {
    let caps = Some(Caps { file: 4_000, other: 700, names: 0, numbers: true, ..Caps::default() });
    let policy = Policy { repeats: Some(Repeats::default()), caps, ..Policy::unlimited() };
    let mut engine = engine(policy);
    engine.push(Message::user("Read it again and again.")).unwrap();
    call(&mut engine, "c1", "{}", &file(0..40));
    // The second result would exceed its cap if it showed the lines of the first itself.
    call(&mut engine, "c2", "{}", &file(0..70));
    call(&mut engine, "c3", "{}", &file(0..30));
    call(&mut engine, "c4", "{}", &file(40..70));
    engine.push(Message::assistant("I have read it.")).unwrap();
    assert_eq!(shown(engine.view()).matches("as shown above, in entry 2 ").count(), 2);
    assert_eq!(shown(engine.view()).matches("as shown above, in entry 4 ").count(), 1);
    let before = engine.view().totals().size.messages;
    engine.compact(&Policy { limits: Limits::messages(before - 1), ..engine.settings().policy.clone() });
    let sent = shown(engine.view());
    assert!(!sent.contains("c1") && !sent.contains("in entry 2 "), "{sent}");
    assert_eq!(sent.matches("number_5 ").count(), 1, "{sent}");
    assert!(sent.contains("lines cut; entry 4 has them"), "{sent}");
    assert!(sent.contains("lines as shown above, in entry 4 "), "{sent}");
    // The fourth result referred to lines that the second no longer shows.
    assert!((40..70).all(|line| sent.contains(&format!("number_{line} "))), "{sent}");
}

#[test]
fn references_count_toward_a_cap() {
    let caps = Some(Caps { file: 200, other: 200, names: 0, numbers: true, ..Caps::default() });
    let policy = Policy { repeats: Some(Repeats { lines: 1, tokens: 1 }), caps, ..Policy::unlimited() };
    let mut engine = engine(policy);
    let known = |line: usize| format!("{line}\n");
    call(&mut engine, "c1", "{}", &(0..50).map(known).collect::<String>());
    // Every second line is repeated, but a reference is longer than the line.
    let mixed = (0..50).map(|line| format!("{line}\nnew line {line}\n")).collect::<String>();
    call(&mut engine, "c2", "{}", &mixed);
    let newest = engine.view().messages().last().unwrap();
    assert!(newest.size().tokens < 300, "{}", shown(engine.view()));
}

#[test]
fn an_index_stays_as_it_is_if_no_name_leaves() {
    let index = Some(Index { budget: 200 });
    let policy = Policy { limits: Limits::body(1_600), target: Some(Limits::body(800)), index, ..Policy::unlimited() };
    let mut engine = engine(policy);
    engine.push(Message::user("Fix it.")).unwrap();
    let mut number = 0;
    while engine.view().index().is_none() {
        let path = format!(r#"{{"path":"src/module_{number}.rs"}}"#);
        call(&mut engine, &format!("c{number}"), &path, &"some prose, and more of it ".repeat(8));
        engine.window();
        number += 1;
    }
    let index = |engine: &Engine| engine.view().index().map(|index| index.message.text());
    let before = index(&engine);
    engine.receive(Message::user("Remember the tests."), Origin::Lookback, None).unwrap();
    engine.push(Message::assistant("I will.")).unwrap();
    let entries = engine.dismiss(|_| true);
    let rewritten = |entry: &Entry| matches!(entry, Entry::Compaction(compaction) if compaction.index.is_some());
    assert!(!entries.is_empty() && !entries.iter().any(rewritten));
    assert_eq!(index(&engine), before);
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
    // The result joins the first group, which is above.
    engine.push(Message::tool_result("c1", file(0..40))).unwrap();
    assert_eq!(shown(engine.view()).matches("number_5 ").count(), 2);
    // A late result waits, and replaces its stand-in at a compaction.
    engine.window();
    engine.push(Message::tool_result("c2", file(0..40))).unwrap();
    engine.compact(&Policy { limits: Limits::messages(7), ..engine.settings().policy.clone() });
    assert!(!shown(engine.view()).contains("as shown above"), "{}", shown(engine.view()));
}

#[test]
fn a_result_is_capped_by_what_it_shows() {
    let policy = Policy {
        caps: Some(Caps { file: 600, other: 200, names: 50, numbers: true, ..Caps::default() }),
        ..Policy::unlimited()
    };
    let mut engine = engine(policy);
    let numbered: String = file(0..30).lines().zip(1..).map(|(line, number)| format!("{number}\t{line}\n")).collect();
    call(&mut engine, "c1", "{}", &numbered);
    call(&mut engine, "c2", r#"{"path":"src/main.rs"}"#, &file(100..130));
    call(&mut engine, "c3", r#"{"command":"cargo test"}"#, &file(200..230));
    let sent = shown(engine.view());
    assert!(sent.contains("number_15 ") && sent.contains("number_115 ") && !sent.contains("let number_215 "), "{sent}");
    assert!(sent.contains("lines cut; entry 5 has them, with "), "{sent}");
}

#[test]
fn every_tenth_line_of_a_file_keeps_its_number_and_moved_lines_repeat() {
    let caps = Some(Caps { numbers: false, ..Caps::default() });
    let policy = Policy { caps, repeats: Some(Repeats::default()), ..Policy::unlimited() };
    let mut engine = engine(policy);
    let numbered = |lines: std::ops::Range<usize>, first: usize| -> String {
        file(lines).lines().zip(first..).map(|(line, number)| format!("{number:>6}\u{2192}{line}\n")).collect()
    };
    call(&mut engine, "c1", r#"{"file_path":"src/main.rs"}"#, &numbered(0..40, 1));
    let sent = shown(engine.view());
    for number in 1..=40 {
        let has_number = sent.contains(&format!(" {number}\u{2192}let number_{} ", number - 1));
        assert_eq!(has_number, number == 1 || number % 10 == 0, "{number}: {sent}");
    }
    // Three new lines before them have moved these.
    call(
        &mut engine,
        "c2",
        r#"{"file_path":"src/main.rs"}"#,
        &format!("{}{}", numbered(90..93, 1), numbered(0..40, 4)),
    );
    let sent = shown(engine.view());
    assert_eq!(sent.matches("let number_5 ").count(), 1, "{sent}");
    assert!(
        sent.contains("let number_92 ") && sent.contains("[... 40 lines as shown above, in entry 1 ...]"),
        "{sent}"
    );
}

#[test]
fn a_shell_command_that_reads_a_file_has_the_cap_of_files() {
    let caps = Some(Caps { file: 4_000, other: 200, ..Caps::default() });
    let mut engine = engine(Policy { caps, ..Policy::unlimited() });
    call(&mut engine, "c1", r#"{"command":["bash","-lc","sed -n '1,80p' src/main.rs"]}"#, &file(0..80));
    call(&mut engine, "c2", r#"{"command":["bash","-lc","cargo test 2>&1 | tail -80"]}"#, &file(100..180));
    let sent = shown(engine.view());
    assert!(sent.contains("let number_40 ") && !sent.contains("let number_140 "), "{sent}");
}

#[test]
fn caps_are_larger_for_a_model_that_cannot_read_what_they_cut() {
    let caps = Caps { other: 100, without_recall: 4, ..Caps::default() };
    let policy = Policy { caps: Some(caps), ..Policy::unlimited() };
    let is_cut = |tool: &str, words: usize| {
        let mut engine = engine(policy.clone());
        let tools = format!(r#"[{{"type":"function","function":{{"name":"{tool}"}}}}]"#);
        engine.set_preamble(&Preamble::default().with_tools(RawValue::from_string(tools).unwrap()));
        call(&mut engine, "c1", "{}", &"some words\n".repeat(words / 2));
        shown(engine.view()).contains("has them")
    };
    for tool in ["recall", "mcp__lookback__recall"] {
        assert!(is_cut(tool, 200) && !is_cut(tool, 40), "{tool}");
    }
    for tool in ["recall_all", "read"] {
        assert!(is_cut(tool, 800) && !is_cut(tool, 200), "{tool}");
    }
}

/// Creates a session of rounds whose body is between the cold limit and the usual limit.
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

/// Returns why the next window is compacted at lower limits than usual, if it is.
fn occasion(engine: &mut Engine) -> Option<Occasion> {
    let outcome = engine.window();
    let occasion = |entry: &Entry| match entry {
        Entry::Compaction(compaction) => compaction.occasion,
        _ => None,
    };
    let recorded = outcome.entries.iter().find_map(occasion);
    assert_eq!(outcome.plan.and_then(|plan| plan.occasion), recorded);
    recorded
}

#[test]
fn a_cold_cache_is_a_free_cut() {
    assert_eq!(occasion(&mut half_full(|_| None)), None, "without times, nothing is cold");
    assert_eq!(occasion(&mut half_full(|number| Some(number * 60_000))), None, "no pause");
    let mut paused = half_full(|number| Some(number * 60_000));
    paused.receive(Message::assistant("Done."), Origin::Client, Some(600_000)).unwrap();
    paused.receive(Message::user("And now?"), Origin::Client, Some(901_000)).unwrap();
    // The call that was answered at 600 seconds was made at 540.
    let explained = paused.explain();
    assert_eq!((explained.verdict, explained.occasion), (Verdict::Compact, Some(Occasion::Pause { millis: 361_000 })));
    assert_eq!(occasion(&mut paused), Some(Occasion::Pause { millis: 361_000 }));
    assert_eq!(occasion(&mut paused), None, "once");

    // A client that sends its history with each question sends the answer and the next question at the same time.
    let mut synced = half_full(|number| Some(number * 60_000));
    synced.receive(Message::assistant("Done."), Origin::Client, Some(901_000)).unwrap();
    synced.receive(Message::user("And now?"), Origin::Client, Some(901_000)).unwrap();
    assert_eq!(occasion(&mut synced), Some(Occasion::Pause { millis: 361_000 }));

    let mut told = half_full(|_| None);
    told.cache_is_cold();
    assert_eq!(occasion(&mut told), Some(Occasion::Told));

    let mut instructed = half_full(|_| None);
    let tools = RawValue::from_string(r#"[{"type":"function","function":{"name":"read"}}]"#.to_owned()).unwrap();
    instructed.set_preamble(&Preamble::default().with_tools(tools));
    assert_eq!(occasion(&mut instructed), Some(Occasion::Preamble));

    let mut other = half_full(|_| None);
    let report = |asked: &str| {
        let (model, asked) = ("a name of the provider's".to_owned(), Some(asked.to_owned()));
        UsageReport { model, asked, estimated: 10, reported: 10, cached: None }
    };
    other.usage(report("gpt-4o"));
    assert_eq!(occasion(&mut other), None);
    other.usage(report("gpt-5"));
    assert_eq!(occasion(&mut other), None, "the model has read this window before");
    let mut other = half_full(|_| None);
    other.usage(report("gpt-5"));
    assert_eq!(occasion(&mut other), Some(Occasion::Model));
}

/// Makes a call after each of these pauses, in minutes, that the provider's cache outlasts or not. Returns after which
/// pauses the window was cut.
fn pauses(settings: impl Fn(Settings) -> Settings, pauses: &[(i64, bool)]) -> Vec<usize> {
    let cold = Cold { limits: Limits::body(300), target: Limits::body(100), ..Cold::default() };
    let policy = Policy { limits: Limits::body(20_000), cold: Some(cold), ..Policy::unlimited() };
    let mut engine = Engine::new(settings(Settings::default().policy(policy).model("gpt-4o")));
    let (mut time, mut cuts, mut before) = (0, Vec::new(), 0);
    for (number, (minutes, outlasts)) in pauses.iter().enumerate() {
        time += minutes * 60_000;
        engine.receive(Message::user("word ".repeat(150)), Origin::Client, Some(time)).unwrap();
        if occasion(&mut engine).is_some() {
            cuts.push(number);
            before = 0;
        }
        let estimated = engine.view().totals().size.tokens;
        let (model, cached) = ("gpt-4o".to_owned(), Some(if *outlasts { before } else { 0 }));
        engine.usage(UsageReport { model, asked: None, estimated, reported: estimated, cached });
        before = estimated;
        engine.receive(Message::assistant("Yes."), Origin::Model, Some(time)).unwrap();
    }
    cuts
}

#[test]
fn usage_reports_show_how_long_the_cache_lasts() {
    assert_eq!(pauses(|it| it, &[(0, false), (1, true), (6, true), (6, true)]), [2], "nothing is known yet");
    assert_eq!(pauses(|it| it, &[(0, false), (6, true), (6, true), (50, true), (70, false)]), [4]);
    assert_eq!(pauses(|it| it, &[(0, false), (6, false), (6, false), (6, false)]), [2], "the cut window is short");
    assert_eq!(pauses(|it| it, &[(0, false), (6, true), (6, true), (9, false), (6, false)]), [4], "not anymore");
}

#[test]
fn a_known_lifetime_of_the_cache_decides() {
    let calls = [(0, false), (1, true), (20, false), (50, true), (70, false)];
    assert_eq!(pauses(|it| it.cache_lifetime(1_200), &calls), [3]);
    assert_eq!(pauses(|it| it.cache_lifetime(3_600), &calls), [4]);
    let set = |settings: Settings| {
        let cold = settings.policy.cold.map(|cold| Cold { after: Some(30), ..cold });
        let policy = Policy { cold, ..settings.policy.clone() };
        settings.policy(policy)
    };
    assert_eq!(pauses(set, &calls), [2, 4], "that of the policy comes first");
}

#[test]
fn a_compaction_is_made_once_it_is_repaid() {
    let payback = Payback { write: 5.0, limits: Limits::body(400) };
    let (limits, target) = (Limits::body(2_000), Some(Limits::body(200)));
    let policy = Policy { limits, target, payback: Some(payback), ..Policy::unlimited() };
    // Each call reads the tokens of the window beyond the target. So a session that grows fast is compacted at a larger
    // size.
    let size_of_compaction = |words: usize| {
        let mut engine = engine(policy.clone());
        engine.push(Message::user("Go on.")).unwrap();
        for number in 0..100 {
            let size = engine.view().totals().size.tokens;
            if let Some(Occasion::Repaid { read, price }) = occasion(&mut engine) {
                assert_eq!(price, 800, "200 tokens are written for five instead of read for one");
                assert!(read >= price);
                assert!(engine.view().totals().size.tokens < 400);
                return (size, engine.view().checkpoint().reading.beyond(0));
            }
            call(&mut engine, &format!("c{number}"), "{}", &"word ".repeat(words));
        }
        unreachable!("a window that grows is compacted")
    };
    let ((slow, after), (fast, _)) = (size_of_compaction(60), size_of_compaction(240));
    assert!(400 < slow && slow < fast && fast < 2_000, "{slow} {fast}");
    assert_eq!(after, 0, "the next one has to be repaid anew");
}
