//! The policy of a gateway, explained for a model: its limits in tokens, and the reasons for them.

use std::fmt::Write as _;

use lookback_content::text::number;
use lookback_engine::policy::{Caps, Limits, Policy, Tokens};
use lookback_models::Models;
use lookback_replay::prices::{Price, Prices};

use crate::gateway::policies::{saving, sparing};

/// Explains how a gateway with this policy cuts the conversations of a model.
pub(crate) fn explain(policy: &Policy, model: &str) -> String {
    let window = Models::builtin().find(model).map(|model| model.window);
    let price = Prices::builtin().find(model);
    let mut text = about(model, window, price);
    let mut explain = |case: &str, policy: &Policy, results: String| {
        let _ = write!(text, "\n{case}\n");
        for rule in rules(policy, window, price).into_iter().chain([results]) {
            let _ = writeln!(text, "- {rule}");
        }
    };
    if *policy == sparing() {
        let saving = saving();
        let shortened = shortened(saving.caps.as_ref(), "");
        explain(
            "With a tool whose name ends in `recall`, so that the model can read what was cut:",
            &saving,
            shortened,
        );
        let whole = "Tool results are not shortened, because the model could not read the rest.";
        explain("Without such a tool:", policy, whole.to_owned());
    } else {
        let times = policy.caps.as_ref().map_or(1, |caps| caps.without_recall);
        let more = format!(" If the model has no tool `recall`, {times} times as much stays.");
        let results = shortened(policy.caps.as_ref(), if times == 1 { "" } else { &more });
        explain("In all conversations, because this policy was chosen:", policy, results);
    }
    text.push_str("\nIn every case:\n");
    text.push_str("- If the client asks the provider to shorten the conversation, Lookback does not cut it.\n");
    text.push_str("- If the upstream refuses a request as too long, a smaller window is sent.\n");
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
    let mut rules = Vec::new();
    let resolved = policy.for_window(window, 0);
    let Policy { limits, target, cold, .. } = &resolved;
    let target_or = target.as_ref().unwrap_or(limits);
    if let Some(body) = limits.body {
        let to = target_or.body.unwrap_or(body);
        rules.push(format!(
            "A conversation is cut at {} tokens, to {}, without its system prompt, tools and task.{}",
            number(body),
            number(to),
            price.map(|price| repaid(price, to, body.saturating_sub(to))).unwrap_or_default()
        ));
    }
    rules.extend(policy.limits.tokens.and_then(|tokens| whole_request(tokens, limits, target.as_ref())));
    if let Some((cold, body)) = cold.as_ref().and_then(|cold| Some((cold, cold.limits.body?))) {
        rules.push(format!(
            "If the provider's cache has expired, it is cut at {} tokens, to {}, because the provider reads all of it anew \
             anyway.",
            number(body),
            number(cold.target.body.unwrap_or(body))
        ));
    }
    let others = [
        ("messages", limits.messages, target_or.messages),
        ("turns", limits.turns, target_or.turns),
        ("pictures and files", limits.media, target_or.media),
        ("bytes", limits.bytes, target_or.bytes),
    ];
    rules.extend(others.into_iter().filter_map(|(measure, limit, target)| {
        let limit = limit?;
        let target = number(target.unwrap_or(limit));
        Some(format!("At most {} {measure} are sent, and {target} after a cut.", number(limit)))
    }));
    if rules.is_empty() {
        rules.push("Nothing is cut.".to_owned());
    }
    rules
}

/// Explains the caps on tool results.
fn shortened(caps: Option<&Caps>, more: &str) -> String {
    caps.map_or_else(
        || "Tool results are not shortened.".to_owned(),
        |caps| {
            format!(
                "New tool results are shortened to {} tokens if they are files or prose, and to {} otherwise. No provider \
                 has cached them yet, so that costs nothing.{more}",
                number(caps.file),
                number(caps.other)
            )
        },
    )
}

/// Explains the limit for the whole request: `resolved` is in tokens, if the context window is known.
fn whole_request(limit: Tokens, resolved: &Limits, target: Option<&Limits>) -> Option<String> {
    let why = match limit {
        Tokens::Share(share) => format!(" That is {} % of the context window.{}", share * 100.0, below_clients(share)),
        _ => String::new(),
    };
    Some(match resolved.tokens? {
        Tokens::Count(tokens) => {
            let to = target.and_then(|target| target.tokens).and_then(count).unwrap_or(tokens);
            format!("A request is cut at {} tokens, to {}.{why}", number(tokens), number(to))
        }
        _ => {
            "The limit is a share of the context window. Until that is known, only a refusal leads to a cut.".to_owned()
        }
    })
}

fn count(tokens: Tokens) -> Option<u64> {
    match tokens {
        Tokens::Count(tokens) => Some(tokens),
        _ => None,
    }
}

/// Says why a limit is not higher.
fn below_clients(share: f64) -> &'static str {
    if share < 0.5 { " Clients that compact by themselves begin at half of it or later." } else { "" }
}

/// Returns the number of calls after which a cut has paid for itself: kept tokens are written to the cache again, and
/// dropped ones are read no more.
fn repaid(price: &Price, kept: u64, dropped: u64) -> String {
    if price.read >= 1.0 || dropped == 0 || price.read <= 0.0 {
        return String::new();
    }
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let calls = (price.write - price.read) * kept as f64 / (price.read * dropped as f64);
    format!(" At these prices, a cut pays off after {} calls.", calls.ceil())
}
