//! Limits of a live session: limits that change, limits that are checked only at times, and overflow.

use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use lookback_engine::policy::Keep;
use lookback_engine::{
    Settings,
    policy::{Caps, Limits, Mode, Pace, Policy, SystemRule},
    transcript::Entry,
};
use lookback_session::adapter;
use lookback_session::{CompactionOutcome, Hooks};
use lookback_session::{Error, Session};
use lookback_store::MemoryStore;
use lookback_tokens::{Estimate, TokenCounter};
use lookback_wire::size::Measure;
use lookback_wire::{
    dialect::{Dialect, ProviderError, TooLong},
    message::{Message, ToolCall},
};
use serde_json::json;

fn open(policy: Policy) -> Session {
    block_on(Session::open(MemoryStore::new(), "chat", Settings::default().policy(policy))).unwrap()
}

fn say(session: &mut Session, text: &str) {
    block_on(session.push(Message::user(text))).unwrap();
}

/// One round of a tool whose result has this length.
fn round(session: &mut Session, number: usize, length: usize) {
    let call = Message::assistant_with_calls("", [ToolCall::new(format!("c{number}"), "read", "{}")]);
    let result = Message::tool_result(format!("c{number}"), "x".repeat(length));
    block_on(session.append(vec![call, result])).unwrap();
}

fn shown(session: &mut Session) -> Vec<String> {
    let window = block_on(session.window()).unwrap();
    window.view().shown().map(|shown| lookback_wire::edit::shown_text(shown.message, shown.edits)).collect()
}

fn too_long(actual: Option<u64>, limit: Option<u64>) -> TooLong {
    let mut long = TooLong::new(Measure::Tokens);
    (long.actual, long.limit) = (actual, limit);
    long
}

#[test]
fn a_policy_on_read_shows_again_what_a_larger_limit_holds() {
    let policy = |messages| Policy { limits: Limits::messages(messages), mode: Mode::OnRead, ..Policy::unlimited() };
    let mut session = open(policy(5));
    for text in ["1", "2", "3", "4", "5"] {
        say(&mut session, text);
    }
    session.set_policy(policy(2));
    assert_eq!(shown(&mut session), ["4", "5"]);
    session.set_policy(policy(4));
    assert_eq!(shown(&mut session), ["2", "3", "4", "5"]);
    assert_eq!(session.stats().entries, 5, "reading writes nothing");
}

#[test]
fn a_window_on_read_stands_in_for_a_result_that_may_still_come() {
    let mut session = open(Policy { mode: Mode::OnRead, ..Policy::unlimited() });
    say(&mut session, "read it");
    block_on(session.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))).unwrap();
    assert!(shown(&mut session)[2].contains("No result"));
    block_on(session.push(Message::tool_result("c1", "all of it"))).unwrap();
    assert_eq!(shown(&mut session)[2], "all of it");
}

#[test]
fn there_is_one_system_message_at_a_time_where_the_rule_says_so() {
    for (first, expected) in [(false, ["u", "a", "second"]), (true, ["second", "u", "a"])] {
        let system = SystemRule { one: true, first, counted: true };
        let mut session = open(Policy { system, ..Policy::unlimited() });
        block_on(session.push(Message::system("first"))).unwrap();
        say(&mut session, "u");
        block_on(session.push(Message::assistant("a"))).unwrap();
        let entries = session.stats().entries;
        block_on(session.push(Message::system("first"))).unwrap();
        assert_eq!(session.stats().entries, entries, "the same again is ignored");
        block_on(session.push(Message::system("second"))).unwrap();
        assert_eq!(shown(&mut session), expected);
        assert_eq!(block_on(session.history()).unwrap().len(), 4, "the log has both");
        session.set_policy(Policy { system, limits: Limits::messages(1), ..Policy::unlimited() });
        say(&mut session, "v");
        let shown = shown(&mut session);
        assert!(shown.contains(&"second".to_owned()) && shown.contains(&"v".to_owned()), "{shown:?}");
    }
}

#[test]
fn system_messages_are_counted_or_not() {
    for (counted, expected) in [(true, 2), (false, 3)] {
        let system = SystemRule { counted, ..SystemRule::default() };
        let mut session = open(Policy { system, limits: Limits::messages(2), ..Policy::unlimited() });
        block_on(session.push(Message::system("be brief"))).unwrap();
        for text in ["1", "2", "3"] {
            say(&mut session, text);
        }
        assert_eq!(shown(&mut session).len(), expected);
    }
}

#[test]
fn limits_are_looked_at_before_every_third_call_and_between_turns() {
    let mut session = open(Policy { limits: Limits::messages(2), pace: Pace::Calls(3), ..Policy::unlimited() });
    say(&mut session, "task");
    let mut sizes = vec![shown(&mut session).len()];
    for number in 0..5 {
        round(&mut session, number, 10);
        sizes.push(shown(&mut session).len());
    }
    assert_eq!(sizes, [1, 3, 3, 5, 7, 3]);
    for turn in 1..=3 {
        block_on(session.push(Message::assistant(format!("answer {turn}")))).unwrap();
        say(&mut session, "question");
        assert_eq!(shown(&mut session).len(), 2, "a number of calls is no looser than turns");
    }
}

#[test]
fn limits_are_looked_at_between_turns_and_when_a_turn_is_done() {
    let mut session = open(Policy {
        limits: Limits::messages(4),
        keep: Keep { task: false, ..Keep::default() },
        pace: Pace::Turn,
        ..Policy::unlimited()
    });
    say(&mut session, "task");
    for number in 0..5 {
        round(&mut session, number, 10);
        assert_eq!(shown(&mut session).len(), 3 + 2 * number, "no cut in the middle of a loop");
    }
    block_on(session.push(Message::assistant("done"))).unwrap();
    block_on(session.enforce_limits()).unwrap();
    assert_eq!(session.view().messages().count(), 3);
}

#[test]
fn an_overflow_shortens_large_results_from_the_oldest_on() {
    let mut session = open(Policy::unlimited());
    say(&mut session, "read everything");
    for number in 0..4 {
        round(&mut session, number, 4_000);
    }
    let before = block_on(session.window()).unwrap().tokens();
    // Too long by a tenth, in the provider's own numbers.
    block_on(session.overflow(too_long(Some(220_000), Some(200_000)))).unwrap();
    let window = block_on(session.window()).unwrap();
    assert!(window.tokens() <= before * 200 / 220, "{before} to {}", window.tokens());
    let shown = shown(&mut session);
    assert!(shown[2].contains("characters cut"), "the oldest result is shortened");
    assert!(shown[4..].iter().all(|text| !text.contains("characters cut")), "and the others are not");
    assert_eq!(shown.len(), 9, "nothing is dropped");
}

#[test]
fn an_overflow_reaches_the_result_that_the_model_has_not_seen_yet() {
    let mut session = open(Policy::unlimited());
    say(&mut session, "read it");
    round(&mut session, 0, 100_000);
    block_on(session.overflow(too_long(None, None))).unwrap();
    let shown = shown(&mut session);
    assert_eq!(shown[0], "read it");
    assert!(shown[2].len() < 500, "{}", shown[2].len());
}

#[test]
fn an_upstream_that_always_overflows_is_asked_ten_times_at_most() {
    let mut session = open(Policy::unlimited());
    for number in 0..200 {
        say(&mut session, &format!("question {number}, which goes on for a while"));
        round(&mut session, number, 3_000);
    }
    let body = r#"{"error":{"message":"This model's maximum context length is 10 tokens. However, your messages resulted in 99999 tokens.","code":"context_length_exceeded"}}"#;
    let (mut requests, mut sizes) = (0, Vec::new());
    let error = loop {
        sizes.push(block_on(session.window()).unwrap().tokens());
        requests += 1;
        let ProviderError::TooLong(long) = Dialect::OpenAiChat.provider_error(Some(400), body) else {
            panic!("read otherwise")
        };
        if let Err(error) = block_on(session.overflow(long)) {
            break error;
        }
    };
    assert!(requests <= 10, "{requests} requests");
    assert!(sizes.windows(2).all(|sizes| sizes[1] < sizes[0]), "each is smaller: {sizes:?}");
    let Error::Irreducible(error) = error else { panic!("{error}") };
    assert_eq!((error.cause.limit, error.reductions + 1), (Some(10), requests));
    let text = error.to_string();
    assert!(text.starts_with("the window cannot be made smaller: ") && text.contains("the current task"), "{text}");
}

#[test]
fn without_numbers_it_takes_ten_requests_at_most_too() {
    let mut session = open(Policy::unlimited());
    for number in 0..400 {
        say(&mut session, &format!("question {number}, which goes on for a while"));
    }
    let mut requests = 1;
    while block_on(session.overflow(too_long(None, None))).is_ok() {
        requests += 1;
    }
    assert_eq!(requests, 10);
    // A message in between restarts the count.
    say(&mut session, "and now?");
    say(&mut session, "anything?");
    block_on(session.overflow(too_long(None, None))).unwrap();
}

#[test]
fn too_many_bytes_are_an_overflow_in_bytes() {
    let mut session = open(Policy::unlimited());
    for number in 0..10 {
        say(&mut session, &format!("{number}: {}", "y".repeat(1_000)));
    }
    let bytes = session.view().totals().size.bytes;
    let cause = TooLong::new(Measure::Bytes).limit(bytes / 2);
    block_on(session.overflow(cause)).unwrap();
    assert!(session.view().totals().size.bytes <= bytes / 2);
}

#[test]
fn hooks_tell_what_a_cut_came_to() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (starts, ends) = (told.clone(), told.clone());
    let hooks = Hooks::default()
        .on_compact_start(move |start| starts.lock().unwrap().push(format!("{} leave", start.evicted_count)))
        .on_compact_end(move |end| {
            assert!(end.ratio() < 1.0 && end.tokens_after < end.tokens_before);
            assert!(matches!(end.outcome, CompactionOutcome::Cut));
            ends.lock().unwrap().push("cut".to_owned());
        });
    let mut session = open(Policy { limits: Limits::messages(2), ..Policy::unlimited() }).with_hooks(hooks);
    for text in ["1", "2", "3", "4"] {
        say(&mut session, text);
    }
    shown(&mut session);
    assert_eq!(*told.lock().unwrap(), ["2 leave", "cut"]);
}

#[test]
fn proactive_compaction_is_a_share_of_the_models_window() {
    let policy = lookback_presets::named("none:limits.tokens=0.5,hard.tokens=1.0").unwrap();
    let window = 400;
    let settings = Settings::default().policy(policy).model_window(window);
    let mut session = block_on(Session::open(MemoryStore::new(), "chat", settings)).unwrap();
    let counter = Estimate::default();
    let text = "some words of which there are a few";
    let each = counter.text(text) + counter.frame.message;
    for _ in 0..40 {
        say(&mut session, text);
        let tokens = block_on(session.window()).unwrap().tokens();
        assert!(tokens <= window / 2, "{tokens}");
    }
    assert!(session.view().messages().count() as u64 >= window / 2 / each - 4);
    let cuts = block_on(adapter::entries(&mut session)).unwrap();
    assert!(cuts.iter().any(|entry| matches!(entry, Entry::Compaction(_))));
}

#[test]
fn a_summary_that_the_model_has_no_room_for_is_no_reason_to_refuse() {
    let stages = vec![lookback_engine::policy::Stage::Summarize(lookback_engine::policy::Summarize {
        budget: 5_000,
        ..Default::default()
    })];
    let hard = Some(Limits::tokens(1_000));
    let mut session = open(Policy { limits: Limits::messages(3), hard, stages, ..Policy::unlimited() });
    for text in ["1", "2", "3", "4", "5"] {
        say(&mut session, text);
    }
    assert_eq!(shown(&mut session).len(), 5, "it stays, since only a soft limit is exceeded");
}

#[test]
fn proactive_compaction_does_not_make_the_window_slide_in_the_middle_of_a_turn() {
    for (policy, expected) in
        [("managed-window:window_size=4", 15), ("managed-window:window_size=4,proactive_compression=true", 15)]
    {
        let policy = lookback_presets::named(policy).unwrap();
        let settings = Settings::default().policy(policy).model_window(100_000);
        let mut session = block_on(Session::open(MemoryStore::new(), "chat", settings)).unwrap();
        say(&mut session, "task");
        for number in 0..7 {
            round(&mut session, number, 10);
            shown(&mut session);
        }
        assert_eq!(shown(&mut session).len(), expected);
    }
    // Above its share of the context window, the window is cut at once.
    let policy = lookback_presets::named("managed-window:window_size=4,proactive_compression=0.5").unwrap();
    let settings = Settings::default().policy(policy).model_window(2_000);
    let mut session = block_on(Session::open(MemoryStore::new(), "chat", settings)).unwrap();
    say(&mut session, "task");
    for number in 0..7 {
        round(&mut session, number, 1_000);
        assert!(block_on(session.window()).unwrap().tokens() <= 1_000);
    }
}

#[test]
fn messages_that_a_client_syncs_or_replaces_give_overflow_its_tries_back() {
    block_on(async {
        let long = TooLong::new(Measure::Tokens);
        let some = |name: &str| (0..40).map(|n| Message::user(format!("{name} {n} and a few words more"))).collect();
        let mut all: Vec<Message> = some("first");
        let mut session = Session::open(MemoryStore::new(), "chat", Settings::default()).await.unwrap();
        session.sync(all.clone()).await.unwrap();
        while session.overflow(long).await.is_ok() {}
        // Repeating the same history adds no message.
        session.sync(all.clone()).await.unwrap();
        assert!(session.overflow(long).await.is_err());
        all.append(&mut some("second"));
        session.sync(all.clone()).await.unwrap();
        session.overflow(long).await.unwrap();
        while session.overflow(long).await.is_ok() {}
        session.replace(all).await.unwrap();
        session.overflow(long).await.unwrap();
    });
}

/// Synchronizes a session of the default policy with a long history that it has not seen: rounds with long results. Each
/// call has signed reasoning, or none. Returns the texts of the window, and its tokens.
fn first_seen(rounds: usize, signed: bool) -> (Vec<String>, u64) {
    // As if the model could read back what was cut.
    let whole = Policy::production();
    let policy = Policy { caps: whole.caps.map(|caps| Caps { without_recall: 1, ..caps }), ..whole };
    let settings = Settings::for_model(Dialect::Anthropic, "claude-sonnet-4-5").policy(policy);
    let mut session = block_on(Session::open(MemoryStore::new(), "chat", settings)).unwrap();
    let decode = |value: serde_json::Value| Dialect::Anthropic.decode(&value.to_string()).unwrap();
    let lines = |round: usize| (0..900).map(|line| format!("row {line} of {round}: some words\n")).collect::<String>();
    let thought = signed.then(|| json!({"type": "thinking", "thinking": "I read it.", "signature": "s"}));
    let round = |round: usize| {
        let call = json!({"type": "tool_use", "id": format!("c{round}"), "name": "run", "input": {"command": "ls"}});
        let content: Vec<_> = thought.iter().cloned().chain([call]).collect();
        let result = json!({"type": "tool_result", "tool_use_id": format!("c{round}"), "content": lines(round)});
        [json!({"role": "assistant", "content": content}), json!({"role": "user", "content": [result]})]
    };
    let ends = [json!({"role": "assistant", "content": "It is done."}), json!({"role": "user", "content": "Go on."})];
    let asks = [json!({"role": "user", "content": "Run them."})];
    let history = asks.into_iter().chain((0..rounds).flat_map(round)).chain(ends).map(decode).collect();
    block_on(session.sync(history)).unwrap();
    let texts = shown(&mut session);
    let tokens = block_on(session.window()).unwrap().tokens();
    (texts, tokens)
}

#[test]
fn a_history_that_is_cut_when_it_is_first_seen_keeps_shortened_results_instead_of_none() {
    let results = |texts: &[String]| texts.iter().filter(|text| text.contains("row 0 of ")).count();
    let (texts, tokens) = first_seen(20, false);
    assert!(results(&texts) > 10 && tokens < 56_000, "{} results, {tokens} tokens", results(&texts));
    let newest = texts.iter().find(|text| text.contains("row 0 of 19")).unwrap();
    assert!(!newest.contains("row 450 of 19"), "it is shortened");
    // Within the limits, the provider may have cached it as it is.
    let (texts, _) = first_seen(3, false);
    assert!(texts.iter().any(|text| text.contains("row 450 of 2")));
    // Signed reasoning was made after the whole results.
    let (texts, _) = first_seen(20, true);
    assert!(texts.iter().filter(|text| text.contains("row 0 of ")).all(|text| text.contains("row 450 of ")));
}
