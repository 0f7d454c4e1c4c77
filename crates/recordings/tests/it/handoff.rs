//! Conversations that are written for another agent.

use std::fs;
use std::path::Path;

use lookback_recordings::{Handoff, Home, RecordedFile, Recording, agents, resume};
use lookback_wire::message::{Content, Message, PartRef};
use serde_json::value::RawValue;

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs");
const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Returns the messages without thinking, and without those of other roles.
fn messages(recording: &Recording) -> Vec<Message> {
    let all = recording.messages.iter().map(|recorded| recorded.message.content().clone());
    let of = |content: Content| match content {
        Content::Assistant(mut parts) => {
            parts.retain(|part| !format!("{part:?}").starts_with("Reasoning"));
            Some(Message::new(Content::Assistant(parts)))
        }
        Content::User(_) => Some(Message::new(content)),
        _ => None,
    };
    all.filter_map(of).filter(|message| message.parts().next().is_some()).collect()
}

/// Returns the texts, the names of the called tools and the results, in order and without white space.
fn said(messages: &[Message]) -> (Vec<String>, Vec<String>, Vec<String>) {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let (mut texts, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for part in messages.iter().flat_map(Message::parts) {
        match part {
            PartRef::Text(text) => texts.push(dense(text)),
            PartRef::ToolCall(call) => calls.push(format!("{} {}", call.name, dense(&call.arguments))),
            PartRef::ToolResult(result) => results.push(dense(&format!("{:?}", result.content))),
            _ => {}
        }
    }
    (texts, calls, results)
}

/// Gemini CLI compacts before the results of the last calls have come. They belong to the calls that it keeps.
#[test]
fn results_of_kept_calls_are_kept() {
    let text = r#"[{"role":"user","content":"one"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"two"}]},
        {"role":"user","content":"summary"},{"role":"user","content":"three"}]"#;
    let mut recording = Recording::read(text, "log", None).unwrap().remove(0);
    recording.compactions = vec![3];
    recording.kept.insert(3, vec![1]);
    assert_eq!(recording.current(), [3, 1, 2, 4]);
    // People's words stand before the summary.
    recording.kept.insert(3, vec![0]);
    assert_eq!(recording.current(), [0, 3, 4]);
}

/// Gemini CLI takes a prompt that begins with a slash for a command, and leaves it out.
#[test]
fn no_prompt_for_gemini_cli_begins_like_a_command() {
    let element = RawValue::from_string(r#"{"role":"user","parts":[{"text":"/src/main.rs is broken"}]}"#.to_owned());
    let element = element.unwrap();
    let resume = resume("Gemini CLI").unwrap();
    let project = Path::new("/home/ada/My..App");
    let handoff = Handoff { id: ID, messages: &[], elements: &[&element], project, model: None, time: 0 };
    let home = tempfile::tempdir().unwrap();
    let written = resume.write(&handoff, &Home::at(home.path()));
    assert!(
        written.text.contains(r#""content":[{"text":"Prompt: "},{"text":"/src/main.rs is broken"}]"#),
        "{}",
        written.text
    );
    let folder = home.path().join(".gemini/tmp/my-app");
    assert!(written.place.unwrap().starts_with(folder.join("chats")));
    // Another project has this name.
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(".project_root"), "/elsewhere/my-app").unwrap();
    let written = resume.write(&handoff, &Home::at(home.path()));
    assert!(written.place.unwrap().starts_with(home.path().join(".gemini/tmp/my-app-1")));
}

/// Every agent that resumes conversations reads what was written for it as it was.
#[test]
fn the_reader_of_an_agent_reads_what_was_written_for_it() {
    let resumed: Vec<_> = agents().filter_map(resume).collect();
    assert_eq!(resumed.len(), 6);
    let mut count = 0;
    for file in fs::read_dir(LOGS).unwrap().map(|file| file.unwrap().path()) {
        for recording in RecordedFile::open(&file, None).unwrap().recordings {
            for resume in &resumed {
                let name = format!("{} for {}", file.display(), resume.agent());
                let Ok(converted) = resume.dialect().convert_all(&messages(&recording)) else { continue };
                let (_, calls, results) = said(&converted);
                if calls.len() != results.len() {
                    // An engine adds the missing results first.
                    continue;
                }
                count += 1;
                let elements: Vec<&RawValue> =
                    converted.iter().filter_map(Message::wire).flat_map(|wire| wire.elements()).collect();
                let (messages, project) = (&converted[..], Path::new("/home/ada/kettle"));
                let handoff = Handoff {
                    id: ID,
                    messages,
                    elements: &elements,
                    project,
                    model: Some("m1"),
                    time: 1_772_355_600_000,
                };
                let written = resume.write(&handoff, &Home::at("/home/ada"));
                let read = RecordedFile::read(&written.text, "log", None).unwrap();
                assert_eq!(read.agent, Some(resume.agent()), "{name}");
                assert_eq!(read.left_out.to_string(), "", "{name}");
                let all: Vec<Message> =
                    read.recordings.iter().flat_map(|it| &it.messages).map(|it| it.message.clone()).collect();
                assert_eq!(said(&all), said(&converted), "{name}");
                assert!(written.resume.iter().any(|word| word.replace("ses_", "").starts_with("11111111")), "{name}");
            }
        }
    }
    assert!(count > 60, "{count} conversations were written");
}
