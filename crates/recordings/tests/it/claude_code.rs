//! Session files of Claude Code, from files in its format with invented contents.

use std::collections::HashSet;
use std::ops::ControlFlow;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_recordings::{Reason, RecordedFile, RecordedUsage, Recording};
use lookback_replay::prices::Prices;
use lookback_replay::replay::{ReplayedCall, replay};
use lookback_wire::{dialect::Dialect, message::Role};

const SESSION: &str = include_str!("../claude_code/session.jsonl");
const ID: &str = "5b0c9d6e-0001-4c11-9a51-000000000001";

fn read(text: &str) -> Vec<Recording> {
    Recording::read(text, "file", None).unwrap()
}

/// Returns the messages as JSON, as they would be sent.
fn wire(recording: &Recording) -> Vec<&str> {
    recording.messages.iter().map(|recorded| recorded.message.wire().unwrap().raw.get()).collect()
}

fn texts(recording: &Recording) -> Vec<String> {
    recording.messages.iter().map(|recorded| recorded.message.text()).collect()
}

#[test]
fn the_newest_branch_is_read() {
    let recordings = read(SESSION);
    assert_eq!(recordings.len(), 1);
    let recording = &recordings[0];
    assert_eq!((&*recording.id, recording.dialect), (ID, Dialect::Anthropic));
    assert_eq!(
        wire(recording),
        [
            r#"{"role":"user","content":"Why does the kettle boil twice?"}"#,
            concat!(
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"The two files belong together.","#,
                r#""signature":"EqQBc2lnbmVk"},{"type":"text","text":"I read both files."},"#,
                r#"{"type":"tool_use","id":"toolu_01","name":"Read","input":{"file_path":"/home/ada/kettle/boil.py"}},"#,
                r#"{"type":"tool_use","id":"toolu_02","name":"Read","input":{"file_path":"/home/ada/kettle/boil.py"}}]}"#
            ),
            concat!(
                r#"{"role":"user","content":[{"tool_use_id":"toolu_01","type":"tool_result","#,
                r#""content":"def boil(): ..."}]}"#
            ),
            concat!(
                r#"{"role":"user","content":[{"tool_use_id":"toolu_02","type":"tool_result","#,
                r#""content":[{"type":"text","text":"a picture"},{"type":"image","source":"#,
                r#"{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}"#
            ),
            r#"{"role":"user","content":"And the lamp?"}"#,
            r#"{"role":"user","content":"Continue from where you left off."}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"The lamp is wired to the kettle."}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}"#,
            concat!(
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"toolu_03","name":"Bash","#,
                r#""input":{"command":"boil --once"}}]}"#
            ),
        ]
    );
}

#[test]
fn an_edited_prompt_and_its_answer_are_left_out() {
    assert!(texts(&read(SESSION)[0]).iter().all(|text| !text.contains("tea") && !text.contains("other kettle")));
}

#[test]
fn of_the_lines_of_one_message_the_last_has_its_usage() {
    let usage = |message, [input, cache_write, cache_read, output]: [u64; 4]| {
        let mut usage = RecordedUsage::new(message);
        (usage.input, usage.cache_write, usage.cache_read, usage.output) = (input, cache_write, cache_read, output);
        usage.model = Some("claude-sonnet-4-5-20250929".to_owned());
        usage
    };
    let recording = &read(SESSION)[0];
    assert_eq!(
        recording.usage,
        [usage(1, [4, 1000, 0, 120]), usage(6, [7, 200, 1004, 40]), usage(8, [2, 50, 1204, 33])]
    );
    assert_eq!(recording.model.as_deref(), Some("claude-sonnet-4-5-20250929"));
    // 2026-03-01T09:00:10Z: a message has the time of its first line.
    assert_eq!(recording.messages[1].time, Some(1_772_355_610_000));
}

#[test]
fn a_failed_request_is_no_answer_and_no_call() {
    assert!(texts(&read(SESSION)[0]).iter().all(|text| !text.contains("Overloaded")));
}

#[test]
fn a_copied_line_counts_once() {
    let twice = format!("{SESSION}{SESSION}");
    assert_eq!(wire(&read(&twice)[0]), wire(&read(SESSION)[0]));
    assert_eq!(read(&twice)[0].usage, read(SESSION)[0].usage);
}

#[test]
fn a_session_goes_on_behind_its_compaction() {
    let recordings = read(include_str!("../claude_code/compacted.jsonl"));
    assert_eq!(recordings.len(), 1);
    assert_eq!(
        texts(&recordings[0]),
        [
            "Paint the shed.",
            "Which color?",
            "This session is being continued from a previous conversation. The shed is to be painted.",
            "Red.",
            "It is red.",
        ]
    );
    assert_eq!(recordings[0].compactions, [2]);
}

#[test]
fn side_chains_and_conversations_without_a_tie_are_recordings_of_their_own() {
    let recordings = read(include_str!("../claude_code/sides.jsonl"));
    let told: Vec<_> = recordings.iter().map(|recording| (&*recording.id, texts(recording))).collect();
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let call = "Task\n{\"prompt\":\"Look in the drawer\"}";
    let (side, agent, second) = (format!("{ID}/agent-unnamed"), format!("{ID}/agent-ac47f8c"), format!("{ID}-2"));
    assert_eq!(
        told,
        [
            (ID, owned(&["Find the bolts.", call, "Nine bolts.", "There are nine."])),
            (&*side, owned(&["Look in the drawer", "Nine bolts."])),
            (&*agent, owned(&["Look under the bench", "None."])),
            (&*second, owned(&["Another thing: nuts?", "No nuts."])),
        ]
    );
}

#[test]
fn an_old_file_that_is_being_written_is_read_up_to_the_line_that_is_cut_off() {
    let recordings = read(include_str!("../claude_code/old.jsonl"));
    assert_eq!(recordings.len(), 1);
    assert_eq!(recordings[0].id, "file");
    assert_eq!(texts(&recordings[0]), ["Hi", "Hello.", "Bye"]);
    assert!(
        recordings[0].usage.is_empty() && recordings[0].model.is_none() && recordings[0].messages[0].time.is_none()
    );
}

#[test]
fn a_file_that_ends_inside_a_letter_is_read_up_to_the_line_that_is_cut_off() {
    let mut bytes = SESSION.as_bytes().to_vec();
    bytes.extend("\n{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"caf\u{e9}".as_bytes());
    bytes.pop();
    let text = lookback_recordings::read_text(bytes, lookback_recordings::LARGEST).unwrap();
    assert_eq!(read(&text)[0].messages.len(), read(SESSION)[0].messages.len());
}

#[test]
fn a_damaged_line_costs_only_that_line() {
    // Another line is a copy of this one.
    let broken = SESSION.replacen(r#""type":"user","#, r#""type":"user""#, 1);
    let file = RecordedFile::read(&broken, "file", None).unwrap();
    assert_eq!(texts(&file.recordings[0]), texts(&read(SESSION)[0]));
    assert_eq!(file.left_out.to_string(), "line 4 is damaged");
}

fn line(id: &str, parent: &str, time: &str, said: &str) -> String {
    format!(
        r#"{{"type":"{}","uuid":"{id}","parentUuid":{parent},"sessionId":"s","timestamp":"2026-03-01T09:00:{time}Z","message":{{"content":"{said}"}}}}"#,
        if said.ends_with('?') { "user" } else { "assistant" }
    )
}

/// Two processes wrote at once, one was killed in the middle of a line, and the disk was full.
#[test]
fn whole_records_in_a_damaged_line_are_read() {
    let [first, second, third, fourth] = [
        line("a", "null", "01", "One?"),
        line("b", "\"a\"", "02", "{\\\"Two\\\": {}}"),
        line("c", "\"b\"", "03", "Three?"),
        line("d", "\"c\"", "04", "Four"),
    ];
    let all = ["One?", "{\"Two\": {}}", "Three?", "Four"];
    for text in [
        format!("{first}{second}\n{third}\n{fourth}\n"),
        format!("{first}\n\0\0\0{second}\n{third}\0\0\n{fourth}"),
        format!("{first}\n{}{second}\n{third}\n{fourth}", &fourth[..90]),
        format!("{first}\n{second}\n{third}\n{}\n{fourth}", &fourth[..110]),
        format!("{first}\n{second}\n{third}\n{}{{\"type\":\"mode\",\"x\":{{\"y\":1}}}}{fourth}", &first[..60]),
        format!("{}\n{first}\n{second}\n{third}\n{fourth}\n{}", &first[20..], &fourth[..20]),
    ] {
        let file = RecordedFile::read(&text, "file", None).unwrap();
        assert_eq!(texts(&file.recordings[0]), all, "{text}");
    }
}

/// Compacted files often name a line of another file, or one that is lost.
#[test]
fn a_line_whose_parent_is_lost_does_not_split_the_conversation() {
    let text = [
        line("a", "null", "01", "One?"),
        line("b", "\"a\"", "02", "Two"),
        line("c", "\"lost\"", "03", "Three?"),
        line("d", "\"c\"", "04", "Four"),
    ];
    let file = RecordedFile::read(&text.join("\n"), "file", None).unwrap();
    assert_eq!(file.recordings.len(), 1);
    assert_eq!(texts(&file.recordings[0]), ["One?", "Two", "Three?", "Four"]);
    assert_eq!(file.left_out.to_string(), "line 3 is behind a line that is not in the file");
}

#[test]
fn a_dead_end_that_is_written_last_does_not_win() {
    let text = [
        line("a", "null", "01", "One?"),
        line("b", "\"a\"", "05", "Two"),
        line("c", "\"b\"", "06", "Three?"),
        line("x", "\"a\"", "03", "Dead end"),
    ];
    let file = RecordedFile::read(&text.join("\n"), "file", None).unwrap();
    assert_eq!(texts(&file.recordings[0]), ["One?", "Two", "Three?"]);
    assert_eq!(file.left_out.to_string(), "line 4 is on an older branch at the end");
    assert_eq!(file.left_out.of(Reason::OtherBranch), 1);
}

#[test]
fn a_long_damaged_line_takes_time_by_its_length() {
    let nested = r#"{"a":"#.repeat(200_000);
    let text = format!("{}\n{nested}\n{}", line("a", "null", "01", "One?"), line("b", "\"a\"", "02", "Two"));
    assert_eq!(texts(&read(&text)[0]), ["One?", "Two"]);
}

#[test]
fn lines_that_go_in_a_circle_are_read_once() {
    let recordings = read(include_str!("../claude_code/circle.jsonl"));
    assert_eq!(recordings.len(), 1);
    assert_eq!(texts(&recordings[0]), ["Round", "and", "round", "again."]);
}

#[test]
fn the_stream_of_the_sdk_is_read_in_its_order() {
    let recordings = read(include_str!("../claude_code/stream.jsonl"));
    let told: Vec<_> = recordings.iter().map(|recording| (&*recording.id, recording.messages.len())).collect();
    assert_eq!(told, [("st-1", 4), ("st-1/agent-toolu_01", 2)]);
}

#[test]
fn lines_of_no_conversation_are_no_recording() {
    let line = r#"{"type":"summary","summary":"A talk","leafUuid":"b"}"#;
    assert!(read(line).is_empty());
}

#[test]
fn a_long_file_takes_time_by_its_length() {
    let mut lines = Vec::new();
    for n in 0..20_000_usize {
        // One message of many lines, each with a call and a result next to it: the worst case for assembling a message.
        let call = format!(r#"[{{"type":"tool_use","id":"t{n}","name":"f","input":{{}}}}]"#);
        let parent = if n == 0 { "null".to_owned() } else { format!("\"a{}\"", n - 1) };
        lines.push(format!(
            r#"{{"type":"assistant","uuid":"a{n}","parentUuid":{parent},"message":{{"id":"m","content":{call}}}}}"#
        ));
        lines.push(format!(
            r#"{{"type":"user","uuid":"r{n}","parentUuid":"a{n}","message":{{"content":[{{"type":"tool_result","tool_use_id":"t{n}"}}]}}}}"#
        ));
    }
    let recordings = read(&lines.join("\n"));
    assert_eq!(recordings[0].messages.len(), 20_001);
    let calls: HashSet<_> = recordings[0].messages[0].message.tool_calls().map(|(_, call)| call.id.clone()).collect();
    assert_eq!(calls.len(), 20_000);
}

#[test]
fn a_replay_of_a_session_makes_its_calls_and_none_is_invalid() {
    let recording = &read(SESSION)[0];
    let settings = Settings::default().dialect(recording.dialect);
    let prices = Prices::builtin();
    let price = prices.find(prices.names().next().unwrap()).unwrap();
    let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
    let report = block_on(replay(recording, settings, price, 0, &mut on_call)).unwrap().report;
    let answers = recording.messages.iter().filter(|recorded| recorded.message.role() == Role::Assistant).count();
    assert_eq!((report.calls, report.invalid_requests), (answers as u64, 0));
}
