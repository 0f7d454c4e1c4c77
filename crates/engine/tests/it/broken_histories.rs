//! Broken histories, written by hand: one test for each bug that the generated histories found.

#![allow(clippy::cast_possible_truncation)]

use crate::common;
use crate::common::{Run, laws};
use lookback_engine::LogState;
use lookback_engine::group::Pin;
use lookback_engine::plan::Reason;
use lookback_engine::transcript::Origin;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_models::Provider;
use lookback_wire::dialect::{Dialect, Target};

fn run(dialect: Dialect, policy: Policy) -> Run {
    Run::new(Settings::default().dialect(dialect).policy(policy))
}

/// Pushes a history and takes a window, and checks all laws.
fn sent(run: &mut Run, history: &[&str]) -> Vec<String> {
    history.iter().for_each(|json| run.push(json, Origin::Client));
    run.window();
    laws::all(run).unwrap();
    laws::the_view_is_the_fold_of_the_log(run, 1).unwrap();
    run.steps.last().unwrap().request.clone()
}

fn calls(ids: &[&str]) -> String {
    let call = |id: &&str| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}"#);
    let calls: Vec<_> = ids.iter().map(call).collect();
    format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))
}

fn answer(id: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"done {id}"}}"#)
}

#[test]
fn a_call_without_result_is_found_before_answered_ones() {
    let mut run = run(Dialect::OpenAiChat, Policy::unlimited());
    let sent = sent(&mut run, &[&calls(&["a"]), &calls(&["b"]), &answer("b")]);
    assert_eq!(sent.len(), 4);
    assert!(sent[1].contains("\"a\"") && sent[1].contains("No result"));
}

#[test]
fn a_cache_marker_behind_a_tool_result_opens_no_turn() {
    let mut run = run(Dialect::Bedrock, Policy::unlimited());
    let history = [
        r#"{"role":"user","content":[{"text":"hi"}]}"#,
        r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"t","input":{}}}]}"#,
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"1"}]}},{"cachePoint":{"type":"default"}}]}"#,
    ];
    sent(&mut run, &history);
    assert_eq!(run.engine.view().totals().turns, 1);
}

#[test]
fn results_come_first_in_their_message() {
    let mut run = run(Dialect::Anthropic, Policy::unlimited());
    let history = [
        r#"{"role":"user","content":"hi"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}},{"type":"tool_use","id":"b","name":"t","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"here"},{"type":"tool_result","tool_use_id":"b","content":"2"}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}],"x":1.0e+2}"#,
    ];
    let sent = sent(&mut run, &history);
    let order: Vec<_> =
        ["\"2\"", "\"1\"", "here", "\"x\":1.0e+2"].iter().map(|text| sent[2].find(text).unwrap()).collect();
    assert!(order.is_sorted(), "{}", sent[2]);
}

#[test]
fn a_message_that_was_all_stale_reasoning_leaves_no_empty_group() {
    let policy = Policy { limits: Limits::messages(3), ..Policy::unlimited() };
    let mut run = run(Dialect::Anthropic, policy);
    let history = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"assistant","content":"two"}"#,
        r#"{"role":"user","content":"three"}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"}]}"#,
        r#"{"role":"user","content":"four"}"#,
    ];
    let sent = sent(&mut run, &history);
    assert!(!sent.concat().contains("thinking"));
}

#[test]
fn the_newest_message_stays_where_its_call_is_older() {
    let policy = Policy { limits: Limits::messages(3), ..Policy::unlimited() };
    let mut run = run(Dialect::OpenAiChat, policy);
    let one = r#"{"role":"assistant","content":"one"}"#;
    let sent = sent(&mut run, &[&calls(&["a"]), one, r#"{"role":"user","content":"two"}"#, one, &answer("a")]);
    assert!(sent.contains(&answer("a")));
}

#[test]
fn a_late_result_finds_its_stand_in_by_the_name_it_is_shown_by() {
    let keep = lookback_engine::policy::Keep { first: 1, ..Default::default() };
    let policy = Policy { limits: Limits { rounds: Some(4), ..Limits::default() }, keep, ..Policy::unlimited() };
    let mut run = run(Dialect::Anthropic, policy);
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}"#;
    let result = |text| {
        format!(r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":"{text}"}}]}}"#)
    };
    let (first, late) = (result("first"), result("late"));
    let one = r#"{"role":"assistant","content":"one"}"#;
    sent(&mut run, &[r#"{"role":"user","content":"hi"}"#, call, &first, one, one, call]);
    let sent = sent(&mut run, &[&late, one, r#"{"role":"user","content":"on"}"#]);
    assert!(sent.concat().contains("late") && !sent.concat().contains("No result"), "{sent:#?}");
    laws::a_late_result_takes_its_stand_ins_place(&run).unwrap();
}

#[test]
fn a_window_begins_with_a_user_though_a_round_before_the_task_is_kept() {
    let keep = lookback_engine::policy::Keep { last: 3, ..Default::default() };
    let policy = Policy { limits: Limits::messages(4), keep, ..Policy::unlimited() };
    let mut run = run(Dialect::Anthropic, policy);
    let history = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"assistant","content":"two"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}"#,
        r#"{"role":"user","content":"three"}"#,
    ];
    let sent = sent(&mut run, &history);
    assert!(sent[0].contains("one") && !sent.concat().contains("two"), "{sent:#?}");
}

#[test]
fn a_target_above_the_models_window_does_not_keep_it_from_being_met() {
    let policy = Policy { limits: Limits::tokens(1_000), target: Some(Limits::tokens(500)), ..Policy::unlimited() };
    let mut run = Run::new(Settings::default().policy(policy).model_window(100));
    let text = format!(r#"{{"role":"user","content":"{}"}}"#, "word ".repeat(30));
    let sent = sent(&mut run, &[&text, &text, &text, &text]);
    assert!(run.steps[0].outcome.exceeded.is_none() && sent.len() < 4);
}

#[test]
fn what_can_be_cleared_is_cleared_though_another_limit_cannot_be_met() {
    use lookback_engine::policy::Stage;
    let limits = Limits { turns: Some(1), media: Some(0), ..Limits::default() };
    let policy = Policy { limits, stages: vec![Stage::ClearMedia { except_newest: 0 }], ..Policy::unlimited() };
    let mut run = run(Dialect::Anthropic, policy);
    let history = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"url","url":"https://example.org/1.png"}}]}]}"#,
        r#"{"role":"assistant","content":"two"}"#,
        r#"{"role":"user","content":"three"}"#,
    ];
    assert!(sent(&mut run, &history).concat().contains("[image: "));
}

#[test]
fn an_error_without_a_word_is_given_one_where_the_provider_wants_it() {
    let mut run = run(Dialect::Bedrock, Policy::unlimited());
    let history = [
        r#"{"role":"user","content":[{"text":"hi"}]}"#,
        r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"t","input":{}}}]}"#,
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[],"status":"error"}}]}"#,
    ];
    assert!(sent(&mut run, &history).concat().contains("gave no output"));
}

#[test]
fn what_was_learned_of_a_models_tokens_comes_back_from_a_log_as_it_was() {
    let mut calibration = lookback_tokens::Calibration::default();
    for reported in 64..5_000 {
        calibration.observe(3_719, reported);
        let text = serde_json::to_string(&calibration).unwrap();
        assert_eq!(serde_json::from_str::<lookback_tokens::Calibration>(&text).unwrap(), calibration);
    }
}

#[test]
fn a_message_that_is_only_a_cache_marker_is_not_sent() {
    let mut run = run(Dialect::Bedrock, Policy::unlimited());
    let marker = r#"{"role":"user","content":[{"text":" "},{"cachePoint":{"type":"default"}}]}"#;
    let only = r#"{"role":"user","content":[{"cachePoint":{"type":"default"}},{"cachePoint":{"type":"default"}}]}"#;
    let sent = sent(
        &mut run,
        &[
            only,
            r#"{"role":"assistant","content":[{"text":"a"}]}"#,
            marker,
            r#"{"role":"assistant","content":[{"text":"b"}]}"#,
        ],
    );
    assert_eq!(sent.len(), 1, "{sent:#?}");
}

#[test]
fn a_late_message_for_two_rounds_leaves_its_part_for_each() {
    let mut run = run(Dialect::Anthropic, Policy { limits: Limits::messages(6), ..Policy::unlimited() });
    let call =
        |id| format!(r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"t","input":{{}}}}]}}"#);
    let late = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"late a"},{"type":"tool_result","tool_use_id":"b","content":"late b"}]}"#;
    let hi = r#"{"role":"user","content":"hi"}"#;
    sent(&mut run, &[hi, &call("a"), hi, &call("b")]);
    let sent = sent(&mut run, &[late, r#"{"role":"assistant","content":"on"}"#]).concat();
    assert!(sent.contains("late b") && !sent.contains("late a"), "{sent}");
}

#[test]
fn reasoning_made_under_another_frame_leaves_when_its_tool_loop_is_done() {
    let mut run = run(Dialect::Anthropic, Policy::unlimited());
    let thinking = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"tool_use","id":"a","name":"t","input":{}}]}"#;
    let preamble = |text: &str| lookback_wire::dialect::Preamble::default().with_system(laws::raw(text));
    run.engine.set_preamble(&preamble("\"one\"")).into_iter().for_each(|entry| run.log.extend([entry]));
    sent(&mut run, &[r#"{"role":"user","content":"hi"}"#]);
    run.answer(thinking, true);
    run.engine.set_preamble(&preamble("\"two\"")).into_iter().for_each(|entry| run.log.extend([entry]));
    let looping =
        sent(&mut run, &[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}"#]);
    assert!(looping.concat().contains("s1"));
    let done = sent(&mut run, &[r#"{"role":"assistant","content":"done"}"#, r#"{"role":"user","content":"next"}"#]);
    assert!(!done.concat().contains("s1"));
}

/// Pushes a history and takes a window. Checks that the provider accepts it, and that it has these texts in this order.
fn sent_in_order(run: &mut Run, history: &[&str], texts: &[&str]) -> Vec<String> {
    history.iter().for_each(|json| run.push(json, Origin::Client));
    run.window();
    let request = run.steps.last().unwrap().request.clone();
    let findings = run.settings.dialect.check(&common::request(run.settings.dialect, &request));
    assert!(findings.is_empty(), "{findings:?} in {request:#?}");
    let all = request.concat();
    let places: Vec<_> =
        texts.iter().map(|text| all.find(text).unwrap_or_else(|| panic!("no {text} in {all}"))).collect();
    assert!(places.is_sorted(), "{all}");
    request
}

#[test]
fn a_system_message_whose_assistant_left_stands_behind_the_users_that_follow() {
    let keep = lookback_engine::policy::Keep { first: 1, ..Default::default() };
    let mut run = run(Dialect::Anthropic, Policy { limits: Limits::messages(3), keep, ..Policy::unlimited() });
    let history = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"system","content":"be brief"}"#,
        r#"{"role":"assistant","content":"two"}"#,
        r#"{"role":"user","content":"three"}"#,
    ];
    let sent = sent_in_order(&mut run, &history, &["one", "three", "be brief"]);
    assert_eq!(sent.len(), 3);
}

#[test]
fn a_system_message_before_a_users_stands_behind_it() {
    let mut run = run(Dialect::Anthropic, Policy::unlimited());
    let history = [
        r#"{"role":"system","content":"be brief"}"#,
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"assistant","content":"two"}"#,
        r#"{"role":"system","content":"be kind"}"#,
        r#"{"role":"user","content":"three"}"#,
    ];
    sent_in_order(&mut run, &history, &["one", "be brief", "two", "three", "be kind"]);
}

#[test]
fn a_system_message_where_none_may_stand_is_sent_as_the_users() {
    let mut run = run(Dialect::Anthropic, Policy::unlimited());
    let history = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"assistant","content":"two"}"#,
        r#"{"role":"system","content":"be brief"}"#,
        r#"{"role":"assistant","content":"three"}"#,
        r#"{"role":"user","content":"four"}"#,
    ];
    let sent = sent_in_order(&mut run, &history, &["one", "two", "be brief", "three", "four"]);
    assert_eq!(sent[2], r#"{"role":"user","content":"be brief"}"#);
}

#[test]
fn no_signed_block_is_sent_under_another_prefix_by_a_policy_that_records_nothing() {
    let limits = Limits { turns: Some(1), ..Limits::default() };
    let mode = lookback_engine::policy::Mode::OnRead;
    let mut run = run(Dialect::Anthropic, Policy { limits, mode, ..Policy::unlimited() });
    let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"tool_use","id":"a","name":"t","input":{}}]}"#;
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}"#;
    let hi = r#"{"role":"user","content":"hi"}"#;
    sent(&mut run, &[hi, r#"{"role":"assistant","content":"yes"}"#, hi]);
    run.answer(call, true);
    let sent = sent(&mut run, &[result]);
    assert!(sent.len() == 3 || !sent.concat().contains("s1"), "{sent:#?}");
}

#[test]
fn a_request_that_ends_in_the_models_unfinished_words_ends_in_no_space() {
    let mut run = run(Dialect::Anthropic, Policy::unlimited());
    let sent = sent(&mut run, &[r#"{"role":"user","content":"go on"}"#, r#"{"role":"assistant","content":"once "}"#]);
    let findings = Dialect::Anthropic.check(&common::request(Dialect::Anthropic, &sent));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn an_identifier_that_comes_again_stays_as_short_as_the_provider_demands() {
    for length in [1, 38, 39, 40, 41, 64] {
        let id = "c".repeat(length);
        let mut run = run(Dialect::OpenAiChat, Policy::unlimited());
        run.engine.set_target(&Target::from(Dialect::OpenAiChat).with_provider(Provider::OpenAi));
        for _ in 0..12 {
            sent(&mut run, &[r#"{"role":"user","content":"again"}"#, &calls(&[&id, &id]), &answer(&id), &answer(&id)]);
        }
        let request = common::request(Dialect::OpenAiChat, &run.steps.last().unwrap().request);
        let findings = Dialect::OpenAiChat.check(&request.with_provider(Provider::OpenAi));
        assert!(findings.is_empty(), "{length}: {findings:?}");
    }
}

#[test]
fn an_empty_list_of_calls_is_not_sent() {
    let mut run = run(Dialect::OpenAiChat, Policy::unlimited());
    let sent = sent(
        &mut run,
        &[r#"{"role":"user","content":"hi"}"#, r#"{"role":"assistant","content":"a", "n":1.0e+2,"tool_calls":[]}"#],
    );
    assert!(sent[1].contains("1.0e+2") && !sent[1].contains("tool_calls"), "{}", sent[1]);
}

#[test]
fn a_branch_takes_no_reasoning_along_that_was_made_under_another_frame() {
    let preamble = |text: &str| lookback_wire::dialect::Preamble::default().with_system(laws::raw(text));
    let mut engine = lookback_engine::Engine::new(Settings::default().dialect(Dialect::Anthropic));
    let push = |engine: &mut lookback_engine::Engine, json: &str| engine.push(Dialect::Anthropic.decode(json).unwrap());
    engine.set_preamble(&preamble("\"one\""));
    push(&mut engine, r#"{"role":"user","content":"hi"}"#).unwrap();
    push(&mut engine, r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"text","text":"yes"}]}"#).unwrap();
    let mut view = engine.view().clone();
    engine.set_preamble(&preamble("\"two\""));
    view.branch(engine.view(), engine.end() + 1);
    let log = LogState { view, end: engine.end() + 1, since_checkpoint: 0 };
    let mut branch = lookback_engine::Engine::resume(engine.settings().clone(), log);
    push(&mut branch, r#"{"role":"user","content":"next"}"#).unwrap();
    branch.window();
    let sent: Vec<_> =
        branch.view().encode(Dialect::Anthropic).unwrap().iter().map(|raw| raw.get().to_owned()).collect();
    assert!(!sent.concat().contains("s1"), "{sent:?}");
}

#[test]
fn the_reasoning_that_servers_return_beside_the_content_counts() {
    let size = |json: &str| {
        let message = Dialect::OpenAiChat.decode(json).unwrap();
        lookback_tokens::measure(&message, &[], &lookback_tokens::Estimate::default()).tokens
    };
    let plain = size(r#"{"role":"assistant","content":"yes"}"#);
    assert!(size(r#"{"role":"assistant","content":"yes","reasoning_content":"let me think it over"}"#) >= plain + 5);
}

#[test]
fn four_cache_markers_stay_and_the_oldest_of_five_goes() {
    let marked = |n: usize| {
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"{n}","cache_control":{{"type":"ephemeral"}}}}]}}"#
        )
    };
    for (system, kept) in
        [("\"plain\"", 4), (r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]"#, 3)]
    {
        let mut engine = lookback_engine::Engine::new(Settings::default().dialect(Dialect::Anthropic));
        engine.set_preamble(&lookback_wire::dialect::Preamble::default().with_system(laws::raw(system)));
        for n in 0..5 {
            engine.push(Dialect::Anthropic.decode(&marked(n)).unwrap()).unwrap();
        }
        let sent = engine.view().encode(Dialect::Anthropic).unwrap().concat_text();
        assert_eq!(sent.matches("cache_control").count(), kept, "{sent}");
    }
}

/// Returns the texts of several messages in one string.
trait ConcatText {
    fn concat_text(&self) -> String;
}

impl ConcatText for Vec<std::borrow::Cow<'_, serde_json::value::RawValue>> {
    fn concat_text(&self) -> String {
        self.iter().map(|raw| raw.get()).collect()
    }
}

#[test]
fn a_policy_that_keeps_system_messages_keeps_those_in_the_middle() {
    let keep = |system| lookback_engine::policy::Keep { system, ..Default::default() };
    let user = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let said = |text: &str| format!(r#"{{"role":"assistant","content":"{text}"}}"#);
    let rule = r#"{"role":"system","content":"Change no files."}"#;
    let texts = ["one", "two", "three", "four"];
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic] {
        for system in [true, false] {
            let policy = Policy { limits: Limits::messages(2), keep: keep(system), ..Policy::unlimited() };
            let mut run = run(dialect, policy);
            let mut history: Vec<String> = texts.iter().flat_map(|text| [user(text), said(text)]).collect();
            history.insert(1, rule.to_owned());
            history.push(user("five"));
            let history: Vec<&str> = history.iter().map(String::as_str).collect();
            let sent = sent(&mut run, &history).concat();
            assert_eq!(sent.contains("Change no files."), system, "{dialect}: {sent}");
            assert!(!sent.contains("two") && sent.contains("five"), "{dialect}: {sent}");
            let plan = run.steps.last().unwrap().outcome.plan.as_ref().unwrap();
            let pin = Reason::Pinned { pin: Pin::LaterSystem };
            assert_eq!(plan.decisions.iter().any(|decision| decision.reason == pin), system, "{dialect}");
        }
    }
}
