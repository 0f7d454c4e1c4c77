//! Any bytes that can be read are written back unchanged, and can be checked, converted and repaired.

use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::{Finding, Shown};
use lookback_wire::message::{PartRef, ResultItem};
use lookback_wire::{
    dialect::{Dialect, Problem, Request},
    message::Message,
};
use serde_json::value::RawValue;

use crate::{faults, sent};

/// Checks the bytes as a request, in every dialect and in the detected one.
pub fn decode(data: &[u8]) {
    let found = Request::decode(data, None).ok();
    for dialect in Dialect::ALL {
        let Ok(request) = Request::decode(data, Some(dialect)) else {
            assert!(found.as_ref().is_none_or(|found| found.dialect() != dialect));
            continue;
        };
        let raws: Vec<_> = request.messages().iter().map(|message| &message.wire().expect("decoded").raw).collect();
        let again = Request::decode(request.with_messages(&raws), Some(dialect)).expect("the same request");
        assert_eq!(again.messages().len(), request.messages().len());
        assert_eq!(dialect.check(&again).len(), dialect.check(&request).len());
        request.messages().iter().for_each(|message| round_trip(dialect, message));
        repair(&request);
    }
}

/// Checks that a single message is written back unchanged, except for what the encoder changes on purpose.
fn round_trip(dialect: Dialect, message: &Message) {
    let raw = &message.wire().expect("decoded").raw;
    let encoded = dialect.encode([Shown { message, edits: &[] }]).expect("its own dialect");
    let alone = Request::from_raw(dialect, std::slice::from_ref(raw)).expect("it was read before");
    let is_about_system = |problem: &Problem| serde_json::to_value(problem).is_ok_and(|json| json["role"] == "system");
    let changes = |problem: &Problem| match problem.kind().as_str() {
        "first_message" => is_about_system(problem),
        "results_not_first" | "empty_tool_calls" | "trailing_space" | "system_place" | "bad_id" | "duplicate_id"
        | "null_member" | "missing_member" | "lone_reasoning" | "trigger_place" | "unsigned_call" | "bare_response"
        | "lone_surrogate" | "bad_name" | "duplicate_name" | "marker_order" | "text_type" | "empty_part"
        | "wrong_role" => true,
        _ => false,
    };
    let markers = raw.get().matches("cache").count() + raw.get().matches("\\u").count();
    // The result of a hosted tool is not sent without its call (AM11).
    let is_changed = |finding: &Finding| changes(&finding.problem) || finding.rule == "AM11";
    if markers <= 2 && !dialect.check(&alone).iter().any(is_changed) {
        let elements = message.wire().expect("decoded").elements();
        assert!(encoded.iter().map(|raw| raw.get()).eq(elements.into_iter().map(RawValue::get)), "{}", raw.get());
    }
    for to in Dialect::ALL.into_iter().filter(|to| *to != dialect) {
        // A converted message means the same.
        if let Ok([converted]) = to.convert(message).as_deref()
            && !holds_json(message)
            && !speaks_after_calls(message)
            && !has_several_texts(message)
            // Gemini's clients divide texts, so that neighbors are one.
            && (to != Dialect::Gemini && dialect != Dialect::Gemini || texts(message) < 2)
            // In Gemini's format an empty identifier is none.
            && message.tool_calls().all(|(_, call)| !call.id.is_empty())
            && message.tool_results().all(|(_, result)| !result.call_id.is_empty())
            // Some dialects read a `data:` URL as a URL, others as the bytes in it.
            && !raw.get().contains("data:")
        {
            assert_eq!(converted.digest(), message.digest(), "{} to {to}: {}", dialect, raw.get());
        }
    }
}

/// Returns whether a result has JSON, which becomes text in dialects without it.
fn holds_json(message: &Message) -> bool {
    message.parts().any(|part| match part {
        PartRef::ToolResult(result) => result.content.iter().any(|item| matches!(item, ResultItem::Json(_))),
        _ => false,
    })
}

fn texts(message: &Message) -> usize {
    message.parts().filter(|part| matches!(part, PartRef::Text(_))).count()
}

/// Returns whether a result has several items, which are one in Gemini's format.
fn has_several_texts(message: &Message) -> bool {
    message.tool_results().any(|(_, result)| result.content.len() > 1)
}

/// Returns whether anything follows a call. In OpenAI's format the calls are not in the content, so they come last.
fn speaks_after_calls(message: &Message) -> bool {
    let mut parts = message.parts().skip_while(|part| !matches!(part, PartRef::ToolCall(_)));
    parts.any(|part| !matches!(part, PartRef::ToolCall(_)))
}

/// Checks that a history that came in one piece can be sent.
fn repair(request: &Request) {
    let dialect = request.dialect();
    let mut engine = Engine::new(Settings::default().dialect(dialect));
    engine.set_preamble(request.preamble());
    for message in request.messages() {
        engine.push(message.clone()).expect("its own dialect");
    }
    engine.window();
    let window = sent(&engine);
    assert_eq!(faults(dialect, &window), [], "{:?}", window);
}
