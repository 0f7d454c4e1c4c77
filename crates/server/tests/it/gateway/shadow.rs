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
            let (window, compacted) = shadow.split_once("; ").unzip();
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
    let calls = figure("shadow_calls").unwrap();
    assert!((37.0..=40.0).contains(&calls), "{calls}: all but the newest sixteenth");
    let everything = figure("shadow_dollars{sent=\"everything\"}").unwrap();
    let windows = figure("shadow_dollars{sent=\"windows\"}").unwrap();
    assert!(0.0 < windows && windows < everything * 0.8, "{windows} {everything}");
    assert_eq!(lab.texts(&session).len(), 80, "the log has the conversation as it was sent");
    let payoff: Value = serde_json::from_str(&lab.send("GET", "/lookback/v1/payoff", &[], "").body).unwrap();
    assert_eq!(payoff["shadow"], json!({"calls": calls, "everything": everything, "windows": windows}));
    assert_eq!(payoff["held_out"]["calls"], 40.0, "they cost as much as without a gateway");
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
}
