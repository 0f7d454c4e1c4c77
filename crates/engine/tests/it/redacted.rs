//! `Debug` output of types that hold a conversation has its shape, but none of its words.

use std::fmt::Debug;

use lookback_content::Redacted;
use lookback_engine::transcript::Repair;
use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy, Stage, Summarize},
    transcript::{Entry, Transcript},
};
use lookback_wire::dialect::Shown;
use lookback_wire::edit::{Change, Cut, Edit};
use lookback_wire::message::{
    AssistantPart, Media, MediaSource, Opaque, PartRef, Reasoning, ResultItem, SystemPart, UserPart,
};
use lookback_wire::{
    dialect::{Dialect, Preamble, Request, Response},
    message::{Content, Message, ToolCall, ToolResult},
};
use serde_json::value::RawValue;

const MARK: &str = "s3cret";

#[track_caller]
fn hides(value: &dyn Debug) {
    for shown in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(!shown.contains(MARK), "{shown}");
    }
}

fn raw() -> Box<RawValue> {
    RawValue::from_string(format!("\"{MARK}\"")).unwrap()
}

fn opaque() -> Opaque {
    Opaque { kind: MARK.to_owned(), raw: raw() }
}

fn media(source: fn(String) -> MediaSource) -> Media {
    Media::new(source(MARK.to_owned())).with_mime(MARK).with_name(MARK)
}

/// Messages with the mark in every possible place.
fn messages() -> Vec<Message> {
    let items = vec![
        ResultItem::Text(MARK.to_owned()),
        ResultItem::Json(raw().get().to_owned()),
        ResultItem::Image(media(MediaSource::Base64)),
        ResultItem::Document(media(MediaSource::Text)),
        ResultItem::Opaque(opaque()),
    ];
    let mut result = ToolResult::new(MARK, MARK).with_error(true);
    result.content = items;
    let reasoning = Reasoning::new(MARK).with_signature(MARK);
    vec![
        Message::new(Content::System(vec![SystemPart::Text(MARK.to_owned()), SystemPart::Opaque(opaque())])),
        Message::new(Content::Assistant(vec![
            AssistantPart::Text(MARK.to_owned()),
            AssistantPart::Reasoning(reasoning),
            AssistantPart::ToolCall(ToolCall::new(MARK, MARK, MARK)),
            AssistantPart::Opaque(opaque()),
        ])),
        Message::new(Content::User(vec![
            UserPart::ToolResult(result),
            UserPart::Text(MARK.to_owned()),
            UserPart::Image(media(MediaSource::Url)),
            UserPart::Document(media(MediaSource::Id)),
            UserPart::Opaque(opaque()),
        ])),
    ]
}

#[test]
fn a_message_says_its_parts_and_their_lengths() {
    let message = Message::assistant_with_calls("Let me look.", [ToolCall::new("c1", "read", "{}")]);
    let call = "ToolCall(ToolCall { id: (2 bytes), name: (4 bytes), arguments: (2 bytes), .. })";
    let content = format!("Assistant([Text((12 bytes)), {call}])");
    assert_eq!(format!("{message:?}"), format!("Message {{ content: {content}, wire: None }}"));
}

#[test]
fn messages_and_their_parts_say_no_word() {
    for message in &messages() {
        hides(message);
        hides(message.content());
        let edits = [
            Edit { part: 0, change: Change::Rename(MARK.to_owned()) },
            Edit { part: 1, change: Change::Arguments(MARK.to_owned()) },
            Edit {
                part: 2,
                change: Change::Cut {
                    item: 0,
                    cut: Cut { head: 1, tail: 1, marker: MARK.to_owned(), ..Cut::nothing() },
                },
            },
        ];
        hides(&Shown { message, edits: &edits });
        for part in message.parts() {
            hides(&part);
            if let PartRef::ToolResult(result) = part {
                hides(result);
            }
        }
    }
    hides(&Redacted(MARK));
}

#[test]
fn requests_and_answers_say_no_word() {
    let list = format!(r#"[{{"role":"user","content":"{MARK}"}}]"#);
    let request = Request::decode(list, Some(Dialect::OpenAiChat)).unwrap();
    hides(&request);
    hides(&request.messages());
    hides(&request.messages()[0].wire());
    let body = format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":"{MARK}"}}}}]}}"#);
    hides(&Response::decode(&body, Dialect::OpenAiChat).unwrap());
}

#[test]
fn what_is_kept_of_a_conversation_says_no_word() {
    let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
    let mut engine = Engine::new(Settings::default().policy(policy));
    let mut log = Transcript::default();
    let preamble = Preamble::default().with_system(raw()).with_tools(raw());
    hides(&preamble);
    log.extend(engine.set_preamble(&preamble));
    for message in [
        Message::user(MARK),
        Message::assistant_with_calls(MARK, [ToolCall::new(MARK, MARK, "{}"), ToolCall::new("2", MARK, MARK)]),
        Message::tool_result(MARK, MARK),
        Message::user(MARK),
    ] {
        log.extend(engine.push(message).unwrap());
    }
    let outcome = engine.window();
    hides(&outcome);
    log.extend(outcome.entries);
    assert!(log.entries().iter().any(|entry| matches!(entry, Entry::Compaction(_))));
    assert!(log.entries().iter().any(|entry| matches!(entry, Entry::Repair(Repair::StandIn { .. }))));
    hides(&log);
    hides(&engine);
    hides(engine.view());
    engine.view().messages().for_each(|item| hides(item));
}

#[test]
fn a_summary_and_the_request_for_it_say_no_word() {
    let stages = vec![Stage::Summarize(Summarize::default())];
    let policy = Policy { limits: Limits::messages(2), stages, ..Policy::unlimited() };
    let mut engine = Engine::new(Settings::default().policy(policy));
    for _ in 0..3 {
        engine.push(Message::user(MARK)).unwrap();
    }
    let mut request = engine.window().summary_request.unwrap();
    request.previous = Some(MARK.to_owned());
    hides(&request);
    engine.accept_summary(&request.claim, MARK).unwrap();
    let summary = engine.view().summary().unwrap();
    hides(summary);
}
