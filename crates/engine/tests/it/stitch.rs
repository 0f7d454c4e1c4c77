//! Joins streamed answers: the vectors of `corpus/streams`, and laws over generated answers.

use lookback_wire::dialect::{Dialect, Response, ResponseStream, Shown, Stitch};
use lookback_wire::edit;
use lookback_wire::message::{Message, PartRef};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

type Raw = Box<RawValue>;

const FILES: [(Dialect, &str); 4] = [
    (Dialect::OpenAiChat, include_str!("../../../../corpus/streams/openai-chat.json")),
    (Dialect::Anthropic, include_str!("../../../../corpus/streams/anthropic.json")),
    (Dialect::OpenAiResponses, include_str!("../../../../corpus/streams/openai-responses.json")),
    (Dialect::Gemini, include_str!("../../../../corpus/streams/gemini.json")),
];

const OWN: &str = "recall";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    answers: Vec<Vec<Raw>>,
    client: Vec<Raw>,
    last: Raw,
}

/// Writes events as a server does.
fn stream(events: &[impl AsRef<RawValue>]) -> String {
    let event = |raw: &RawValue| {
        let kind = serde_json::from_str::<Value>(raw.get()).ok().and_then(|event| Some(event.get("type")?.to_string()));
        let name = kind.map_or_else(String::new, |kind| format!("event: {}\n", kind.trim_matches('"')));
        format!("{name}data: {}\n\n", raw.get().trim_matches('"'))
    };
    events.iter().map(|raw| event(raw.as_ref())).collect()
}

/// Joins answers that arrive in pieces of a size. Returns the stream of the client.
fn joined(dialect: Dialect, answers: &[String], size: usize) -> (Stitch, String) {
    let mut stitch = Stitch::new(dialect, [OWN]).unwrap();
    let mut out = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        if number > 0 {
            stitch.resume();
        }
        answer.as_bytes().chunks(size).for_each(|bytes| out.extend(stitch.read(bytes)));
    }
    out.extend(stitch.finish());
    (stitch, String::from_utf8(out).unwrap())
}

fn sent(dialect: Dialect, stitch: &Stitch) -> String {
    let message = stitch.message().unwrap();
    let edits = edit::in_order(stitch.hide_shown(&message));
    let sent = dialect.encode([Shown { message: &message, edits: &edits }]).unwrap();
    let sent: Vec<&str> = sent.iter().map(|raw| raw.get()).collect();
    if let [one] = sent[..] { one.to_owned() } else { format!("[{}]", sent.join(",")) }
}

#[test]
fn the_client_gets_one_answer_without_calls_of_other_tools() {
    for (dialect, text) in FILES {
        for vector in serde_json::from_str::<Vec<Vector>>(text).unwrap() {
            let answers: Vec<String> = vector.answers.iter().map(|events| stream(events)).collect();
            for size in [1, 7, 1 << 20] {
                let (stitch, out) = joined(dialect, &answers, size);
                assert_eq!(out, stream(&vector.client), "{dialect}: {}", vector.name);
                assert_eq!(sent(dialect, &stitch), vector.last.get(), "{dialect}: {}", vector.name);
            }
        }
    }
}

/// A part of a generated answer.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Thought(String),
    Text(String),
    Own(String),
    Call(String),
}

fn part(owns: bool, calls: bool) -> impl Strategy<Value = Part> {
    let words = || "[a-z]{1,6}( [a-zé\"\\\\]{1,4}){0,3}";
    prop_oneof![
        2 => words().prop_map(Part::Thought),
        4 => words().prop_map(Part::Text),
        u32::from(owns) * 3 + 1 => words().prop_map(move |words| if owns { Part::Own(words) } else { Part::Text(words) }),
        u32::from(calls) * 3 + 1 => words().prop_map(move |words| if calls { Part::Call(words) } else { Part::Text(words) }),
    ]
}

/// Answers that are one for the client: each but the last has a call of the intermediary's tool, and none of the
/// client's.
fn answers() -> impl Strategy<Value = Vec<Vec<Part>>> {
    let earlier = prop::collection::vec(part(true, false), 0..4)
        .prop_map(|parts| parts.into_iter().chain([Part::Own("x".to_owned())]).collect());
    let last =
        prop_oneof![prop::collection::vec(part(false, true), 0..5), prop::collection::vec(part(true, true), 1..5)];
    (prop::collection::vec(earlier, 0..3), last).prop_map(|(mut answers, last)| {
        // A call of the intermediary's alone would be answered.
        let is_open = last.iter().any(|part| matches!(part, Part::Own(_)));
        let last: Vec<Part> =
            if is_open { last.into_iter().chain([Part::Call("y".to_owned())]).collect() } else { last };
        answers.push(last);
        answers
    })
}

/// Writes an answer as the events of a dialect. `number` distinguishes answers.
fn events(dialect: Dialect, parts: &[Part], number: usize) -> Vec<Raw> {
    let calls = parts.iter().filter(|part| matches!(part, Part::Own(_) | Part::Call(_))).count();
    let name = |part: &Part| if matches!(part, Part::Own(_)) { OWN } else { "read" };
    let id = |index: usize| format!("call-{number}-{index}");
    let halves = |text: &str| {
        let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        [text[..middle].to_owned(), text[middle..].to_owned()]
    };
    let mut out: Vec<Value> = Vec::new();
    match dialect {
        Dialect::Anthropic => {
            out.push(json!({"type": "message_start", "message": {"id": format!("m{number}"), "role": "assistant",
                "usage": {"input_tokens": 100, "output_tokens": 1}}}));
            for (index, part) in parts.iter().enumerate() {
                let (block, delta, text) = match part {
                    Part::Thought(text) => {
                        (json!({"type": "thinking", "thinking": "", "signature": "s"}), "thinking", text)
                    }
                    Part::Text(text) => (json!({"type": "text", "text": ""}), "text", text),
                    Part::Own(words) | Part::Call(words) => {
                        let block = json!({"type": "tool_use", "id": id(index), "name": name(part), "input": {}});
                        (block, "partial_json", words)
                    }
                };
                out.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
                let text = if delta == "partial_json" { json!({"q": text}).to_string() } else { text.clone() };
                for half in halves(&text) {
                    out.push(json!({"type": "content_block_delta", "index": index, "delta": {delta: half}}));
                }
                out.push(json!({"type": "content_block_stop", "index": index}));
            }
            let reason = if calls > 0 { "tool_use" } else { "end_turn" };
            out.push(
                json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 10}}),
            );
            out.push(json!({"type": "message_stop"}));
        }
        Dialect::OpenAiChat => {
            let chunk = |delta: Value, reason: Option<&str>| json!({"id": format!("c{number}"), "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
            out.push(chunk(json!({"role": "assistant", "content": ""}), None));
            let mut next = 0;
            for part in parts {
                match part {
                    Part::Thought(text) => {
                        out.extend(halves(text).map(|half| chunk(json!({"reasoning_content": half}), None)));
                    }
                    Part::Text(text) => out.extend(halves(text).map(|half| chunk(json!({"content": half}), None))),
                    Part::Own(words) | Part::Call(words) => {
                        let call = json!({"index": next, "id": id(next), "type": "function",
                            "function": {"name": name(part), "arguments": ""}});
                        out.push(chunk(json!({"tool_calls": [call]}), None));
                        for half in halves(&json!({"q": words}).to_string()) {
                            let piece = json!({"index": next, "function": {"arguments": half}});
                            out.push(chunk(json!({"tool_calls": [piece]}), None));
                        }
                        next += 1;
                    }
                }
            }
            out.push(chunk(json!({}), Some(if calls > 0 { "tool_calls" } else { "stop" })));
            out.push(json!({"id": format!("c{number}"), "choices": [],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10}}));
            out.push(json!("[DONE]"));
        }
        Dialect::OpenAiResponses => {
            let items = parts.iter().enumerate().map(|(index, part)| match part {
                Part::Thought(text) => json!({"type": "reasoning", "id": format!("i{number}-{index}"),
                    "summary": [{"type": "summary_text", "text": text}]}),
                Part::Text(text) => json!({"type": "message", "id": format!("i{number}-{index}"), "role": "assistant",
                    "content": [{"type": "output_text", "text": text}]}),
                Part::Own(words) | Part::Call(words) => json!({"type": "function_call", "call_id": id(index),
                    "id": format!("i{number}-{index}"), "name": name(part), "arguments": json!({"q": words}).to_string()}),
            });
            let items: Vec<Value> = items.collect();
            out.push(json!({"type": "response.created", "response": {"id": format!("r{number}"), "model": "m"}}));
            for (index, item) in items.iter().enumerate() {
                out.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
                out.push(json!({"type": "response.output_text.delta", "output_index": index, "delta": "x"}));
                out.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
            }
            out.push(json!({"type": "response.completed", "response": {"id": format!("r{number}"), "model": "m",
                "output": items, "usage": {"input_tokens": 100, "output_tokens": 10}}}));
            for (at, event) in out.iter_mut().enumerate() {
                event["sequence_number"] = json!(at);
            }
        }
        Dialect::Gemini => {
            let usage = json!({"promptTokenCount": 100, "candidatesTokenCount": 10});
            let mut chunks: Vec<Value> = Vec::new();
            for part in parts {
                match part {
                    Part::Thought(text) => chunks.push(json!({"text": text, "thought": true})),
                    Part::Text(text) => chunks.extend(halves(text).map(|half| json!({"text": half}))),
                    Part::Own(words) | Part::Call(words) => {
                        chunks.push(json!({"functionCall": {"name": name(part), "args": {"q": words}}}));
                    }
                }
            }
            let last = chunks.pop().unwrap_or_else(|| json!({"text": ""}));
            let content = |part: Value| json!({"role": "model", "parts": [part]});
            out.extend(chunks.into_iter().map(|part| json!({"candidates": [{"content": content(part), "index": 0}]})));
            out.push(json!({"candidates": [{"content": content(last), "finishReason": "STOP", "index": 0}],
                "usageMetadata": usage}));
        }
        Dialect::Bedrock => unreachable!("it streams no events"),
    }
    out.iter().map(|event| serde_json::value::to_raw_value(event).unwrap()).collect()
}

fn response(dialect: Dialect, stream: &str) -> Option<Response> {
    let mut parsed = ResponseStream::new(dialect);
    parsed.read(stream.as_bytes());
    assert!(parsed.is_complete() && parsed.error().is_none());
    parsed.response()
}

/// The texts and calls of a message. Neighboring texts are one.
fn said(message: &Message) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for part in message.parts() {
        match part {
            PartRef::Text("") => {}
            PartRef::Text(text) => match all.last_mut() {
                Some((kind, words)) if kind == "text" => words.push_str(text),
                _ => all.push(("text".to_owned(), text.to_owned())),
            },
            PartRef::ToolCall(call) => all.push((call.name.clone(), call.arguments.clone())),
            _ => {}
        }
    }
    all
}

fn without_own(parts: &[Part]) -> Vec<Part> {
    parts.iter().filter(|part| !matches!(part, Part::Own(_))).cloned().collect()
}

proptest! {
    #![proptest_config(Config { rng_seed: RngSeed::Fixed(39), failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_client_has_one_answer_and_the_model_has_each(answers in answers(), size in 1usize..200) {
        for (dialect, _) in FILES {
            let streams: Vec<String> = answers.iter().enumerate()
                .map(|(number, parts)| stream(&events(dialect, parts, number))).collect();
            let (stitch, out) = joined(dialect, &streams, size);
            prop_assert_eq!(&out, &joined(dialect, &streams, 1 << 20).1);
            for end in ["\r\n", "\r"] {
                let streams: Vec<String> = streams.iter().map(|answer| answer.replace('\n', end)).collect();
                let plain = joined(dialect, &streams, size).1.replace("\r\n", "\n").replace('\r', "\n");
                prop_assert_eq!(&plain, &out);
            }

            // It has everything except the hidden calls, and is one answer, with empty lines between.
            let all: Vec<Part> = answers.iter().flat_map(|parts| without_own(parts)).collect();
            let expected = response(dialect, &stream(&events(dialect, &all, 0)));
            let whole = response(dialect, &out);
            let plain = |it: &Response| said(&it.message).into_iter().map(|(kind, text)| (kind, text.replace("\n\n", "")));
            let plain = |it: Option<&Response>| it.map(|it| plain(it).collect::<Vec<_>>());
            prop_assert_eq!(plain(whole.as_ref()), plain(expected.as_ref()));
            let count = answers.len() as u64;
            if let Some(whole) = &whole {
                prop_assert_eq!((whole.input, whole.output), (Some(100), Some(10 * count)));
            }
            for once in ["message_start", "message_stop", "response.created", "response.completed", "[DONE]"] {
                let one = stream(&events(dialect, &[], 0)).matches(once).count();
                prop_assert_eq!(out.matches(once).count(), one, "{}: {}", dialect, once);
            }

            // Indexes and numbers have no gaps.
            let data = out.lines().filter_map(|line| line.strip_prefix("data: "));
            let data: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
            let starts = data.iter().filter(|event| {
                ["content_block_start", "response.output_item.added"].iter().any(|kind| event["type"] == *kind)
            });
            for (number, event) in starts.enumerate() {
                let index = event.get("index").or(event.get("output_index"));
                prop_assert_eq!(index, Some(&json!(number)), "{}", dialect);
            }
            for (number, event) in data.iter().enumerate() {
                let known = event.get("sequence_number");
                prop_assert!(known.is_none_or(|known| *known == json!(number)));
            }

            // What the model sees of it is the last answer.
            let last = without_own(answers.last().unwrap());
            let said_last = response(dialect, &stream(&events(dialect, &last, 0))).map(|it| said(&it.message));
            let is_empty = said_last.as_ref().is_none_or(Vec::is_empty);
            if whole.is_some() && !is_empty {
                let shown = dialect.decode(&sent(dialect, &stitch)).unwrap();
                // An empty line may stay after a thought.
                let shown = said(&shown).into_iter().map(|(kind, text)| (kind, text.trim_start_matches("\n\n").to_owned()));
                prop_assert_eq!(Some(shown.collect::<Vec<_>>()), said_last, "{}", dialect);
            }
        }
    }

    #[test]
    fn an_answer_without_hidden_calls_passes_byte_for_byte_as_it_comes(
        parts in prop::collection::vec(part(false, true), 0..6),
        size in 1usize..200,
    ) {
        for (dialect, _) in FILES {
            for end in ["\n", "\r\n", "\r"] {
                let text = stream(&events(dialect, &parts, 0)).replace('\n', end);
                prop_assert_eq!(&joined(dialect, std::slice::from_ref(&text), size).1, &text);
                // No event waits for a later one.
                let mut stitch = Stitch::new(dialect, [OWN]).unwrap();
                for event in text.split_inclusive(&end.repeat(2)) {
                    prop_assert_eq!(stitch.read(event.as_bytes()), event.as_bytes());
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_it_fail(answers in prop::collection::vec(".{0,200}", 1..3), size in 1usize..50) {
        for (dialect, _) in FILES {
            let _ = joined(dialect, &answers, size);
        }
    }
}

#[test]
fn an_error_has_the_form_of_the_dialect() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","code":"busy","message":"Later."}}"#;
    let pretty = body.replace(',', ",\r\n  ").replace('{', "{\n");
    for (dialect, _) in FILES {
        for body in [body, &pretty] {
            let mut stitch = Stitch::new(dialect, [OWN]).unwrap();
            let out = String::from_utf8(stitch.fail(body).unwrap()).unwrap();
            let mut parsed = ResponseStream::new(dialect);
            parsed.read(out.as_bytes());
            assert!(parsed.error().unwrap().contains("Later."), "{dialect}: {out}");
            assert!(stitch.fail("<html>").is_none());
        }
    }
}
