//! Notes: which of them leave the window, and when.

use lookback_engine::plan::Reason;
use lookback_engine::transcript::Origin;
use lookback_engine::{
    Engine, Settings,
    transcript::{Entry, Transcript},
};
use lookback_wire::{dialect::Dialect, message::Message};

const TASK: &str = r#"{"role":"user","content":"Read it."}"#;
const CALL: &str = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"tool_use","id":"c1","name":"read","input":{}}]}"#;
const RESULT: &str = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"milk"}]}"#;

fn engine() -> Engine {
    Engine::new(Settings::default().dialect(Dialect::Anthropic))
}

fn push(engine: &mut Engine, log: &mut Transcript, json: &str) {
    log.extend(engine.push(Dialect::Anthropic.decode(json).unwrap()).unwrap());
}

fn note(engine: &mut Engine, log: &mut Transcript, text: &str) {
    log.extend(engine.receive(Message::user(text), Origin::Lookback, None).unwrap());
}

fn texts(view: &lookback_engine::view::View) -> Vec<String> {
    view.messages().map(|item| item.message().text()).collect()
}

#[test]
fn only_the_notes_that_are_picked_leave_and_the_log_keeps_them() {
    let (mut engine, mut log) = (engine(), Transcript::default());
    push(&mut engine, &mut log, TASK);
    note(&mut engine, &mut log, "sheet");
    note(&mut engine, &mut log, "nudge");
    push(&mut engine, &mut log, r#"{"role":"assistant","content":"nudge"}"#);
    note(&mut engine, &mut log, "nudge that nobody saw");
    let entries = engine.dismiss(|item| item.message().text().starts_with("nudge"));
    let Some(Entry::Compaction(compaction)) = entries.first() else { unreachable!("{entries:?}") };
    let why: Vec<_> = compaction.groups.iter().map(|group| group.decision.reason).collect();
    assert_eq!(why.iter().filter(|reason| **reason == Reason::Spent).count(), 2, "{why:?}");
    assert_eq!(compaction.after.size.messages, 3);
    log.extend(entries);
    assert_eq!(texts(engine.view()), ["Read it.", "sheet", "nudge"], "what the model said is no note");
    assert_eq!(texts(&log.view(log.len()).unwrap()), texts(engine.view()));
    assert_eq!(texts(&log.view(5).unwrap()).len(), 5);
    assert_eq!(engine.view().totals().size, compaction_totals(&log).size);
    assert!(engine.dismiss(|item| item.message().text().starts_with("nudge")).is_empty(), "once");
}

fn compaction_totals(log: &Transcript) -> lookback_engine::totals::Totals {
    let mut entries = log.entries().iter().rev();
    let found = entries.find_map(|entry| if let Entry::Compaction(made) = entry { Some(made.after) } else { None });
    found.expect("a compaction")
}

#[test]
fn a_note_waits_for_the_end_of_a_tool_loop_with_signed_reasoning() {
    let (mut engine, mut log) = (engine(), Transcript::default());
    push(&mut engine, &mut log, TASK);
    note(&mut engine, &mut log, "nudge");
    push(&mut engine, &mut log, CALL);
    push(&mut engine, &mut log, RESULT);
    assert!(engine.dismiss(|_| true).is_empty());
    push(&mut engine, &mut log, r#"{"role":"assistant","content":"Buy milk."}"#);
    assert!(!engine.dismiss(|_| true).is_empty());
    assert!(!texts(engine.view()).contains(&"nudge".to_owned()));
}
