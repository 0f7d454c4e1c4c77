//! `lookback rules`: what providers demand, found by the number of a rule or by the words of an error.

use std::path::Path;
use std::process::ExitCode;

use lookback::{Dialect, ProviderError};

use crate::args::RulesArgs;
use crate::failure::Failure;
use crate::{input, output};

/// A section for each rule, and two for errors that break none. What is said here is read from it, so the two cannot disagree.
const PAGE: &str = include_str!("../../../../docs/rules.md");
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
        output::tell("no rule has this number, and no error of a request's length or messages has these words");
        return Ok(ExitCode::from(1));
    }
    let sections: Vec<String> = titles.into_iter().filter_map(section).collect();
    output::result(&sections.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// All rules, a line each.
fn list() -> String {
    let rules = Dialect::ALL.into_iter().flat_map(|dialect| dialect.rules().iter().map(move |rule| (dialect, rule)));
    rules.map(|(dialect, rule)| format!("{:<6}{:<13}{}\n", rule.id, dialect.name(), rule.demands)).collect()
}

/// The rules of these numbers, where each word is one.
fn numbered(words: &[String]) -> Option<Vec<&'static str>> {
    let find = |word: &String| {
        let mut rules = Dialect::ALL.into_iter().flat_map(Dialect::rules);
        rules.find(|rule| rule.id.eq_ignore_ascii_case(word)).map(|rule| rule.id)
    };
    words.iter().map(find).collect()
}

/// The sections that tell of an error. Several providers may use the same words.
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
    // The kind of an error is the same in every dialect.
    match provider_errors.first() {
        Some(ProviderError::TooLong(_)) => vec![TOO_LONG],
        Some(ProviderError::Malformed { .. }) => vec![NO_RULE],
        _ => Vec::new(),
    }
}

/// A section of the page as a terminal shows it: its title, and what is quoted further to the right.
fn section(title: &str) -> Option<String> {
    let mut lines =
        PAGE.lines().skip_while(|line| !line.starts_with('#') || line.trim_start_matches('#').trim() != title);
    lines.next()?;
    let mut told = format!("{title}\n");
    let mut quoted = false;
    for line in lines.take_while(|line| !line.starts_with('#')) {
        if line.starts_with("```") {
            quoted = !quoted;
            continue;
        }
        if quoted {
            told.push_str("    ");
        }
        told.push_str(line);
        told.push('\n');
    }
    Some(format!("{}\n", told.trim_end()))
}
