//! The line to which a request belongs: lines are kept apart, and never contain another line's messages.

use std::sync::Arc;

use lookback_engine::policy::Policy;
use lookback_store::MemoryStore;
use lookback_wire::dialect::Dialect;

use super::{Client, DIALECTS, Lab};

fn lab() -> Lab {
    Lab::new(Some(Policy::never_compact()))
}

#[test]
fn more_conversations_than_are_kept_open_go_on_where_they_were() {
    let lab = lab();
    let mut clients: Vec<(Client, String)> = Vec::new();
    for number in 0..600 {
        let mut client = Client::new(Dialect::Anthropic);
        let session = client.say(&lab, &format!("Conversation {number}.")).session().to_owned();
        clients.push((client, session));
    }
    for (client, session) in clients.iter_mut().take(80).step_by(10) {
        let answer = client.say(&lab, "Go on.");
        assert_eq!((answer.session(), answer.header("x-lookback-line")), (session.as_str(), Some("continued")));
        assert_eq!(lab.texts(session).len(), 4);
    }
}

#[test]
fn conversations_that_begin_alike_are_two() {
    for dialect in DIALECTS {
        let lab = lab();
        let (mut one, mut other) = (Client::new(dialect), Client::new(dialect));
        let first = one.say(&lab, "Hi").session().to_owned();
        let second = other.say(&lab, "Hi").session().to_owned();
        assert_ne!(first, second, "{dialect}");
        assert_eq!(one.say(&lab, "One.").session(), first, "{dialect}");
        let third = other.say(&lab, "Other.").session().to_owned();
        assert!(!lab.texts(&third).contains(&"One.".to_owned()), "{dialect}");
        assert!(!lab.texts(&first).contains(&"Other.".to_owned()), "{dialect}");
    }
}

#[test]
fn what_a_client_puts_together_is_not_one_conversation() {
    for dialect in DIALECTS {
        let lab = lab();
        let client = || Client { headers: vec![("helicone-session-id", "w".to_owned())], ..Client::new(dialect) };
        let (mut one, mut other) = (client(), client());
        let first = one.say(&lab, "Draft it.").session().to_owned();
        let second = other.say(&lab, "Review it.").session().to_owned();
        assert_ne!(first, second, "{dialect}");
        let answer = one.say(&lab, "Go on.");
        assert_eq!((answer.session(), answer.header("x-lookback-line")), (first.as_str(), Some("continued")));
        assert_eq!(lab.texts(&second).len(), 2, "{dialect}");
        assert!(first.contains("helicone") && second.contains("helicone"), "{first} {second}");
    }
}

#[test]
fn two_accounts_with_one_identifier_never_meet() {
    let lab = lab();
    let ask = |key: &str| {
        let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
        let headers = [("authorization", key), ("thread-id", "t"), ("x-lookback-session", "mine")];
        lab.send("POST", "/v1/chat/completions", &headers, &body.to_string()).session().to_owned()
    };
    let (one, other) = (ask("Bearer one"), ask("Bearer other"));
    assert_ne!(one, other);
    assert!(!one.contains("one") && !other.contains("other"), "no key is in a name");
}

#[test]
fn a_client_that_names_its_conversation_may_compact_it() {
    let lab = lab();
    let mut client = Client::new(Dialect::OpenAiResponses);
    client.headers.push(("thread-id", "t-1".to_owned()));
    let session = client.say(&lab, "Hi").session().to_owned();
    assert!(session.starts_with("codex@") && session.ends_with("/t-1"), "{session}");
    client.say(&lab, "Go on.");
    client.messages = vec![client.said("user", "Another language model started to solve this. Summary: we said hi.")];
    let after = client.say(&lab, "Continue.");
    assert_eq!((after.session(), after.header("x-lookback-line")), (session.as_str(), Some("rewritten")));
    // A sub-agent has its parent's session, and its own thread.
    let mut agent = Client::new(Dialect::OpenAiResponses);
    agent.headers.push(("thread-id", "t-2".to_owned()));
    agent.headers.push(("x-codex-parent-thread-id", "t-1".to_owned()));
    assert_ne!(agent.say(&lab, "Hi").session(), session);
}

#[test]
fn a_named_session_that_goes_on_without_its_name_is_continued() {
    for dialect in DIALECTS {
        let lab = lab();
        let mut client = Client { headers: vec![("x-lookback-session", "named".to_owned())], ..Client::new(dialect) };
        let session = client.say(&lab, "Hi").session().to_owned();
        client.say(&lab, "Go on.");
        client.headers.clear();
        let answer = client.say(&lab, "More.");
        assert_eq!((answer.session(), answer.header("x-lookback-line")), (session.as_str(), Some("continued")));
    }
}

#[test]
fn a_line_goes_on_after_a_restart_and_in_another_gateway() {
    for dialect in DIALECTS {
        let store = Arc::new(MemoryStore::new());
        let first = Lab::on(store.clone(), Some(Policy::never_compact()));
        let mut client = Client::new(dialect);
        let session = client.say(&first, "Hi").session().to_owned();
        let second = Lab::on(store, Some(Policy::never_compact()));
        let answer = client.say(&second, "Go on.");
        assert_eq!(
            (answer.session(), answer.header("x-lookback-line")),
            (session.as_str(), Some("continued")),
            "{dialect}"
        );
        assert_eq!(second.texts(&session).len(), 4);
    }
}

#[test]
fn gateways_with_one_store_never_put_two_conversations_into_one_session() {
    for dialect in DIALECTS {
        let store = Arc::new(MemoryStore::new());
        let gateways = [0, 1].map(|_| Lab::on(store.clone(), Some(Policy::never_compact())));
        let mut clients = Vec::new();
        for round in 0..3 {
            for (at, lab) in gateways.iter().enumerate() {
                let mut client = Client::new(dialect);
                let name = format!("I am {at} of {round}.");
                let first = "Hello. ".repeat(20) + &name;
                let session = client.say(lab, &first).session().to_owned();
                clients.push((client, session, name));
            }
        }
        for (turn, lab) in [0, 1, 0, 1, 1, 0].map(|at| &gateways[at]).into_iter().enumerate() {
            for (client, session, name) in &mut clients {
                let answer = client.say(lab, &format!("{name} {turn}"));
                assert_eq!(answer.session(), session, "{dialect}: it goes on in any of them");
            }
        }
        for (_, session, name) in &clients {
            let texts = gateways[0].texts(session);
            assert_eq!(texts.len(), 14, "{dialect}: {texts:?}");
            let said = texts.iter().step_by(2);
            assert!(said.into_iter().all(|text| text.contains(name.as_str())), "{dialect}: {texts:?}");
        }
    }
}

#[test]
fn a_call_with_other_tools_advances_no_line_after_a_restart_either() {
    for dialect in DIALECTS {
        for named in [false, true] {
            let store = Arc::new(MemoryStore::new());
            let mut client = Client::new(dialect);
            if named {
                client.headers.push(("x-amp-thread-id", "s".to_owned()));
            }
            let session = client.say(&Lab::on(store.clone(), None), "Hi").session().to_owned();
            let restarted = Lab::on(store, None);
            let mut extracts =
                Client { tools: vec!["remember"], headers: client.headers.clone(), ..Client::new(dialect) };
            extracts.messages.clone_from(&client.messages);
            assert_ne!(extracts.say(&restarted, "What is worth remembering?").session(), session, "{dialect}");
            let answer = client.say(&restarted, "Go on.");
            assert_eq!(
                (answer.session(), answer.header("x-lookback-line")),
                (&*session, Some("continued")),
                "{dialect}"
            );
            assert_eq!(restarted.texts(&session).len(), 4, "{dialect}");
        }
    }
}

#[test]
fn content_that_clients_change_between_calls_is_recognized() {
    let lab = lab();
    let mut client = Client::new(Dialect::Anthropic);
    client.messages.push(serde_json::json!({"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}));
    let session = client.ask(&lab).session().to_owned();
    let answer = lab.texts(&session).pop().unwrap();
    client.messages = vec![
        serde_json::json!({"role": "user", "content": "Hi"}),
        serde_json::json!({"role": "assistant", "content": [{"type": "text", "text": answer}]}),
    ];
    let next = client.say(&lab, "Go on.");
    assert_eq!((next.session(), next.header("x-lookback-line")), (session.as_str(), Some("continued")));
    assert_eq!(lab.texts(&session).len(), 4);
}

#[test]
fn a_conversation_goes_on_the_next_day_although_its_first_message_has_another_date() {
    for dialect in DIALECTS {
        for restarts in [false, true] {
            let store = Arc::new(MemoryStore::new());
            let today = Lab::on(store.clone(), Some(Policy::never_compact()));
            let restarted = restarts.then(|| Lab::on(store, Some(Policy::never_compact())));
            let tomorrow = restarted.as_ref().unwrap_or(&today);
            let opening = |date: &str| format!("We set up the context. Today's date is {date}. The folder is /work.");
            let mut client = Client::new(dialect);
            client.messages.push(client.said("user", &opening("Monday, November 23, 2026")));
            client.messages.push(client.said("assistant", "Got it."));
            let session = client.say(&today, "Read it.").session().to_owned();
            client.messages[0] = client.said("user", &opening("Tuesday, November 24, 2026"));
            let answer = client.say(tomorrow, "Go on.");
            assert_eq!((answer.session(), answer.header("x-lookback-line")), (&*session, Some("edited")), "{dialect}");
            let answer = client.say(tomorrow, "And on.");
            assert_eq!(
                (answer.session(), answer.header("x-lookback-line")),
                (&*session, Some("continued")),
                "{dialect}"
            );
            let texts = tomorrow.texts(&session);
            assert_eq!(texts.len(), 8, "{dialect}: {texts:?}");
            assert!(texts[0].contains("November 24"), "{dialect}: {texts:?}");
        }
    }
}

#[test]
fn a_named_conversation_goes_on_in_another_dialect() {
    let lab = lab();
    let named = |dialect| {
        let mut client = Client::new(dialect);
        client.headers.push(("x-lookback-session", "mine".to_owned()));
        client
    };
    let mut one = named(Dialect::OpenAiChat);
    let session = one.say(&lab, "Hi").session().to_owned();
    let mut other = named(Dialect::Anthropic);
    let answer = lab.texts(&session).pop().unwrap();
    other.messages = vec![other.said("user", "Hi"), other.said("assistant", &answer)];
    let next = other.say(&lab, "Go on.");
    assert_eq!((next.status, next.session(), next.header("x-lookback-line")), (200, &*session, Some("continued")));
    assert_eq!(lab.texts(&session).len(), 4);
}

#[test]
fn context_of_only_the_newest_question_neither_parts_a_conversation_nor_loses_its_cache() {
    let limits = lookback_engine::policy::Limits::messages;
    let policy = Policy { limits: limits(24), target: Some(limits(12)), ..Policy::unlimited() };
    for dialect in DIALECTS {
        let lab = Lab::new(Some(policy.clone()));
        let mut client = Client::new(dialect);
        let mut sessions = std::collections::BTreeSet::new();
        for turn in 0..24 {
            let question = format!("Question {turn}. {}", "Tell me more about it. ".repeat(100));
            let context = format!("<context>Found for {turn}: {}</context>\n", "a passage ".repeat(10));
            sessions.insert(client.say(&lab, &(context + &question)).session().to_owned());
            let at = client.messages.iter().rposition(|message| message["role"] == "user").unwrap();
            client.messages[at] = client.said("user", &question);
        }
        assert_eq!(sessions.len(), 1, "{dialect}: {sessions:?}");
        let usage = lab.stand_in.report().usage;
        // Anthropic caches only up to markers, of which this client sends none.
        assert!(dialect == Dialect::Anthropic || usage.cached * 10 >= usage.input * 4, "{dialect}: {usage:?}");
    }
}
