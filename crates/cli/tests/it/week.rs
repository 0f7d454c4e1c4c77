//! `lookback week`: what agents used, and where it went.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::common::Lab;
use crate::logs::{home, run};

#[test]
fn a_week_is_summed_up_by_project_model_and_agent() {
    let lab = home();
    assert_snapshot!(lab.snapshot(&run(&lab, &["week", "--since", "2020-01-01"])));
    let json = run(&lab, &["week", "--since", "2020-01-01", "--json"]);
    let week: Value = serde_json::from_str(json.out()).unwrap();
    // The list has the tokens of each log.
    let listed = run(&lab, &["replay", "--list", "--json"]).lines();
    let sum = |name: &str| listed.iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
    let used = |name: &str| week["total"][name].as_u64().unwrap();
    let estimated: u64 = week["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["calls"].as_array().unwrap())
        .filter(|call| call["kind"] == "estimated")
        .map(|call| call["input"].as_u64().unwrap() + call["cache_read"].as_u64().unwrap())
        .sum();
    assert_eq!(used("input") + used("cache_read") + used("cache_write") - estimated, sum("input_tokens"));
}

#[test]
fn the_page_has_every_call_and_no_address() {
    let lab = home();
    let page = lab.path("week.html");
    let done = run(&lab, &["week", "--since", "2020-01-01", "--html", page.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Why does the kettle boil twice?") && page.contains("by the price lists"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn a_week_without_conversations_says_where_to_look() {
    run(&home(), &["week"]).fails(2, "no conversation was found in the last 7 days; --since 30d looks further back");
    let lab = Lab::new();
    fs::create_dir(lab.path("home")).unwrap();
    run(&lab, &["week", "--since", "2020-01-01"]).fails(2, "no conversation was found");
    run(&home(), &["week", "--prices", "gold"]).fails(2, "there are no prices named `gold`");
}
