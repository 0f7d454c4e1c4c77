//! Middleware that fails, at any event and in any way.

use std::collections::BTreeMap;

use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};

use crate::vectors::run::{Vector, play};

const EVENTS: [&str; 9] = [
    "start",
    "before_iteration",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "after_iteration",
    "overflow",
    "stop",
];

/// Three iterations: tools, a refusal as too long with tools after it, and an answer.
fn troubled(how: &str, event: &str, on_failure: &str) -> Vector {
    // Only a middleware that hangs has a time limit, and a long one, so that a slow machine does not fail the test.
    let limit = if ["hang", "pending"].contains(&how) { 1_000 } else { 0 };
    let middleware = vec![
        json!({"name": "before", "order": 1}),
        json!({"name": "bad", "order": 10, "time_limit": limit, "on_failure": on_failure, "at": {event: how}}),
        json!({"name": "after", "order": 50, "at": {"before_model": {"note": "still here"}}}),
    ];
    let long = "a result that is long enough to be shortened ".repeat(40);
    let model = vec![
        json!({"calls": [{"tool": "read", "result": long}, {"tool": "list", "result": "b"}]}),
        json!({"too_long": true, "calls": [{"tool": "read", "result": "c"}]}),
    ];
    Vector { name: how.to_owned(), middleware, model, ..Vector::default() }
}

/// Every way to fail at every event: at once in every dialect, and after a time limit in one; all in parallel.
fn each_trouble(on_failure: &str, holds: impl Fn(Dialect, &str, &str, BTreeMap<String, Value>) + Sync) {
    let run = |dialect: Dialect, event: &str, how: &str| {
        let here = format!("{how} at {event} ({dialect})");
        holds(dialect, event, &here, play(&troubled(how, event, on_failure), dialect, &here));
    };
    let run = &run;
    std::thread::scope(|scope| {
        for event in EVENTS {
            for how in ["hang", "pending"] {
                scope.spawn(move || run(Dialect::Anthropic, event, how));
            }
        }
    });
    for dialect in Dialect::ALL {
        for event in EVENTS {
            ["fail", "panic"].iter().for_each(|how| run(dialect, event, how));
        }
    }
}

#[test]
fn a_middleware_that_fails_open_at_any_event_changes_nothing_for_the_others() {
    let others = |found: &Value| -> Vec<Value> {
        let told = |asked: &Value| !asked.as_str().unwrap().starts_with("bad");
        found.as_array().unwrap().iter().filter(|asked| told(asked)).cloned().collect()
    };
    let sound = Dialect::ALL.map(|dialect| (dialect, play(&troubled("", "none", "open"), dialect, "sound")));
    for (_, expected) in &sound {
        assert_eq!((&expected["stopped"], &expected["failures"]), (&json!("answered"), &json!([])));
    }
    each_trouble("open", |dialect, event, here, found| {
        let first = found["failures"][0].as_str().unwrap_or_else(|| panic!("{here}: nobody was told"));
        assert!(first.starts_with(&format!("middleware `bad` failed at `{event}`: it ")), "{here}: {first}");
        let (_, expected) = sound.iter().find(|(known, _)| *known == dialect).unwrap();
        assert_eq!(others(&found["asked"]), others(&expected["asked"]), "{here}");
        for (member, value) in expected.iter().filter(|(member, _)| !["asked", "failures"].contains(&member.as_str())) {
            assert_eq!(&found[member], value, "{here}: {member}");
        }
    });
}

#[test]
fn a_middleware_that_fails_closed_at_any_event_ends_the_run_in_order() {
    each_trouble("closed", |_, event, here, found| {
        if event == "stop" {
            assert_eq!(found["stopped"], "answered", "{here}: it was over already");
        } else {
            let stopped = found["stopped"].as_str().unwrap();
            assert!(stopped.starts_with(&format!("middleware `bad` failed at `{event}`: it ")), "{here}: {stopped}");
        }
        for other in ["before stop", "after stop"] {
            let times = found["asked"].as_array().unwrap().iter().filter(|asked| *asked == other).count();
            assert_eq!(times, 1, "{here}: {other}");
        }
    });
}
