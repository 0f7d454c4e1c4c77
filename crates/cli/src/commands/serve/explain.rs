//! `lookback serve --explain-policy`: the policy of a gateway, explained for a model: its limits in tokens, and the reasons for them.

use std::fmt::Write as _;

use lookback_engine::policy::{Caps, Limits, Policy, Stage, Tokens};
use lookback_models::Models;
use lookback_replay::prices::{Price, Prices};
use lookback_server::gateway::Gateway;
use lookback_wire::size::Measure;

use crate::output::number;

/// Explains how a gateway cuts the conversations of a model. If it only watches, nothing is cut.
pub(super) fn explain(gateway: &Gateway, watches: bool, model: &str) -> String {
    let window = Models::builtin().find(model).map(|model| model.window);
    let price = Prices::builtin().find(model);
    let mut text = about(model, window, price);
    if watches {
        text.push_str("With `shadow`, everything is sent as it comes. These are the windows that would be sent.\n");
    }
    let mut explain = |case: &str, policy: &Policy, results: &str| {
        let _ = write!(text, "\n{case}\n");
        let results = (!results.is_empty()).then(|| results.to_owned());
        for rule in rules(policy, window, price).into_iter().chain(results) {
            let _ = writeln!(text, "- {rule}");
        }
    };
    let (reader, other) = (gateway.policy_for(true), gateway.policy_for(false));
    if reader == other {
        let times = other.caps.as_ref().map_or(1, |caps| caps.without_recall);
        let more = format!(" If the model has no tool `recall`, {times} times as much stays.");
        let results = shortened(other.caps.as_ref(), if times == 1 { "" } else { &more });
        explain("In all conversations, because this policy was chosen:", &other, &results);
    } else {
        let results = shortened(reader.caps.as_ref(), "");
        explain("With a tool whose name ends in `recall`, so that the model can read what was cut:", &reader, &results);
        let whole = "New tool results are not shortened, because the model could not read the rest.";
        explain("Without such a tool:", &other, whole);
    }
    text.push_str("\nIn every case:\n");
    if let Some(window) = window {
        let _ = writeln!(
            text,
            "- A request is cut if it would exceed the context window of {} tokens with its answer.",
            number(window)
        );
    }
    text.push_str("- If the upstream refuses a request as too long, a smaller window is sent.\n");
    text.push_str("- If the client asks the provider to shorten the conversation, nothing else is cut.\n");
    text
}

/// Returns the facts about the model on which the limits depend.
fn about(model: &str, window: Option<u64>, price: Option<&Price>) -> String {
    let window = match window {
        Some(window) => format!("{model} has a context window of {} tokens.", number(window)),
        None => format!("The context window of {model} is unknown."),
    };
    let price = match price {
        Some(Price { name, read, write, ttl, .. }) if *read < 1.0 => format!(
            "A cached token costs {read} of a new one, and writing it to the cache {write} (the prices `{name}`).\n\
             The cache keeps it for {} minutes, unless a marker or the reported usage shows another lifetime.",
            ttl / 60
        ),
        Some(Price { name, .. }) => format!("A cached token costs as much as a new one (the prices `{name}`)."),
        None => "Its prices are unknown.".to_owned(),
    };
    format!("{window}\n{price}\n")
}

/// Returns a sentence for each rule of a policy.
fn rules(policy: &Policy, window: Option<u64>, price: Option<&Price>) -> Vec<String> {
    let resolved = policy.for_window(window, 0);
    let Policy { limits, target, cold, payback, .. } = &resolved;
    let target = target.as_ref().unwrap_or(limits);
    let mut rules: Vec<String> =
        Measure::ALL.into_iter().filter_map(|measure| limit(policy, limits, target, measure, price)).collect();
    if let Some(cold) = cold {
        let after = cold.after.map_or_else(String::new, |seconds| format!(", which takes {} seconds", number(seconds)));
        rules.extend(sizes(&cold.limits, &cold.target).map(|(at, to)| {
            format!(
                "If the provider's cache has expired{after}, a conversation is cut at {at}, to {to}, because the provider \
                 reads all of it anew anyway."
            )
        }));
    }
    if let Some(payback) = payback {
        rules.extend(sizes(&payback.limits, target).map(|(at, to)| {
            format!("From {at} on, a conversation is cut to {to} once its calls have cost as much extra as a cut.")
        }));
    }
    if rules.is_empty() {
        return vec!["Nothing is cut.".to_owned()];
    }
    rules.extend(stages(&policy.stages));
    if policy.keep.people > 0 {
        rules.push(format!(
            "People's words stay, in up to {} tokens. If there are more, the longest keep their beginnings, ends and rules.",
            number(policy.keep.people)
        ));
    }
    if let Some(index) = &policy.index {
        rules.push(format!("Names that have left are listed, in up to {} tokens.", number(index.budget)));
    }
    rules
}

/// Explains the limit in one measure.
fn limit(policy: &Policy, limits: &Limits, target: &Limits, measure: Measure, price: Option<&Price>) -> Option<String> {
    let to = |at: u64| number(target.get(measure).unwrap_or(at));
    match (measure, limits.get(measure), policy.limits.tokens) {
        (Measure::Tokens, None, Some(Tokens::Share(share))) => {
            Some(format!("A request is cut at {} % of the context window, as soon as that is known.", percent(share)))
        }
        (Measure::Tokens, Some(at), Some(Tokens::Share(share))) => Some(format!(
            "A request is cut at {} tokens, to {}. That is {} % of the context window.{}",
            number(at),
            to(at),
            percent(share),
            if share < 0.5 { " Clients that compact by themselves begin at half of it or later." } else { "" }
        )),
        (Measure::Tokens, Some(at), _) => Some(format!("A request is cut at {} tokens, to {}.", number(at), to(at))),
        (Measure::Body, Some(at), _) => Some(format!(
            "A conversation is cut at {} tokens, to {}, without its system prompt, tools and task.{}",
            number(at),
            to(at),
            price.and_then(|price| repaid(price, target.get(measure)?, at)).unwrap_or_default()
        )),
        (_, Some(at), _) => Some(format!("At most {} {measure} are sent, and {} after a cut.", number(at), to(at))),
        (_, None, _) => None,
    }
}

/// Returns the sizes of limits and their target, in each measure.
fn sizes(limits: &Limits, target: &Limits) -> impl Iterator<Item = (String, String)> {
    let name = |measure: Measure| match measure {
        Measure::Body => "tokens".to_owned(),
        measure => measure.to_string(),
    };
    Measure::ALL.into_iter().filter_map(move |measure| {
        let at = limits.get(measure)?;
        let to = target.get(measure).unwrap_or(at);
        Some((format!("{} {}", number(at), name(measure)), number(to)))
    })
}

/// Explains what a cut does, in order.
fn stages(stages: &[Stage]) -> Option<String> {
    let steps: Vec<&str> = stages
        .iter()
        .map(|stage| match stage {
            Stage::TruncateResults { .. } => "shortens old tool results",
            Stage::ClearResults { .. } => "clears old tool results",
            Stage::ClearInputs { .. } => "clears old inputs of tools",
            Stage::ClearMedia { .. } => "clears old pictures and files",
            Stage::Summarize(_) => "summarizes the oldest messages",
            Stage::Drop => "drops the oldest messages",
            _ => "makes other messages shorter",
        })
        .collect();
    (!steps.is_empty()).then(|| format!("A cut {}.", steps.join(", then ")))
}

/// Explains the caps on tool results.
fn shortened(caps: Option<&Caps>, more: &str) -> String {
    caps.map_or_else(String::new, |caps| {
        format!(
            "New tool results are shortened to {} tokens if they are files or prose, and to {} otherwise. No provider has \
             cached them yet, so that costs nothing.{more}",
            number(caps.file),
            number(caps.other)
        )
    })
}

/// Returns a share in percent, with one decimal at most.
fn percent(share: f64) -> f64 {
    (share * 1_000.0).round() / 10.0
}

/// Returns the number of calls after which a cut from a size to another has paid for itself: kept tokens are written to
/// the cache again, and dropped ones are read no more.
fn repaid(price: &Price, kept: u64, before: u64) -> Option<String> {
    let dropped = before.checked_sub(kept).filter(|dropped| *dropped > 0)?;
    if price.read >= 1.0 || price.read <= 0.0 {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let calls = (price.write - price.read) * kept as f64 / (price.read * dropped as f64);
    Some(format!(" At these prices, a cut pays off after {} calls.", calls.ceil()))
}
