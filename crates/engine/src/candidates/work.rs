//! Work in progress: the newest plan and the newest failure, which a compaction keeps.
//!
//! Both are told by their form, because every client has tools of its own.

use lookback_wire::message::{ResultItem, ToolCall, ToolResult};
use serde_json::Value;

use super::Sizing;
use crate::group::GroupKind;
use crate::policy::Tokens;
use crate::telling;
use crate::view::{View, ViewGroup};

/// A group with more tokens is not kept.
const LARGEST: u64 = 2_000;
/// Nor is one that takes more than one in this many of the target.
const SHARE: u64 = 6;
/// The bytes of a token, about. Unlike tokens, the bytes that arrived are the same after a compaction, so it comes to the
/// same choice again.
const BYTES: u64 = 4;
/// An older failure is no longer in progress.
const ROUNDS: usize = 30;
/// The most characters of the word that says how far a step is.
const WORD: usize = 20;
/// The most such words.
const WORDS: usize = 4;
/// Members whose words say something else, in lists of other things.
const OTHERS: [&str; 6] = ["file", "language", "name", "path", "role", "type"];

/// Returns the groups with the newest plan and the newest failure, by index.
pub(super) fn find(view: &View, sizing: Sizing<'_>) -> [Option<usize>; 2] {
    if !sizing.policy.keep.work {
        return [None, None];
    }
    let rounds = || view.groups().iter().enumerate().rev().filter(|(_, group)| group.kind == GroupKind::Round);
    let limits = sizing.policy.target.as_ref().unwrap_or(&sizing.policy.limits);
    let tokens = if let Some(Tokens::Count(tokens)) = limits.tokens { Some(tokens) } else { None };
    let share = [limits.body, tokens].into_iter().flatten().min().map_or(u64::MAX, |target| target / SHARE);
    let largest = LARGEST.min(share).saturating_mul(BYTES);
    let is_small = |group: &ViewGroup| {
        let late = view.late_for(group);
        let items = group.items.iter().chain(late.iter().map(|(item, _)| item));
        let bytes = items.map(|item| item.message.wire().map_or(item.size.bytes, |wire| wire.raw.get().len() as u64));
        bytes.fold(0, u64::saturating_add) <= largest
    };
    let plan = rounds().find(|(_, group)| plans(group));
    let failure = rounds().take(ROUNDS).find(|(_, group)| fails(group));
    [plan, failure].map(|found| found.filter(|(_, group)| is_small(group)).map(|(index, _)| index))
}

fn plans(group: &ViewGroup) -> bool {
    group.items.iter().flat_map(|item| item.message.tool_calls()).any(|(_, call)| has_steps(call))
}

/// Returns whether a result of the group says that something failed.
fn fails(group: &ViewGroup) -> bool {
    // A stand-in for a missing result fails only for the provider.
    let items = group.items.iter().filter(|item| !item.is_own());
    let results = items.flat_map(|item| item.message.tool_results());
    let texts = |result: &ToolResult| result.content.iter().filter_map(ResultItem::text).any(telling::fails);
    results.map(|(_, result)| result).any(|result| result.error || texts(result))
}

/// Returns whether the arguments of a call have a list of steps: objects alike, each with a text, and with one of few
/// words that says how far it is.
fn has_steps(call: &ToolCall) -> bool {
    // Most calls have no list of objects, and need not be parsed.
    let mut after_lists = call.arguments.split('[').skip(1);
    if !after_lists.any(|after| after.trim_start().starts_with('{')) {
        return false;
    }
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return false };
    arguments.values().filter_map(Value::as_array).any(|steps| are_steps(steps))
}

fn are_steps(steps: &[Value]) -> bool {
    let Some(first) = steps.first().and_then(Value::as_object).filter(|_| steps.len() > 1) else { return false };
    let texts = |key: &String| steps.iter().map(|step| step.get(key)?.as_str()).collect::<Option<Vec<&str>>>();
    let all: Vec<Vec<&str>> = first.keys().filter(|key| !OTHERS.contains(&key.as_str())).filter_map(texts).collect();
    let is_letter = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
    let is_word = |text: &&str| !text.is_empty() && text.len() <= WORD && text.chars().all(is_letter);
    let says_how_far = |texts: &Vec<&str>| {
        let mut words = texts.clone();
        words.sort_unstable();
        words.dedup();
        texts.iter().all(is_word) && words.len() <= WORDS
    };
    all.iter().any(says_how_far) && all.iter().any(|texts| !texts.iter().all(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_steps_in(arguments: &str) -> bool {
        has_steps(&ToolCall::new("c1", "tool", arguments))
    }

    #[test]
    fn a_list_of_steps_is_a_plan() {
        for plan in [
            r#"{"todos":[{"content":"Read the parser","status":"completed"},{"content":"Fix it","status":"pending"}]}"#,
            r#"{"explanation":"Go on.","plan":[{"step":"テストを書く。それから実行する。","status":"done"},{"step":"直す","status":"todo"}]}"#,
            r#"{"items": [ {"id":1,"title":"Write the tests","state":"open"}, {"id":2,"title":"Run them","state":"open"} ]}"#,
        ] {
            assert!(has_steps_in(plan), "{plan}");
        }
    }

    #[test]
    fn other_lists_are_not() {
        for call in [
            r#"{"edits":[{"old":"let a = 1;","new":"let a = 2;"},{"old":"let b = 1;","new":"let b = 2;"}]}"#,
            r#"{"questions":[{"question":"Which one?","header":"Choice"}]}"#,
            r#"{"files":[{"path":"a.rs"},{"path":"b.rs"}]}"#,
            r#"{"files":[{"path":"a.rs","content":"fn a() {}"},{"path":"b.rs","content":"fn b() {}"}]}"#,
            r#"{"messages":[{"role":"user","content":"Hi there."},{"role":"user","content":"Are you there?"}]}"#,
            r#"{"command":"if [[ -f a ]]; then echo '[{'; fi"}"#,
            r#"{"todos":["Read","Fix"]}"#,
            "[{",
        ] {
            assert!(!has_steps_in(call), "{call}");
        }
    }
}
