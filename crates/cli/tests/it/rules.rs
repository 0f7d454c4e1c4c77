//! Tests of `lookback rules`.

use crate::common::Lab;
use lookback_wire::dialect::Dialect;

const WORDS: &str = "messages.167: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x.";

#[test]
fn all_rules_are_listed_a_line_each() {
    let run = Lab::new().run(&["rules"]);
    let lines: Vec<&str> = run.out().lines().collect();
    let rules: Vec<_> = Dialect::ALL.into_iter().flat_map(Dialect::rules).collect();
    assert_eq!(lines.len(), rules.len());
    for (line, rule) in lines.into_iter().zip(rules) {
        assert!(line.starts_with(&format!("{} ", rule.id)) && line.ends_with(rule.demands), "{line}");
    }
}

#[test]
fn a_rule_is_found_by_its_number() {
    let lab = Lab::new();
    let run = lab.run(&["rules", "AM2"]);
    assert!(run.out().starts_with("AM2\n\nEach tool use has one result, at the beginning of the next user message.\n"));
    assert!(run.stdout.contains(&format!("\n    {WORDS}")) && !run.stdout.contains("```"), "{}", run.stdout);
    for label in ["\nWhy: ", "\nLookback: ", "\nYou: "] {
        assert!(run.stdout.contains(label), "{}", run.stdout);
    }
    assert!(!run.stdout.contains("AM3"), "{}", run.stdout);
    assert_eq!(lab.run(&["rules", "am2"]).out(), run.stdout);
    let both = lab.run(&["rules", "AM2", "OC0"]);
    assert!(both.out().starts_with(&run.stdout) && both.stdout.contains("\nOC0\n"), "{}", both.stdout);
}

/// Every rule that `check` may name has a section.
#[test]
fn no_rule_is_without_a_section() {
    let lab = Lab::new();
    for rule in Dialect::ALL.into_iter().flat_map(Dialect::rules) {
        assert!(lab.run(&["rules", rule.id]).out().starts_with(&format!("{}\n\n", rule.id)));
    }
}

#[test]
fn a_rule_is_found_by_the_error_that_somebody_pastes() {
    let lab = Lab::new();
    let begins = |error: &str, title: &str| {
        let run = lab.run(&["rules", error]);
        assert!(run.out().starts_with(&format!("{title}\n\n")), "{error}: {}", run.stdout);
    };
    begins(
        "Error code: 400 - {'error': {'message': \"messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.\"}}",
        "OC1",
    );
    begins("The toolConfig field must be defined when using toolUse and toolResult content blocks.", "BC3");
    begins("prompt is too long: 219898 tokens > 200000 maximum", "Too long");
    begins("role 'system' is not supported on this model", "Other refusals");
    // Claude behind Bedrock returns the same error.
    begins(WORDS, "AM2");
    assert!(lab.run(&["rules", WORDS]).out().contains("\nBC2\n\n"));
    // Without quotes for the shell, and on standard input.
    assert!(lab.run(&["rules", "prompt", "is", "too", "long"]).out().starts_with("Too long\n\n"));
    assert_eq!(lab.pipe(&["rules", "-"], format!("{WORDS}\n")).out(), lab.run(&["rules", WORDS]).stdout);
}

#[test]
fn an_error_about_something_else_is_said_to_be() {
    let lab = Lab::new();
    for words in
        [&["AM99"][..], &["Overloaded"], &["rate limit exceeded: prompt is too long"], &[""], &["AM2", "please"]]
    {
        let run = lab.run(&[&["rules"], words].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{words:?}");
        assert!(run.stderr.contains("neither a known rule number"), "{}", run.stderr);
    }
    assert_eq!(lab.pipe(&["rules", "-"], [0xff_u8]).code, Some(2));
}
