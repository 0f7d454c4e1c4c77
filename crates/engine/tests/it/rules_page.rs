//! Checks `crates/cli/rules.md`: each rule has a section, and each quoted error was seen and is recognized.

use lookback_wire::dialect::{Dialect, ProviderError};
use serde::Deserialize;

const PAGE: &str = include_str!("../../../cli/rules.md");

/// A title, and the lines under it.
type Section = (&'static str, Vec<&'static str>);

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix('#') {
            sections.push((title.trim_start_matches('#').trim(), Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    sections
}

/// Returns the errors that a section quotes, each with its source.
fn quotes(lines: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    let mut quotes = Vec::new();
    let mut lines = lines.iter().copied();
    while lines.any(|line| line == "```text") {
        let errors: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let seen = lines.by_ref().find(|line| !line.is_empty()).unwrap();
        let sources = seen.strip_prefix("Seen in: ").and_then(|seen| seen.strip_suffix('.'));
        let sources: Vec<_> = sources.unwrap_or_else(|| panic!("no sources: {seen}")).split("; ").collect();
        assert_eq!(errors.len(), sources.len(), "{errors:#?}");
        quotes.extend(errors.into_iter().zip(sources));
    }
    quotes
}

#[derive(Deserialize)]
struct Vector {
    source: String,
    body: String,
}

fn vectors(dialect: Dialect) -> Vec<Vector> {
    let text = match dialect {
        Dialect::OpenAiChat => include_str!("../../../../corpus/errors/openai-chat.json"),
        Dialect::Anthropic => include_str!("../../../../corpus/errors/anthropic.json"),
        Dialect::Bedrock => include_str!("../../../../corpus/errors/bedrock.json"),
        Dialect::OpenAiResponses => include_str!("../../../../corpus/errors/openai-responses.json"),
        Dialect::Gemini => include_str!("../../../../corpus/errors/gemini.json"),
    };
    serde_json::from_str(text).unwrap()
}

/// Returns a text without quotes and escapes, which depend on the program that printed the error.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\\' | '"' | '\'' | '`')).collect()
}

#[test]
fn every_rule_has_a_section_that_says_what_it_demands_and_what_to_do() {
    let sections = sections();
    for rule in Dialect::ALL.into_iter().flat_map(Dialect::rules) {
        let mut found = sections.iter().filter(|(title, _)| *title == rule.id);
        let (_, lines) = found.next().unwrap_or_else(|| panic!("crates/cli/rules.md has no section {}", rule.id));
        assert!(found.next().is_none(), "crates/cli/rules.md has two sections {}", rule.id);
        let demands = lines.iter().find(|line| !line.is_empty()).unwrap();
        assert_eq!(demands.to_lowercase(), format!("{}.", rule.demands).to_lowercase(), "{}", rule.id);
        for label in ["Why: ", "Lookback: ", "You: "] {
            assert!(lines.iter().any(|line| line.starts_with(label)), "{} has no `{label}`", rule.id);
        }
        let is_unseen = lines.iter().any(|line| line.starts_with("Its error has not been seen."));
        assert!(is_unseen == quotes(lines).is_empty(), "{} quotes no error", rule.id);
    }
}

#[test]
fn every_rule_that_the_page_names_is_there() {
    let is_number = |word: &&str| {
        let digits = ["OC", "AM", "BC", "OR", "GM"].into_iter().find_map(|letters| word.strip_prefix(letters));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for word in PAGE.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_number) {
        let mut rules = Dialect::ALL.into_iter().flat_map(Dialect::rules);
        assert!(rules.any(|rule| rule.id == word), "crates/cli/rules.md names {word}, which is no rule");
    }
}

#[test]
fn every_error_that_the_page_quotes_was_seen_and_is_known() {
    let corpus = Dialect::ALL.map(|dialect| (dialect, vectors(dialect)));
    let mut wrong = Vec::new();
    for (title, lines) in sections() {
        let own = |dialect: Dialect| dialect.rules().iter().any(|rule| rule.id == title);
        let is_rule = Dialect::ALL.into_iter().any(own);
        // A section that is not about a rule may quote any provider.
        let asked: Vec<_> = corpus.iter().filter(|(dialect, _)| !is_rule || own(*dialect)).collect();
        for (error, source) in quotes(&lines) {
            let mut vectors = asked.iter().flat_map(|(_, vectors)| vectors);
            let seen =
                vectors.any(|vector| vector.source.contains(source) && plain(&vector.body).contains(&plain(error)));
            if !seen {
                wrong.push(format!("{title}: no vector of {source} has: {error}"));
            }
            let provider_errors: Vec<_> =
                asked.iter().map(|(dialect, _)| dialect.provider_error(None, error)).collect();
            let known = match title {
                "AM10" | "AM17" | "BC12" | "GM9" | "Too long, in the providers' words" => {
                    provider_errors.iter().all(|provider_error| matches!(provider_error, ProviderError::TooLong(_)))
                }
                "Other refusals" => provider_errors.contains(&ProviderError::Malformed { rule: None }),
                rule => provider_errors == [ProviderError::Malformed { rule: Some(rule) }],
            };
            if !known {
                wrong.push(format!("{title}: {error}\n  is taken for {provider_errors:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "crates/cli/rules.md\n{}", wrong.join("\n"));
}
