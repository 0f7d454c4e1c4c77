//! Token counts of a window: tokens that a provider adds, and reasoning that it drops.

use lookback_engine::policy::Keep;
use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy},
};
use lookback_models::{Models, Provider};
use lookback_tokens::measure;
use lookback_wire::dialect::Target;
use lookback_wire::dialect::{Dialect, Request};

fn engine(dialect: Dialect, model: &str, policy: Policy) -> Engine {
    Engine::new(Settings::for_model(dialect, model).policy(policy))
}

fn tokens(engine: &Engine) -> u64 {
    engine.view().totals().size.tokens
}

fn responses(items: &[&str]) -> Vec<lookback_wire::message::Message> {
    items.iter().map(|item| Dialect::OpenAiResponses.decode(item).unwrap()).collect()
}

/// A turn with a call after hidden reasoning of 3,587 tokens.
fn turn(number: usize) -> Vec<lookback_wire::message::Message> {
    responses(&[
        r#"{"role":"user","content":"Read it."}"#,
        &format!(r#"{{"type":"reasoning","summary":[],"encrypted_content":"{}"}}"#, "R".repeat(20_000)),
        &format!(r#"{{"type":"function_call","call_id":"c{number}","name":"read","arguments":"{{}}"}}"#),
        &format!(r#"{{"type":"function_call_output","call_id":"c{number}","output":"text"}}"#),
    ])
}

#[test]
fn hidden_reasoning_counts_until_a_person_speaks_again_if_the_model_forgets_it() {
    for (model, forgets) in [("gpt-5", true), ("gpt-5.6", false), ("gpt-6", false)] {
        let mut engine = engine(Dialect::OpenAiResponses, model, Policy::unlimited());
        turn(1).into_iter().for_each(|message| drop(engine.push(message).unwrap()));
        let during = tokens(&engine);
        assert!(during > 3_587, "{model} {during}");
        engine.push(responses(&[r#"{"role":"assistant","content":"Done."}"#]).remove(0)).unwrap();
        assert!(tokens(&engine) > during, "{model}: an answer ends no turn");
        engine.push(responses(&[r#"{"role":"user","content":"And then?"}"#]).remove(0)).unwrap();
        assert_eq!(tokens(&engine) < 3_587, forgets, "{model} {}", tokens(&engine));
    }
}

#[test]
fn a_window_that_was_cut_counts_no_reasoning_of_turns_that_are_over() {
    for first in [0, 3] {
        let keep = Keep { first, ..Policy::production().keep };
        let policy = Policy { limits: Limits::tokens(9_000), keep, ..Policy::production() };
        let mut engine = engine(Dialect::OpenAiResponses, "gpt-5", policy);
        for number in 0..100 {
            turn(number).into_iter().for_each(|message| drop(engine.push(message).unwrap()));
            // The turn is so long that it is cut while it is open.
            for step in 0..if number == 0 { 60 } else { 2 } {
                let id = format!("s{number}-{step}");
                let call = format!(r#"{{"type":"function_call","call_id":"{id}","name":"read","arguments":"{{}}"}}"#);
                let text = "a line of /src/main.rs ".repeat(40);
                let result = format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"{text}"}}"#);
                responses(&[&call, &result]).into_iter().for_each(|message| drop(engine.push(message).unwrap()));
                let _ = engine.window();
            }
            let items = engine.view().messages();
            assert_eq!(items.map(|item| item.size().tokens).sum::<u64>(), tokens(&engine), "{first} {number}");
            let passing = engine.view().messages().filter(|item| item.size().passing > 0);
            let begun = engine.view().messages().filter(|item| item.message().opens_turn() && !item.is_own());
            let task = begun.map(|item| item.position()).max();
            assert!(passing.map(|item| Some(item.position())).all(|at| at > task), "{first} {number}");
        }
        assert!(engine.view().is_cut());
    }
}

#[test]
fn a_view_that_is_restored_from_a_checkpoint_counts_the_same() {
    let mut engine = engine(Dialect::OpenAiResponses, "gpt-5", Policy::unlimited());
    let mut entries = Vec::new();
    for message in turn(1) {
        entries.extend(engine.push(message).unwrap());
    }
    let checkpoint = engine.view().checkpoint();
    let saved = serde_json::to_string(&checkpoint).unwrap();
    let checkpoint = serde_json::from_str(&saved).unwrap();
    let restored = lookback_engine::view::View::restore(&checkpoint, |at| entries.get(usize::try_from(at).unwrap()));
    assert!(engine.view().totals().size.passing > 0);
    let mut restored = restored.unwrap();
    assert_eq!(restored.totals(), engine.view().totals());
    // The turn ends in both.
    let next = responses(&[r#"{"role":"user","content":"And then?"}"#]).remove(0);
    let at = engine.view().path().last().map_or(0, |span| span.end);
    for (position, entry) in (at..).zip(engine.push(next).unwrap()) {
        restored.apply(position, &entry);
    }
    assert_eq!(restored.totals(), engine.view().totals());
    assert_eq!(restored.totals().size.passing, 0);
}

#[test]
fn the_form_that_answers_must_have_is_counted_and_changes_no_reasoning() {
    let counted = |dialect: Dialect, model: &str, form: &str| {
        let body =
            format!(r#"{{"model":"{model}","max_tokens":9,"messages":[{{"role":"user","content":"Hi"}}]{form}}}"#);
        let request = Request::decode(body, Some(dialect)).unwrap();
        let mut engine = engine(dialect, model, Policy::unlimited());
        engine.set_preamble(request.preamble());
        tokens(&engine)
    };
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
    let claude = format!(r#","output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}"#);
    let added = counted(Dialect::Anthropic, "claude-sonnet-4-5", &claude);
    assert!((130..160).contains(&added), "{added}");
    let openai =
        format!(r#","response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}"#);
    let added = counted(Dialect::OpenAiChat, "gpt-4o", &openai);
    assert!((5..20).contains(&added), "{added}");

    let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"So.","signature":"s"},{"type":"text","text":"Yes."}]}"#;
    let mut engine = engine(Dialect::Anthropic, "claude-sonnet-4-5", Policy::unlimited());
    for text in [r#"{"role":"user","content":"Is it?"}"#, thought, r#"{"role":"user","content":"Why?"}"#] {
        engine.push(Dialect::Anthropic.decode(text).unwrap()).unwrap();
    }
    let body = format!(r#"{{"messages":[]{claude}}}"#);
    engine.set_preamble(Request::decode(body, Some(Dialect::Anthropic)).unwrap().preamble());
    assert!(engine.view().messages().any(|item| item.edits().is_empty() && item.message().parts().count() == 2));
}

#[test]
fn base64_is_media_wherever_a_dialect_has_it() {
    // 90 kB of unknown data, which as text would have tens of thousands of tokens.
    let data: String = (0..90_000_u64)
        .map(|at| char::from(b"AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"[(at * at % 36) as usize]))
        .collect();
    let url = format!("data:image/png;base64,{data}");
    for (dialect, model, message) in [
        (
            Dialect::OpenAiResponses,
            "gpt-5",
            format!(
                r#"{{"type":"computer_call_output","call_id":"c1","output":{{"type":"computer_screenshot","image_url":"{url}"}}}}"#
            ),
        ),
        (
            Dialect::OpenAiResponses,
            "gpt-5",
            format!(r#"{{"type":"image_generation_call","id":"ig_1","result":"{data}"}}"#),
        ),
        (
            Dialect::Bedrock,
            "nova-pro",
            format!(r#"{{"role":"user","content":[{{"video":{{"format":"mp4","source":{{"bytes":"{data}"}}}}}}]}}"#),
        ),
        (
            Dialect::OpenAiChat,
            "gpt-4o",
            format!(
                r#"{{"role":"user","content":[{{"type":"input_audio","input_audio":{{"data":"{data}","format":"wav"}}}}]}}"#
            ),
        ),
        (
            Dialect::OpenAiChat,
            "qwen3",
            format!(
                r#"{{"role":"user","content":[{{"type":"video_url","video_url":{{"url":"data:video/mp4;base64,{data}"}}}}]}}"#
            ),
        ),
        (
            Dialect::OpenAiChat,
            "gpt-4o",
            format!(r#"{{"role":"user","content":[{{"type":"image_url","image_url":"{url}"}}]}}"#),
        ),
        (
            Dialect::Anthropic,
            "claude-opus-5",
            format!(r#"{{"role":"user","content":[{{"type":"novelty","x":{{"y":["{data}"]}}}}]}}"#),
        ),
    ] {
        let counter = Settings::for_model(dialect, model).counter;
        let size = measure(&dialect.decode(message.as_str()).unwrap(), &[], &*counter);
        assert!((1..6_000).contains(&size.tokens), "{dialect} {}: {}", &message[..90], size.tokens);
    }
}

#[test]
fn a_provider_may_count_a_model_in_its_own_way() {
    let signed = format!(
        r#"{{"role":"model","parts":[{{"functionCall":{{"name":"read","args":{{}}}},"thoughtSignature":"{}"}}]}}"#,
        "S".repeat(4_000)
    );
    let of = |provider: Provider| {
        let target = Target::from(Dialect::Gemini).with_model("gemini-3-flash").with_provider(provider);
        let mut engine = Engine::new(Settings::for_target(&target).policy(Policy::unlimited()));
        engine.push(Dialect::Gemini.decode(&signed).unwrap()).unwrap();
        tokens(&engine)
    };
    assert_eq!(of(Provider::Gemini) - of(Provider::Vertex), 800);
}

#[test]
fn what_a_provider_adds_to_every_request_is_counted_once() {
    let mut engine = engine(Dialect::OpenAiChat, "gpt-oss-120b", Policy::unlimited());
    let none = lookback_wire::dialect::Preamble::default();
    assert_eq!(engine.set_preamble(&none).len(), 1);
    assert_eq!(engine.set_preamble(&none).len(), 0);
    let request = Models::builtin().find("gpt-oss-120b").unwrap().frame.request;
    assert_eq!(tokens(&engine), request);
}
