//! `lookback rules`: explains the rules of providers, by number or by the text of an error.

use crate::exit::ExitCode;
use std::path::Path;

use lookback_wire::dialect::{Dialect, ProviderError};

use crate::args::RulesArgs;
use crate::failure::Failure;
use crate::{input, output};

/// The page with a section for each rule, and two sections for errors that break no rule. The command prints sections
/// of this page, so the two cannot disagree.
const PAGE: &str = include_str!("../../rules.md");
const TOO_LONG: &str = "Too long";
const NO_RULE: &str = "Other refusals";

pub(crate) fn run(args: &RulesArgs) -> Result<ExitCode, Failure> {
    let titles = match &args.what[..] {
        [] => {
            output::result(&list())?;
            return Ok(ExitCode::SUCCESS);
        }
        [dash] if dash == "-" => meant(&input::text(Path::new("-"))?),
        words => numbered(words).unwrap_or_else(|| meant(&words.join(" "))),
    };
    if titles.is_empty() {
        output::message(
            "this is neither a known rule number nor a known error about the length or the messages of a request",
        );
        return Ok(ExitCode::from(1));
    }
    let sections: Vec<String> = titles.into_iter().filter_map(section).collect();
    output::result(&sections.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns all rules, one per line.
fn list() -> String {
    let rules = Dialect::ALL.into_iter().flat_map(|dialect| dialect.rules().iter().map(move |rule| (dialect, rule)));
    rules.map(|(dialect, rule)| format!("{:<6}{:<13}{}\n", rule.id, dialect.name(), rule.demands)).collect()
}

/// Returns the rules with these numbers. `None` if a word is not a rule number.
fn numbered(words: &[String]) -> Option<Vec<&'static str>> {
    let find = |word: &String| {
        let mut rules = Dialect::ALL.into_iter().flat_map(Dialect::rules);
        rules.find(|rule| rule.id.eq_ignore_ascii_case(word)).map(|rule| rule.id)
    };
    words.iter().map(find).collect()
}

/// Returns the titles of the sections about an error. Several providers may use the same words.
fn meant(error: &str) -> Vec<&'static str> {
    let provider_errors = Dialect::ALL.map(|dialect| dialect.provider_error(None, error));
    let rule = |provider_error: &ProviderError| match provider_error {
        ProviderError::Malformed { rule } => *rule,
        _ => None,
    };
    let rules: Vec<_> = provider_errors.iter().filter_map(rule).collect();
    if !rules.is_empty() {
        return rules;
    }
    // All dialects classify an error alike.
    match provider_errors.first() {
        Some(ProviderError::TooLong(_)) => vec![TOO_LONG],
        Some(ProviderError::Malformed { .. }) => vec![NO_RULE],
        _ => Vec::new(),
    }
}

/// Returns a section of the page for a terminal: its title and its text, with indented quotes.
fn section(title: &str) -> Option<String> {
    let mut lines =
        PAGE.lines().skip_while(|line| !line.starts_with('#') || line.trim_start_matches('#').trim() != title);
    lines.next()?;
    let mut text = format!("{title}\n");
    let mut quoted = false;
    for line in lines.take_while(|line| !line.starts_with('#')) {
        if line.starts_with("```") {
            quoted = !quoted;
            continue;
        }
        if quoted {
            text.push_str("    ");
        }
        text.push_str(line);
        text.push('\n');
    }
    Some(format!("{}\n", text.trim_end()))
}
