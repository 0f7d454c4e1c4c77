//! Every change to messages at encoding is reported, and there are no other changes.

use lookback_engine::{Engine, Settings};
use lookback_wire::dialect::{Mend, Mended, Shown};
use lookback_wire::{
    dialect::{Dialect, Preamble},
    message::Message,
};
use serde_json::value::RawValue;

/// For each block format, one message of every kind that may need a change.
const ANTHROPIC: [&str; 7] = [
    r#"{"role":"user","content":"a"}"#,
    r#"{"role":"assistant","content":"b"}"#,
    r#"{"role":"system","content":"c"}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"d"}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":"e"},{"type":"tool_result","tool_use_id":"u","content":"f"}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":"g","cache_control":{}},{"type":"text","text":"h","cache_control":{}},{"type":"text","text":"i","cache_control":{}}]}"#,
    r#"{"role":"system","content":[{"type":"text","text":"j","cache_control":{}}]}"#,
];
const BEDROCK: [&str; 6] = [
    r#"{"role":"user","content":[{"text":"a"}]}"#,
    r#"{"role":"assistant","content":[{"text":"b"}]}"#,
    r#"{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"text":"c"}]}}]}"#,
    r#"{"role":"user","content":[{"text":"d"},{"toolResult":{"toolUseId":"u","content":[{"text":"e"}]}}]}"#,
    r#"{"role":"assistant","content":[{"text":"f"},{"cachePoint":{}},{"text":"g"},{"cachePoint":{}},{"cachePoint":{}}]}"#,
    r#"{"role":"user","content":[{"cachePoint":{}}]}"#,
];

const MARKERS: [&str; 2] = ["\"cache_control\":", "\"cachePoint\":"];

fn decode(dialect: Dialect, texts: &[&str]) -> Vec<Message> {
    texts.iter().map(|text| dialect.decode(text).unwrap()).collect()
}

fn shown(messages: &[Message]) -> impl Iterator<Item = Shown<'_>> {
    messages.iter().map(|message| Shown { message, edits: &[] })
}

fn encode(dialect: Dialect, messages: &[Message]) -> Vec<String> {
    dialect.encode(shown(messages)).unwrap().iter().map(|raw| raw.get().to_owned()).collect()
}

fn pairs(mends: Vec<Mended>) -> Vec<(usize, Mend)> {
    mends.into_iter().map(|mended| (mended.message, mended.mend)).collect()
}

/// Returns all lists of up to `longest` of these.
fn lists<'a>(alphabet: &[&'a str], longest: usize) -> Vec<Vec<&'a str>> {
    let mut all = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..longest {
        let until = all.len();
        for index in from..until {
            for text in alphabet.iter().copied() {
                let mut list: Vec<&str> = all[index].clone();
                list.push(text);
                all.push(list);
            }
        }
        from = until;
    }
    all
}

fn markers(texts: &[impl AsRef<str>]) -> usize {
    texts.iter().map(|text| MARKERS.iter().map(|marker| text.as_ref().matches(marker).count()).sum::<usize>()).sum()
}

#[test]
fn what_is_done_to_messages_is_told_and_nothing_else_is_done() {
    for (dialect, alphabet) in [(Dialect::Anthropic, &ANTHROPIC[..]), (Dialect::Bedrock, &BEDROCK[..])] {
        for list in lists(alphabet, 4) {
            let messages = decode(dialect, &list);
            let (sent, mends) = (encode(dialect, &messages), pairs(dialect.mends(shown(&messages))));
            assert_eq!(mends.is_empty(), sent == list, "{list:#?} {mends:?} {sent:#?}");
            assert!(mends.is_sorted_by_key(|(index, _)| *index), "{mends:?}");
            assert!(mends.iter().all(|(index, _)| *index < list.len()), "{mends:?}");
            let merged = mends.iter().filter(|(_, mend)| *mend == Mend::MergedWithPrevious).count();
            assert_eq!(sent.len(), list.len() - merged, "{list:#?} {mends:?} {sent:#?}");
            let removed: usize = mends
                .iter()
                .map(|(_, mend)| match mend {
                    Mend::MarkersRemoved { count } => *count,
                    _ => 0,
                })
                .sum();
            assert_eq!(markers(&sent), markers(&list) - removed, "{list:#?} {mends:?} {sent:#?}");
            // Mended messages need no more mends.
            let texts: Vec<&str> = sent.iter().map(String::as_str).collect();
            let again = decode(dialect, &texts);
            let again = dialect.mends(shown(&again));
            assert!(again.is_empty() || markers(&sent) > 4, "{sent:#?} {again:?}");
        }
    }
}

#[test]
fn each_kind_is_told_of_the_message_that_it_is_done_to() {
    let [user, assistant, system, result, mixed, marked, _] = ANTHROPIC;
    let [.., point] = BEDROCK;
    type Case<'a> = (Dialect, &'a [&'a str], &'a [(usize, Mend)]);
    let cases: &[Case<'_>] = &[
        (Dialect::Anthropic, &[user, assistant, user], &[]),
        (Dialect::Anthropic, &[user, user, assistant, assistant], &[]),
        (Dialect::Anthropic, &[mixed], &[(0, Mend::ResultsFirst)]),
        (Dialect::Anthropic, &[user, result], &[(1, Mend::MergedWithPrevious), (1, Mend::ResultsFirst)]),
        (Dialect::Anthropic, &[result, user], &[]),
        (Dialect::Bedrock, &[BEDROCK[0], BEDROCK[0]], &[(1, Mend::MergedWithPrevious)]),
        (Dialect::Anthropic, &[user, system, assistant], &[]),
        (Dialect::Anthropic, &[system, assistant], &[(0, Mend::SentAsUser)]),
        (Dialect::Anthropic, &[system, user, user], &[(0, Mend::SentAfterNext)]),
        (Dialect::Anthropic, &[user, system, user], &[(1, Mend::SentAfterNext)]),
        (Dialect::Anthropic, &[marked, assistant, marked], &[(0, Mend::MarkersRemoved { count: 2 })]),
        (Dialect::Bedrock, &[BEDROCK[2], BEDROCK[1], BEDROCK[3]], &[(2, Mend::ResultsFirst)]),
        // A message with only a marker does not become empty.
        (Dialect::Bedrock, &[point, BEDROCK[4], BEDROCK[0], BEDROCK[4]], &[(1, Mend::MarkersRemoved { count: 2 })]),
        (Dialect::OpenAiChat, &[user, user], &[]),
    ];
    for (dialect, list, mends) in cases.iter().copied() {
        assert_eq!(pairs(dialect.mends(shown(&decode(dialect, list)))), mends, "{list:#?}");
    }
}

#[test]
fn a_view_tells_of_results_that_it_moves() {
    let mut engine = Engine::new(Settings::default());
    for text in [
        r#"{"role":"user","content":"go"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"user","content":"still there?"}"#,
        r#"{"role":"tool","tool_call_id":"c","content":"done"}"#,
    ] {
        engine.push(Dialect::OpenAiChat.decode(text).unwrap()).unwrap();
    }
    assert_eq!(pairs(engine.view().mends(Dialect::OpenAiChat)), [(2, Mend::Moved)]);
    let positions: Vec<_> = engine.view().messages().map(|item| item.position()).collect();
    assert!(positions[2] > positions[3], "{positions:?}");
}

#[test]
fn markers_of_the_system_prompt_count_in_a_view() {
    let settings = Settings::default().dialect(Dialect::Anthropic);
    let mut engine = Engine::new(settings);
    let block = r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#;
    let system = RawValue::from_string(format!("[{block},{block},{block}]")).unwrap();
    engine.set_preamble(&Preamble::default().with_system(system));
    engine.push(Dialect::Anthropic.decode(ANTHROPIC[5]).unwrap()).unwrap();
    assert_eq!(pairs(engine.view().mends(Dialect::Anthropic)), [(0, Mend::MarkersRemoved { count: 2 })]);
}
