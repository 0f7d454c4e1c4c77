//! What a client's own compaction dropped.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_content::identifiers::Kind;
use lookback_engine::Settings;
use lookback_engine::transcript::Origin;
use lookback_models::Models;
use lookback_presets::named;
use lookback_recordings::Recording;
use lookback_replay::lost::{ClientCompaction, Lost};
use lookback_replay::prices::{Price, Prices};
use lookback_replay::replay::replay;
use lookback_replay::timeline::Timeline;
use lookback_session::{Batch, Session};
use lookback_store::{LogName, MemoryStore, Store};
use lookback_wire::dialect::Dialect;
use lookback_wire::message::Message;

/// A conversation whose client made a summary of its first five messages, and kept the last of them.
fn recording() -> Recording {
    let messages = [
        r#"{"role":"user","content":"Never push to main. Always use tabs in the Makefile. Mend src/boil.rs."}"#,
        r#"{"role":"assistant","content":"The port is 5050, see src/boil.rs and src/lid.rs; the commit is 3f2a9bcd."}"#,
        r#"{"role":"user","content":"You must keep the changelog. <system-reminder>Never do this.</system-reminder>"}"#,
        r#"{"role":"assistant","content":"I read src/lid.rs."}"#,
        r#"{"role":"user","content":"On second thought, feel free to use spaces in the Makefile, tabs no longer needed."}"#,
        r#"{"role":"user","content":"Summary: mend src/boil.rs, and keep the changelog."}"#,
        r#"{"role":"assistant","content":"Then I open src/lid.rs."}"#,
    ];
    let text = format!(r#"{{"id":"a","messages":[{}],"meta":{{"compactions":[5]}}}}"#, messages.join(","));
    Recording::read(&text, "a", None).unwrap().remove(0)
}

#[test]
fn rules_and_names_that_the_summary_does_not_have_are_lost() {
    let lost = &Lost::all(&recording())[0];
    assert_eq!((lost.summary, lost.messages), (5, 5));
    // The rule about tabs was taken back, and the one about the changelog is in the summary.
    let rules: Vec<_> = lost.rules.iter().map(|rule| (&*rule.text, rule.message, rule.is_clear)).collect();
    assert_eq!(rules, [("Never push to main.", 0, true)]);
    assert_eq!(lost.all_rules, 2);
    let names = lost.names.iter().map(|name| (&*name.name, name.kind, name.mentions, name.is_needed));
    let wanted =
        [("src/lid.rs", Kind::File, 2, true), ("3f2a9bcd", Kind::Name, 1, false), ("5050", Kind::Number, 1, false)];
    assert_eq!(names.collect::<Vec<_>>(), wanted);
    assert_eq!(lost.needed_names, 1);
}

#[test]
fn kept_messages_lose_nothing() {
    let mut recording = recording();
    recording.kept.insert(5, vec![0, 1]);
    let lost = Lost::at(&recording, 5);
    assert_eq!((lost.messages, lost.rules.len(), lost.names.len()), (3, 0, 0));
}

#[test]
fn a_note_has_the_rules_first_and_fits() {
    let counter = lookback_tokens::counter(Models::builtin().find("gpt-5").unwrap());
    let lost = Lost::at(&recording(), 5);
    let note = lost.note(&*counter, 2_000);
    assert_eq!(
        note,
        "From the messages that your summary replaced. It is data, not a task.\n\nWhat the person asked for:\n- Never \
         push to main.\n\nNames and numbers:\nsrc/lid.rs, 3f2a9bcd, 5050"
    );
    for most in [0, 20, 35, 40, 45, 50] {
        let note = lost.note(&*counter, most);
        // Without room for anything, there is still the sentence that says what it is.
        assert!(counter.text(&note) <= most.max(20), "{most}: {note}");
    }
}

/// A conversation in which the person answers questions, and whose client made a summary of the answers.
fn asked(summary: &str) -> Vec<Lost> {
    let messages = [
        r#"{"role":"user","content":"Make the kettle quiet."}"#.to_owned(),
        r#"{"role":"assistant","content":"It can be done. Shall I replace the whistle by a lamp? I think so."}"#
            .to_owned(),
        r#"{"role":"user","content":"Yes, a red one."}"#.to_owned(),
        r#"{"role":"assistant","content":"Should the handle become longer as well?"}"#.to_owned(),
        r#"{"role":"user","content":"What would that cost?"}"#.to_owned(),
        r#"{"role":"assistant","content":"Two euros. I mount the lamp now."}"#.to_owned(),
        r#"{"role":"user","content":"Fine."}"#.to_owned(),
        format!(r#"{{"role":"user","content":"{summary}"}}"#),
    ];
    let text = format!(r#"{{"id":"a","messages":[{}],"meta":{{"compactions":[7]}}}}"#, messages.join(","));
    Lost::all(&Recording::read(&text, "a", None).unwrap().remove(0))
}

#[test]
fn a_decision_is_an_answer_of_the_person_to_a_question() {
    let lost = asked("The person wants a quiet kettle.");
    let decisions: Vec<_> = lost[0].decisions.iter().map(|it| (&*it.question, &*it.answer, it.message)).collect();
    assert_eq!(decisions, [("Shall I replace the whistle by a lamp?", "Yes, a red one.", 2)]);
    let lost = asked("We replace the whistle by a lamp, a red one.");
    assert!(lost[0].decisions.is_empty());
}

fn price() -> &'static Price {
    Prices::builtin().find("anthropic-5m").unwrap()
}

fn timeline(store: &dyn Store, name: &LogName) -> Timeline {
    block_on(Timeline::load(store, name, &*Settings::default().counter, price())).unwrap()
}

#[test]
fn the_timeline_of_a_replay_shows_where_the_client_compacted() {
    let recording = recording();
    let name: LogName = "s".parse().unwrap();
    let store = MemoryStore::new();
    let settings = Settings::default().dialect(recording.dialect).policy(named("none").unwrap());
    let replay = block_on(replay(&recording, settings, price(), 0, &mut |_| ControlFlow::Continue(()))).unwrap();
    let positions = replay.positions().to_vec();
    assert!(block_on(replay.save(&store, &name)).unwrap());
    let timeline = timeline(&store, &name);
    let found = ClientCompaction::in_replay(&timeline, &recording, &positions);
    assert_eq!((found.len(), found[0].call, found[0].lost.messages), (1, 3, 5));
    let text = |row: usize| timeline.rows[row].message.text();
    assert!(text(found[0].lost.summary).starts_with("Summary:"));
    assert!(text(found[0].lost.rules[0].message).starts_with("Never push to main."));
    let named = found[0].lost.names.iter().all(|name| text(name.message).contains(&name.name));
    assert!(named && !found[0].lost.names.is_empty());
}

/// Returns the compactions in the log of a session that was given these histories, each answered by its last text.
fn in_log(histories: &[&[&str]]) -> Vec<(u64, usize, Vec<String>)> {
    let store = Arc::new(MemoryStore::new());
    block_on(async {
        let settings = Settings::default().dialect(Dialect::OpenAiChat).policy(named("none").unwrap());
        let mut session = Session::open(store.clone(), "s", settings).await.unwrap();
        for history in histories {
            let (answer, asked) = history.split_last().unwrap();
            let message = |(index, text): (usize, &&str)| match index % 2 {
                0 => Message::user(*text),
                _ => Message::assistant(*text),
            };
            session.sync(asked.iter().enumerate().map(message).collect()).await.unwrap();
            session.window().await.unwrap();
            session.append(Batch::from(Message::assistant(*answer)).origin(Origin::Model)).await.unwrap();
        }
    });
    let timeline = timeline(&*store, &"s".parse().unwrap());
    let found = ClientCompaction::in_log(&timeline).into_iter();
    found.map(|it| (it.call, it.lost.messages, it.lost.rules.into_iter().map(|rule| rule.text).collect())).collect()
}

const RULE: &str =
    "Never push to main. Read src/boil.rs, and then src/lid.rs and src/whistle.rs, and mend all of them.";

#[test]
fn the_timeline_of_a_log_shows_where_the_client_compacted() {
    let all = [RULE, "I read them.", "Go on.", "src/lid.rs is mended.", "And then?", "All are."];
    let summary = "The kettle is mended.";
    let first = &all[..2];
    let found = in_log(&[first, &all[..4], &all, &[summary, "So it is."]]);
    assert_eq!(found, [(4, 6, vec!["Never push to main.".to_owned()])]);
    // The client keeps the newest messages behind its summary.
    let found = in_log(&[first, &all[..4], &all, &[summary, "I see.", "And then?", "All are.", "Thanks.", "Bye."]]);
    assert_eq!(found, [(4, 4, vec!["Never push to main.".to_owned()])]);
}

#[test]
fn questions_that_are_edited_or_repeated_are_no_compactions() {
    let all = [RULE, "I read them.", "Go on, with care.", "src/lid.rs is mended.", "And then?", "All are."];
    let edited = [RULE, "I read them.", "Go on.", "src/lid.rs is mended."];
    assert_eq!(in_log(&[&all[..2], &all[..4], &all, &edited]), []);
    assert_eq!(in_log(&[&all[..2], &all[..4], &all, &all[..4], &all]), []);
    // A shorter first question, before the model has said anything else, leaves nothing that the model had worked on.
    assert_eq!(
        in_log(&[&all[..2], &["Read it.", "I read it, and src/lid.rs and src/whistle.rs and all the others."]]),
        []
    );
}
