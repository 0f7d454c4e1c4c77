//! Tests of the hold-out: some sessions are sent whole, and the costs of both arms are reported.

use super::calls::at;
use super::*;
use lookback_replay::prices::Prices;

fn lab(holdout: f64) -> Lab {
    Lab::configured_with(&format!("holdout = {holdout}\n[[upstream]]\nurl = \"UPSTREAM\""), at(1500))
}

#[test]
fn a_session_that_is_held_out_is_left_alone() {
    for dialect in DIALECTS {
        let lab = lab(1.0);
        let mut client = Client::new(dialect);
        for turn in 0..40 {
            let answer = client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(10)));
            assert_eq!((answer.status, answer.header("x-lookback-held-out")), (200, Some("yes")), "{dialect}");
            assert_eq!(answer.header("x-lookback-cut"), None, "{dialect}");
        }
        let sent =
            lookback_wire::dialect::Request::decode(lab.stand_in.last().unwrap().body.to_vec(), Some(dialect)).unwrap();
        assert_eq!(sent.messages().len(), 79, "{dialect}");
        lab.stand_in.set_window(400);
        let count = lab.stand_in.count();
        let refused = client.say(&lab, "And in short?");
        assert_eq!((refused.status, lab.stand_in.count()), (400, count + 1), "{dialect}: nothing is tried again");
    }
}

/// Returns a figure of `/metrics`.
fn figure(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(&format!("lookback_{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_both_kinds_of_sessions_cost_is_told_as_the_provider_reported_it() {
    let lab = lab(0.5);
    for conversation in 0..16 {
        let mut client = Client { model: "gpt-4o", ..Client::new(Dialect::OpenAiChat) };
        for turn in 0..4 + conversation % 5 {
            let text = format!("In conversation {conversation}, {turn}. {}", "Tell me more about it. ".repeat(40));
            assert_eq!(client.say(&lab, &text).status, 200);
        }
    }
    let metrics = lab.send("GET", "/metrics", &[], "").body;
    let both = |name: &str| ["windowed", "held_out"].map(|arm| figure(&metrics, &format!("{name}{{arm=\"{arm}\"}}")));
    let [windowed, held_out] = both("payoff_sessions");
    assert!(windowed > 1.0 && held_out > 1.0 && windowed + held_out == 16.0, "{windowed} {held_out}");
    assert_eq!(both("payoff_calls").iter().sum::<f64>(), lab.stand_in.count() as f64);
    assert_eq!(both("payoff_turns").iter().sum::<f64>(), lab.stand_in.count() as f64);
    assert_eq!(both("payoff_unpriced_calls"), [0.0, 0.0]);
    let usage = lab.stand_in.report().usage;
    let price = Prices::builtin().find("gpt-4o").unwrap();
    let input = (usage.input - usage.cached) as f64 + usage.cached as f64 * price.read;
    let dollars = input * price.input / 1e6 + price.output_cost(usage.output);
    let told: f64 = both("payoff_dollars").iter().sum();
    assert!((told - dollars).abs() < dollars * 1e-9, "{told} {dollars}");
    let [windowed, held_out] = both("payoff_dollars_per_call_error");
    assert!(windowed > 0.0 && held_out > 0.0, "{windowed} {held_out}");
}

/// Returns the cost of the input of all calls, by the stand-in's reports.
fn input_cost(lab: &Lab) -> f64 {
    let (usage, price) = (lab.stand_in.report().usage, Prices::builtin().find("gpt-4o").unwrap());
    ((usage.input - usage.cached) as f64 + usage.cached as f64 * price.read) * price.input / 1e6
}

#[test]
fn what_was_paid_is_what_was_reported_and_everything_costs_about_what_is_estimated() {
    let (cutting, whole) = (Lab::new(Some(at(4000))), Lab::new(Some(super::calls::unlimited())));
    let mut session = String::new();
    for lab in [&whole, &cutting] {
        let mut client = Client { model: "gpt-4o", ..Client::new(Dialect::OpenAiChat) };
        for turn in 0..60 {
            let answer = client.say(lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(40)));
            answer.session().clone_into(&mut session);
        }
    }
    let (name, price) = (session.parse().unwrap(), Prices::builtin().find("gpt-4o").unwrap());
    let counter = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").counter;
    let receipt = lookback_replay::receipt::Receipt::load(&*cutting.store, &name, &*counter, price);
    let total = futures_lite::future::block_on(receipt).unwrap().total;
    let calls = cutting.send("GET", &format!("/lookback/v1/sessions/{}/calls", session.replace('/', "%2F")), &[], "");
    let told: Value = serde_json::from_str(&calls.body).unwrap();
    let cost = told["total"]["cost"].as_f64().unwrap();
    assert!((cost - total.cost).abs() < cost * 1e-9, "at the prices of the session's model: {cost} {}", total.cost);
    let paid = total.paid;
    assert_eq!(paid.calls, 60);
    assert!((paid.cost - input_cost(&cutting)).abs() < paid.cost * 1e-9, "{paid:?}");
    let everything = paid.everything().unwrap();
    let (error, actual) = (everything.error.unwrap(), input_cost(&whole));
    assert!(actual > 1.5 * paid.cost, "windows save: {paid:?}");
    assert!((everything.cost - actual).abs() < (2.0 * error).max(actual * 0.05), "{paid:?} {actual}");
}

#[test]
fn an_answer_that_the_client_changes_is_no_second_call() {
    let lab = Lab::new(None);
    let mut client = Client { model: "gpt-4o", ..Client::new(Dialect::OpenAiChat) };
    let mut session = String::new();
    for turn in 0..6 {
        let answer = client.say(&lab, &format!("Question {turn}. {}", "Tell me more about it. ".repeat(20)));
        answer.session().clone_into(&mut session);
        let last = client.messages.len() - 1;
        let id = format!("c{turn}");
        let call = json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}});
        client.messages[last]["tool_calls"] = json!([call]);
        client.messages.push(client.result(&id, "Done."));
    }
    let path = format!("/lookback/v1/sessions/{}/calls", session.replace('/', "%2F"));
    let calls: Value = serde_json::from_str(&lab.send("GET", &path, &[], "").body).unwrap();
    assert_eq!(calls["total"]["calls"], lab.stand_in.count(), "{calls}");
}

#[test]
fn whether_windows_pay_is_told_once_it_is_clear() {
    let lab = Lab::configured_with("holdout = 0.5\n[[upstream]]\nurl = \"UPSTREAM\"", at(400));
    let verdict = |per: &str| {
        let metrics = lab.send("GET", "/metrics", &[], "").body;
        figure(&metrics, &format!("payoff_verdict{{per=\"{per}\"}}"))
    };
    let talk = |conversation: usize| {
        let mut client = Client { model: "gpt-4o", ..Client::new(Dialect::OpenAiChat) };
        for turn in 0..12 {
            let text = format!("In conversation {conversation}, {turn}. {}", "Tell me more about it. ".repeat(40));
            assert_eq!(client.say(&lab, &text).status, 200);
        }
    };
    (0..6).for_each(talk);
    assert_eq!((verdict("call"), verdict("turn")), (0.0, 0.0), "six sessions say nothing");
    (6..40).for_each(talk);
    assert_eq!((verdict("call"), verdict("turn")), (1.0, 1.0));
    let told: Value = serde_json::from_str(&lab.send("GET", "/lookback/v1/payoff", &[], "").body).unwrap();
    assert_eq!((&told["per_call"], &told["per_turn"]), (&json!("pays"), &json!("pays")), "{told}");
}
