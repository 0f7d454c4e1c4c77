//! Clients that compact their history themselves: the summary request passes, and the line continues with the summary.

use super::calls::unlimited;
use super::*;
use stand_in::Fault;

/// Returns the client with its request for a summary of the history.
fn asks_for_summary(client: &Client) -> Client {
    let mut asks = client.clone();
    asks.messages.push(client.said("user", "CRITICAL: Respond with TEXT ONLY. Create a summary."));
    asks
}

/// Returns the first message of a compacted history.
fn summarized(client: &Client, summary: &str) -> Value {
    client.said("user", &format!("What was said before:\n{summary}\nContinue."))
}

fn passed(answer: &Answer) -> bool {
    answer.header("x-lookback-passed") == Some("a compaction by the client")
}

/// Returns a client after a long conversation, and its session.
fn talkative(lab: &Lab, mut client: Client) -> (Client, String) {
    let mut session = String::new();
    for turn in 0..10 {
        let question = format!("Question {turn}. {}", "Tell me more about it. ".repeat(10));
        session = client.say(lab, &question).session().to_owned();
    }
    (client, session)
}

/// Sets the model's answer to the next request.
fn answers_next(lab: &Lab, words: &str) {
    let message = json!({"role": "assistant", "content": words});
    let body =
        json!({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    lab.stand_in.fail_next(Fault::Status(200, body.to_string()));
}

#[test]
fn a_compaction_by_the_client_passes_as_it_came_unless_it_is_too_long() {
    for dialect in DIALECTS {
        for named in [true, false] {
            let lab = Lab::new(Some(unlimited()));
            let mut client = Client::new(dialect);
            if named {
                client.headers.push(("x-amp-thread-id", "s".to_owned()));
            }
            let (mut client, session) = talkative(&lab, client);
            let asks = asks_for_summary(&client);
            let answer = asks.ask(&lab);
            assert!(answer.status == 200 && passed(&answer), "{dialect}: {}", answer.body);
            assert_eq!(lab.stand_in.last().unwrap().body, asks.body().to_string(), "{dialect}");
            // The history exceeds the model's window, although the windows that were sent did not.
            lab.stand_in.set_window(400);
            let answer = asks.ask(&lab);
            assert!(answer.status == 200 && passed(&answer), "{dialect}: {}", answer.body);
            assert_eq!(answer.header("x-lookback-session"), None, "{dialect}");
            assert!(answer.header("x-lookback-cut").is_some(), "{dialect}: {:?}", answer.headers);
            assert_eq!(lab.texts(&session).len(), 20, "{dialect}: it is not part of the conversation");
            let summary = client.words(&answer);
            client.messages = vec![summarized(&client, &summary)];
            let next = client.say(&lab, "Go on.");
            let line = (next.session(), next.header("x-lookback-line"));
            assert_eq!(line, (&*session, Some("rewritten")), "{dialect}");
            let name = session.replace('@', "%40");
            let page = lab.send("GET", &format!("/inspect/session?name={name}"), &[], "").body;
            assert!(page.contains("the client replaced 20 messages by what begins with"), "{dialect}");
        }
    }
}

#[test]
fn a_compaction_that_is_refused_for_another_reason_is_not_tried_again() {
    let lab = Lab::new(Some(unlimited()));
    let (client, _) = talkative(&lab, Client::new(Dialect::OpenAiChat));
    for fault in [Fault::Busy(1), Fault::Status(500, "{}".to_owned())] {
        lab.stand_in.fail_next(fault);
        let count = lab.stand_in.count();
        let answer = asks_for_summary(&client).ask(&lab);
        assert!(passed(&answer) && answer.status >= 429, "{}", answer.status);
        assert_eq!(lab.stand_in.count(), count + 1);
    }
}

#[test]
fn a_compaction_of_a_conversation_that_is_held_out_is_left_alone() {
    let lab = Lab::configured_with("holdout = 1.0\n[[upstream]]\nurl = \"UPSTREAM\"", unlimited());
    let (client, _) = talkative(&lab, Client::new(Dialect::OpenAiChat));
    lab.stand_in.set_window(400);
    let count = lab.stand_in.count();
    let answer = asks_for_summary(&client).ask(&lab);
    assert_eq!((answer.status, answer.header("x-lookback-held-out")), (400, Some("yes")), "{}", answer.body);
    assert_eq!(lab.stand_in.count(), count + 1);
}

#[test]
fn a_summary_that_could_be_of_two_conversations_belongs_to_neither() {
    let lab = Lab::new(Some(unlimited()));
    let summary = "The user asked for several things, and all of them are done.";
    let mut sessions = Vec::new();
    let mut clients = ["Hi", "Good day"].map(|greeting| {
        let mut client = Client::new(Dialect::OpenAiChat);
        client.say(&lab, greeting);
        let (client, session) = talkative(&lab, client);
        sessions.push(session);
        answers_next(&lab, summary);
        assert_eq!(asks_for_summary(&client).ask(&lab).status, 200);
        client
    });
    for client in &mut clients {
        client.messages = vec![summarized(client, summary)];
        let answer = client.say(&lab, "Go on.");
        assert!(!sessions.contains(&answer.session().to_owned()), "{}", answer.session());
        sessions.push(answer.session().to_owned());
    }
}

#[test]
fn a_summary_is_gone_on_with_once_and_by_its_own_client() {
    let lab = Lab::new(Some(unlimited()));
    let (mut client, session) = talkative(&lab, Client::new(Dialect::OpenAiChat));
    let answer = asks_for_summary(&client).ask(&lab);
    let summary = client.words(&answer);
    // Others quote the summary: another agent, a client with another dialect, and a client with another key.
    let agent = Client { tools: vec!["search"], ..Client::new(Dialect::OpenAiChat) };
    for mut quoting in [agent, Client::new(Dialect::Anthropic)] {
        quoting.messages = vec![summarized(&quoting, &summary), quoting.said("assistant", "I see.")];
        assert_ne!(quoting.say(&lab, "What do you think?").session(), session);
    }
    let stranger = Client { messages: vec![summarized(&client, &summary)], ..Client::new(Dialect::OpenAiChat) };
    let key = [("authorization", "Bearer other")];
    assert_ne!(lab.send("POST", stranger.path(), &key, &stranger.body().to_string()).session(), session);
    client.messages = vec![summarized(&client, &summary)];
    let again = client.clone();
    assert_eq!(client.say(&lab, "Go on.").session(), session);
    let mut again = Client { messages: vec![summarized(&again, &format!("{summary} Is that so?"))], ..again };
    assert_ne!(again.say(&lab, "Well?").session(), session);
    assert_eq!(client.say(&lab, "And on.").session(), session);
}

#[test]
fn a_conversation_whose_beginning_was_summarized_goes_on() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(unlimited()));
        let (mut client, session) = talkative(&lab, Client::new(dialect));
        let mut beginning = client.clone();
        beginning.messages.truncate(12);
        let answer = asks_for_summary(&beginning).ask(&lab);
        let before = [summarized(&client, &client.words(&answer)), client.said("assistant", "Got it.")];
        client.messages.splice(..12, before);
        let answer = client.say(&lab, "Go on.");
        assert_eq!((answer.session(), answer.header("x-lookback-line")), (&*session, Some("rewritten")), "{dialect}");
    }
}

#[test]
fn requests_of_a_compacted_conversation_and_of_one_that_began_alike_do_not_wait_for_each_other() {
    let lab = Lab::new(Some(unlimited()));
    let mut compacted = Vec::new();
    let mut branched = Vec::new();
    for at in 0..6 {
        let mut client = Client::new(Dialect::OpenAiChat);
        client.say(&lab, "Hi");
        client.say(&lab, &format!("I am {at}."));
        branched.push(client.clone());
        let answer = asks_for_summary(&client).ask(&lab);
        let summary = client.words(&answer);
        // All of them share a scope, because their first messages begin alike.
        let first = format!("{}{summary}", "What was said before. ".repeat(12));
        client.messages = vec![client.said("user", &first)];
        compacted.push(client);
    }
    std::thread::scope(|scope| {
        for client in compacted.iter_mut().chain(&mut branched) {
            let lab = &lab;
            scope.spawn(move || (0..8).for_each(|turn| assert_eq!(client.say(lab, &format!("{turn}")).status, 200)));
        }
    });
}

#[test]
fn questions_that_look_like_compactions_and_are_none_become_turns() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(unlimited()));
        let (mut client, session) = talkative(&lab, Client::new(dialect));
        let mut passes = 0;
        for turn in 0..6 {
            let answer = client.say(&lab, &format!("Summarize our conversation again, for the {turn}th time."));
            passes += u32::from(passed(&answer));
        }
        assert_eq!(passes, 1, "{dialect}: after one call, the client has shown that it keeps them");
        let answer = client.say(&lab, "Go on.");
        assert_eq!(answer.session(), session, "{dialect}");
        assert_eq!(lab.texts(&session).len(), 20 + 2 * 7, "{dialect}: all of it is recorded");
    }
}

#[test]
fn a_compaction_in_words_of_no_known_client_passes_whole() {
    for dialect in DIALECTS {
        let lab = Lab::new(Some(unlimited()));
        let (client, session) = talkative(&lab, Client::new(dialect));
        // Even a window that would be cut is sent whole.
        let mut asks = client.clone();
        let text =
            "The context is nearly full. Hand over: note for whoever takes over all that this session was about.";
        asks.messages.push(client.said("user", text));
        let answer = asks.ask(&lab);
        assert!(answer.status == 200 && passed(&answer), "{dialect}: {}", answer.body);
        assert_eq!(lab.stand_in.last().unwrap().body, asks.body().to_string(), "{dialect}");
        // Without tools, no words are needed.
        let mut silent = Client { tools: Vec::new(), ..client.clone() };
        silent.messages.push(client.said("user", "List the open points."));
        assert!(passed(&silent.ask(&lab)), "{dialect}");
        assert_eq!(lab.texts(&session).len(), 20, "{dialect}: neither is part of the conversation");
    }
}
