//! Tests of a gateway that only watches: everything is sent as it came, and the windows are reported.

use super::calls::at;
use super::*;

const SHADOW: &str = "shadow = true\n[[upstream]]\nurl = \"UPSTREAM\"";

/// Returns a conversation in which a window of 1,500 tokens is cut several times.
fn talk(lab: &Lab, client: &mut Client, mut on_answer: impl FnMut(&Answer)) {
    for turn in 0..40 {
        let answer = client.say(lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
        assert_eq!(answer.status, 200, "{}", answer.body);
        on_answer(&answer);
    }
}

#[test]
fn a_gateway_that_only_watches_sends_everything_and_reports_the_windows_of_one_that_cuts() {
    for dialect in DIALECTS {
        let (watching, cutting) = (Lab::configured_with(SHADOW, at(1500)), Lab::new(Some(at(1500))));
        let client = || Client { model: "gpt-4o", ..Client::new(dialect) };
        let (mut reported, mut cut) = (Vec::new(), Vec::new());
        talk(&watching, &mut client(), |answer| {
            assert_eq!((answer.header("x-lookback-cut"), answer.header("x-lookback-compacted")), (None, None));
            let shadow = answer.header("x-lookback-shadow").unwrap();
            let (window, compacted) = shadow.split_once(" (would compact ").unzip();
            let cut = window.unwrap_or(shadow).split_once(" tokens, ").map(|(_, cut)| cut.to_owned());
            reported.push((cut, compacted.is_some()));
        });
        talk(&cutting, &mut client(), |answer| {
            let cut_to = answer.header("x-lookback-cut").map(str::to_owned);
            cut.push((cut_to, answer.header("x-lookback-compacted").is_some()));
        });
        assert_eq!(reported, cut, "{dialect}");
        assert!(cut.iter().filter(|(_, compacted)| *compacted).count() >= 2, "{dialect}: {cut:?}");
        let sent = watching.stand_in.last().unwrap().body.to_vec();
        let sent = lookback_wire::dialect::Request::decode(sent, Some(dialect)).unwrap();
        assert_eq!(sent.messages().len(), 79, "{dialect}");
    }
}

#[test]
fn the_savings_of_windows_that_were_not_sent_are_in_the_metrics() {
    let lab = Lab::configured_with(SHADOW, at(1500));
    let figure = |name: &str| {
        let metrics = lab.send("GET", "/metrics", &[], "").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("lookback_{name} ")).map(str::to_owned));
        line.map(|value| value.parse::<f64>().unwrap())
    };
    assert_eq!(figure("shadow_calls"), None, "nothing was measured");
    let mut session = String::new();
    let mut client = Client { model: "gpt-4o", ..Client::new(Dialect::OpenAiChat) };
    talk(&lab, &mut client, |answer| answer.session().clone_into(&mut session));
    // The newest simulation runs in the background.
    let calls = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        figure("shadow_calls").filter(|calls| *calls >= 37.0)
    });
    let calls = calls.unwrap();
    assert!(calls <= 40.0, "{calls}: all but the newest sixteenth");
    let everything = figure("shadow_dollars{sent=\"everything\"}").unwrap();
    let windows = figure("shadow_dollars{sent=\"windows\"}").unwrap();
    assert!(0.0 < windows && windows < everything * 0.8, "{windows} {everything}");
    assert_eq!(lab.texts(&session).len(), 80, "the log has the conversation as it was sent");
    let payoff: Value = serde_json::from_str(&lab.send("GET", "/lookback/v1/payoff", &[], "").body).unwrap();
    assert_eq!(payoff["shadow"], json!({"calls": calls, "everything": everything, "windows": windows}));
    assert_eq!(payoff["held_out"]["calls"], 0.0, "there is nothing to compare with");
}

#[test]
fn a_gateway_that_only_watches_adds_nothing_and_tries_nothing_again() {
    let lab =
        Lab::configured_with(&format!("adds = [\"recall\", \"fact-sheet\", \"cache-markers\"]\n{SHADOW}"), at(400));
    let mut client = Client::new(Dialect::Anthropic);
    talk(&lab, &mut client, |_| {});
    let seen = lab.stand_in.last().unwrap().body;
    // The stand-in saw the client's last request, before its answer was added.
    client.messages.pop();
    assert_eq!(serde_json::from_slice::<Value>(&seen).unwrap(), client.body());
    client.messages.push(client.said("assistant", "Yes."));
    lab.stand_in.set_window(400);
    let count = lab.stand_in.count();
    let refused = client.say(&lab, "And in short?");
    assert_eq!((refused.status, lab.stand_in.count()), (400, count + 1));
    let mut unknown = Client::new(Dialect::Anthropic);
    unknown.messages = client.messages.clone();
    unknown.messages[0] = unknown.said("user", "Another beginning");
    let refused = unknown.say(&lab, "Write a detailed summary of our conversation so far.");
    assert_eq!((refused.status, lab.stand_in.count()), (400, count + 2), "a compaction of an unknown conversation");
}

#[test]
fn the_size_of_a_conversation_that_was_cut_before_is_unknown() {
    let cutting = Lab::new(Some(at(1500)));
    let mut client = Client::new(Dialect::OpenAiChat);
    talk(&cutting, &mut client, |_| {});
    let watching = cutting.restarted(SHADOW);
    let answer = client.say(&watching, "And?");
    assert_eq!((answer.status, answer.header("x-lookback-window")), (200, None));
    let sent = watching.stand_in.last().unwrap().body.to_vec();
    let sent = lookback_wire::dialect::Request::decode(sent, Some(Dialect::OpenAiChat)).unwrap();
    assert_eq!(sent.messages().len(), 81, "everything is sent");
}

#[test]
fn a_switch_of_the_model_keeps_the_cuts_of_the_windows() {
    let lab = Lab::configured_with(SHADOW, at(1500));
    let mut client = Client { model: "gpt-4o", ..Client::new(Dialect::OpenAiChat) };
    let mut compacted = 0;
    talk(&lab, &mut client, |_| {});
    for turn in 0..6 {
        client.model = ["gpt-4.1", "gpt-4o"][turn % 2];
        let answer = client.say(&lab, "And?");
        let shadow = answer.header("x-lookback-shadow").unwrap();
        assert!(shadow.contains("messages sent"), "{shadow}");
        compacted += usize::from(shadow.contains("would compact"));
    }
    assert!(compacted <= 1, "{compacted} cuts in six short turns");
}

#[test]
fn added_tools_count_for_the_windows_although_they_are_not_added() {
    let config = |more: &str| format!("adds = [\"recall\"]\n{more}[[upstream]]\nurl = \"UPSTREAM\"");
    let policy = || lookback_engine::policy::Policy::production();
    let watching = Lab::configured_with(&config("shadow = true\n"), policy());
    let cutting = Lab::configured_with(&config(""), policy());
    let shortened = |lab: &Lab, header: &str| {
        let mut client = Client::new(Dialect::OpenAiChat);
        client.say(lab, "Hi");
        client.messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}));
        client
            .messages
            .push(client.result("c1", &(0..900).map(|line| format!("line {line} of {line}\n")).collect::<String>()));
        let answer = lab.post(client.path(), &[], &client.body());
        answer.header(header).map(str::to_owned)
    };
    let cut = shortened(&cutting, "x-lookback-cut").unwrap();
    let shadow = shortened(&watching, "x-lookback-shadow").unwrap();
    assert!(cut.contains("1 of them shortened") && shadow.contains(&cut), "{cut}; {shadow}");
}
