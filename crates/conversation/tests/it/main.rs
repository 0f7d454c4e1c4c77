//! The public interface of lines: in memory, from the store, and after a client has compacted its history.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures_lite::future::block_on;
use http::HeaderMap;
use lookback_conversation::{Account, Identity, Lines, Match, Query, Relation, Scope};
use lookback_engine::Settings;
use lookback_session::Session;
use lookback_store::{MemoryStore, Store};
use lookback_wire::dialect::RawRequest;
use lookback_wire::message::Message;

/// A call with these texts: user and assistant in turn.
struct Call<'a>(&'a [&'a str]);

impl Call<'_> {
    fn body(&self) -> String {
        let message = |(index, text): (usize, &&str)| {
            let role = if index % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"{text}"}}"#)
        };
        let messages: Vec<String> = self.0.iter().enumerate().map(message).collect();
        format!(r#"{{"messages":[{}]}}"#, messages.join(","))
    }

    fn turn<S: Default>(&self, lines: &Lines<S>, store: &Arc<dyn Store>, account: Account, compacts: bool) -> Match<S> {
        let body = self.body();
        let request = RawRequest::read(&body, None).unwrap();
        let preamble = request.preamble();
        let identity = Identity::from_request(&HeaderMap::new(), &request);
        let scope = Scope::new(&identity, account, &request).unwrap();
        let query = Query::new(&request, &preamble);
        let turn = async {
            match compacts {
                true => lines.find_compacting(store, &scope, query).await,
                false => lines.find(store, &scope, query).await,
            }
        };
        block_on(turn).unwrap()
    }

    /// Makes the call, and returns the name of its line, its relation to the line, and the line's state.
    fn ask<S: Default + Clone>(&self, lines: &Lines<S>, store: &Arc<dyn Store>, answer: &str) -> (String, Relation, S) {
        let mut turn = self.turn(lines, store, Account::default(), false);
        turn.answered(&Message::assistant(answer));
        (turn.line.name.to_string(), turn.relation, turn.line.state.clone())
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[test]
fn a_line_has_the_state_that_its_owner_attaches() {
    let (lines, store) = (Lines::<Arc<()>>::default(), memory());
    let (name, relation, state) = Call(&["Hi"]).ask(&lines, &store, "Hello.");
    assert_eq!(relation, Relation::New);
    let (same, relation, same_state) = Call(&["Hi", "Hello.", "Go on"]).ask(&lines, &store, "Well.");
    assert_eq!((same, relation), (name, Relation::Continued));
    assert!(Arc::ptr_eq(&state, &same_state));
    let (_, relation, other) = Call(&["Hi"]).ask(&lines, &store, "Good day.");
    assert_eq!(relation, Relation::New);
    assert!(!Arc::ptr_eq(&state, &other));
}

#[test]
fn a_line_goes_on_after_a_restart_if_its_session_is_in_the_store() {
    let store = memory();
    let (name, ..) = Call(&["Hi"]).ask(&Lines::<()>::default(), &store, "Hello.");
    let messages = [Message::user("Hi"), Message::assistant("Hello.")];
    let stored = async {
        let mut session = Session::open(store.clone(), &name, Settings::default()).await?;
        session.sync(messages.to_vec()).await
    };
    block_on(stored).unwrap();
    let again = Call(&["Hi", "Hello.", "Go on"]).ask(&Lines::<()>::default(), &store, "Well.");
    assert_eq!(again, (name, Relation::Continued, ()));
}

#[test]
fn a_history_that_begins_with_the_summary_of_a_line_goes_on_with_it() {
    let (lines, store) = (Lines::<()>::default(), memory());
    let (name, ..) = Call(&["Fix the build"]).ask(&lines, &store, "It is fixed.");
    let compacts = Call(&["Fix the build", "It is fixed.", "Summarize."]);
    let turn = compacts.turn(&lines, &store, Account::default(), true);
    assert!(turn.is_apart());
    assert_eq!(turn.about().unwrap().name.as_str(), name);
    let summary = "The user wanted the build fixed, and now it is fixed.";
    lines.compacted(&turn, summary);
    let rewritten = Call(&[summary, "I see.", "Now the tests"]).ask(&lines, &store, "They pass.");
    assert_eq!(rewritten, (name, Relation::Rewritten, ()));
}

#[test]
fn no_request_goes_on_with_a_line_of_another_account() {
    let (lines, store) = (Lines::<()>::default(), memory());
    Call(&["Hi"]).ask(&lines, &store, "Hello.");
    let other = Account { name: Some("other".to_owned()), ..Account::default() };
    let turn = Call(&["Hi", "Hello.", "Go on"]).turn(&lines, &store, other, false);
    assert_eq!(turn.relation, Relation::New);
    assert!(turn.line.name.as_str().starts_with("chat@other/"), "{}", turn.line.name);
}

#[test]
fn a_line_is_busy_until_its_turn_is_dropped() {
    let (lines, store) = (Lines::<()>::default(), memory());
    let turn = Call(&["Hi"]).turn(&lines, &store, Account::default(), false);
    let line = turn.line.clone();
    assert!(line.is_busy() && turn.is_from_person);
    drop(turn);
    assert!(!line.is_busy());
    let used = line.used();
    Call(&["Hi"]).ask(&lines, &store, "Hello.");
    assert!(line.used() > used, "without an answer, the same request is the same line");
}

#[test]
fn the_same_words_of_an_application_before_the_same_question_join_no_two_people() {
    let (lines, store) = (Lines::<()>::default(), memory());
    let opening = Call(&["Begin", "Welcome! How can I help?", "Track my order"]);
    let (ann, ..) = opening.ask(&lines, &store, "It is on its way.");
    let (bob, relation, ()) = opening.ask(&lines, &store, "It was delivered.");
    assert_eq!(relation, Relation::New);
    assert_ne!(ann, bob);
    for (answer, name) in [("It is on its way.", ann), ("It was delivered.", bob)] {
        let thanks = Call(&["Begin", "Welcome! How can I help?", "Track my order", answer, "Thanks"]);
        assert_eq!(thanks.ask(&lines, &store, "Bye.").0, name);
    }
}

#[test]
fn a_question_that_is_asked_again_after_an_answer_of_the_model_is_a_retry() {
    let (lines, store) = (Lines::<()>::default(), memory());
    let (name, ..) = Call(&["Fix the build"]).ask(&lines, &store, "It is fixed.");
    let again = Call(&["Fix the build", "It is fixed.", "Run the tests"]);
    again.ask(&lines, &store, "They fail.");
    assert_eq!(again.ask(&lines, &store, "They pass."), (name, Relation::Edited, ()));
}

#[test]
fn short_words_and_a_short_answer_lead_to_no_line() {
    let (lines, store) = (Lines::<()>::default(), memory());
    let (ann, ..) = Call(&["Delete my account?", "Are you sure?", "Surely"]).ask(&lines, &store, "Done.");
    let (bob, relation, ()) = Call(&["y", "Done.", "What next?"]).ask(&lines, &store, "Nothing.");
    assert_eq!(relation, Relation::New);
    assert_ne!(ann, bob);
}

#[test]
fn a_client_that_sends_only_its_last_messages_stays_in_its_line() {
    let (lines, store) = (Lines::<()>::default(), memory());
    let mut all: Vec<String> = Vec::new();
    let mut names = Vec::new();
    for turn in 0..8 {
        all.push(format!("Question {turn}"));
        let sent: Vec<&str> = all.iter().map(String::as_str).skip(all.len().saturating_sub(5)).collect();
        let answer = format!("Answer {turn}");
        let (name, relation, ()) = Call(&sent).ask(&lines, &store, &answer);
        assert_eq!(relation == Relation::New, turn == 0, "{turn}: {relation}");
        names.push(name);
        all.push(answer);
    }
    names.dedup();
    assert_eq!(names.len(), 1, "{names:?}");
}
