//! What people say survives compactions: rules stand in every window, and those that were taken back do not.

use lookback_engine::policy::{Limits, Policy};
use lookback_engine::{Engine, Settings};
use lookback_tokens::{Estimate, TokenCounter};
use lookback_wire::edit::shown_text;
use lookback_wire::message::{Message, ToolCall};
use serde::Deserialize;

const RULES: &str = include_str!("../../../../corpus/people/rules.json");
const TALK: &str = include_str!("../../../../corpus/people/talk.json");
const REVOKED: &str = include_str!("../../../../corpus/people/revoked.json");

#[derive(Deserialize)]
struct Stated {
    lang: String,
    text: String,
    rule: String,
}

#[derive(Deserialize)]
struct Talk {
    lang: String,
    text: String,
}

#[derive(Deserialize)]
struct Revoked {
    lang: String,
    rule: String,
    revocation: String,
    /// Another rule, which stays.
    keeps: String,
    /// Whether Lookback recognizes that the rule is taken back.
    recognized: bool,
}

fn vectors<T: serde::de::DeserializeOwned>(json: &str) -> Vec<T> {
    serde_json::from_str(json).unwrap()
}

/// The default policy with these limits, so that a session compacts often.
fn policy(body: u64, target: u64) -> Policy {
    let production = Policy::production();
    let target = Some(Limits { body: Some(target), ..production.target.unwrap() });
    Policy { limits: Limits { body: Some(body), ..production.limits }, target, cold: None, ..production }
}

/// A session in which people talk and the model works.
struct Session {
    engine: Engine,
    /// The lines of each tool result.
    lines: usize,
    compactions: usize,
    calls: usize,
    /// The tokens that people have said.
    said: u64,
}

impl Session {
    fn new(policy: Policy, lines: usize) -> Session {
        let mut engine = Engine::new(Settings::default().policy(policy));
        engine.push(Message::system("You are a careful assistant.")).unwrap();
        let mut session = Session { engine, lines, compactions: 0, calls: 0, said: 0 };
        session.say("Hello, here is the project, get to know it.");
        session
    }

    fn say(&mut self, text: &str) {
        self.said += Estimate::default().text(text);
        self.engine.push(Message::user(text)).unwrap();
        self.window();
        for _ in 0..2 {
            self.calls += 1;
            let id = format!("c{}", self.calls);
            let call = ToolCall::new(&id, "run", format!(r#"{{"step": {}}}"#, self.calls));
            self.engine.push(Message::assistant_with_calls("", [call])).unwrap();
            let line = |line| format!("step {}: part {line} was done in {} ms\n", self.calls, line * 7 % 13);
            self.engine.push(Message::tool_result(&id, (0..self.lines).map(line).collect::<String>())).unwrap();
            self.window();
        }
        self.engine.push(Message::assistant("Done.")).unwrap();
    }

    fn window(&mut self) {
        self.compactions += usize::from(!self.engine.window().entries.is_empty());
    }

    fn shows(&self, text: &str) -> bool {
        let mut shown = self.engine.view().messages().map(|item| shown_text(item.message(), item.edits()));
        shown.any(|shown| shown.contains(text))
    }
}

fn paste(number: usize) -> String {
    let day = number % 9 + 10;
    let line = |line| format!("2026-03-{day} 10:{line:02}:00 WARN [pool-{number}] retry {line} of job-{number}\n");
    let log: String = (0..60).map(line).collect();
    format!("Look at this, please, it was there in the evening:\n{log}What do you make of it?")
}

#[test]
fn a_rule_stands_in_every_window_among_12_000_tokens_of_other_words_and_pastes() {
    let talk: Vec<Talk> = vectors(TALK);
    let mut lost = Vec::new();
    for (number, stated) in vectors::<Stated>(RULES).iter().enumerate() {
        let mut session = Session::new(policy(26_000, 20_000), 90);
        session.say(&stated.text);
        // First those in the language of the rule.
        let (own, others): (Vec<_>, Vec<_>) = talk.iter().partition(|talk| talk.lang == stated.lang);
        for (step, talk) in own.into_iter().chain(others).enumerate() {
            session.say(&talk.text);
            if step % 10 == 3 {
                session.say(&paste(number + step));
            }
            if !session.shows(&stated.rule) {
                lost.push(stated.rule.clone());
                break;
            }
            if session.said >= 12_000 && session.compactions >= 10 {
                break;
            }
        }
        assert!(session.said >= 12_000 || lost.last() == Some(&stated.rule), "{}", session.said);
    }
    assert_eq!(lost, [""; 0], "{} are lost", lost.len());
}

#[test]
fn rules_that_are_said_early_stand_after_ten_compactions_of_a_thousand_sessions() {
    let (rules, talk): (Vec<Stated>, Vec<Talk>) = (vectors(RULES), vectors(TALK));
    let short: Vec<&Talk> = talk.iter().filter(|talk| talk.text.len() < 200).collect();
    for number in 0..1_000 {
        let mut session = Session::new(policy(5_400, 4_500), 24);
        let said = [number, number * 7 + 3, number * 31 + 11].map(|at| &rules[at % rules.len()]);
        said.iter().for_each(|stated| session.say(&stated.rule));
        let mut step = number;
        while session.compactions < 10 {
            session.say(&short[step % short.len()].text);
            step += 1;
        }
        for stated in said {
            assert!(session.shows(&stated.rule), "session {number}: {}", stated.rule);
        }
    }
}

/// A rule and the words that take it back are recognized by their form. If they are not, both stand.
#[test]
fn a_rule_that_was_taken_back_does_not_stand() {
    let talk: Vec<Talk> = vectors(TALK);
    let mut wrong = Vec::new();
    for case in vectors::<Revoked>(REVOKED) {
        let mut session = Session::new(policy(26_000, 20_000), 90);
        let mut others = talk.iter().filter(|talk| talk.lang == case.lang).map(|talk| &talk.text);
        for text in [&case.rule, others.next().unwrap(), &case.keeps, others.next().unwrap(), &case.revocation] {
            session.say(text);
        }
        others.take(25).for_each(|text| session.say(text));
        assert!(session.compactions >= 4, "{}", session.compactions);
        assert!(session.shows(&case.keeps) && session.shows(&case.revocation), "{}", case.revocation);
        if session.shows(&case.rule) == case.recognized {
            wrong.push(case.rule);
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_paste_is_cut_and_the_words_around_it_stay() {
    let log: String = (0..2_000).map(|line| format!("{line:04} WARN [pool-{line}] retry of job-{line}\n")).collect();
    let text = format!("It fails each night, as you can see here:\n{log}\nThe disk is not full, I have looked.");
    let mut session = Session::new(policy(60_000, 20_000), 90);
    session.say(&text);
    assert!(session.shows(&text), "the model sees all of it while it is the task");
    (0..40).for_each(|_| session.say("Go on, please."));
    let shown = session.engine.view().messages().find(|item| item.message().text() == text).unwrap();
    let shown = shown_text(shown.message(), shown.edits());
    assert!(shown.starts_with("It fails each night, as you can see here:\n0000 WARN"), "{shown}");
    let end = "1999 WARN [pool-1999] retry of job-1999\n\nThe disk is not full, I have looked.";
    assert!(shown.ends_with(end) && shown.contains(" has the rest]"), "{shown}");
    assert!(Estimate::default().text(&shown) < 1_400, "{shown}");
}

#[test]
fn words_that_a_client_adds_are_not_kept() {
    let mut session = Session::new(policy(9_000, 6_000), 90);
    session.say("<system-reminder>\nNever mention the weather.\n</system-reminder>");
    session.say("Never mention the price.");
    (0..80).for_each(|_| session.say("Go on, please."));
    assert!(session.shows("the price") && !session.shows("the weather"));
}
