//! The page of a week: what agents used, by day, project and model, and where it went.

use std::collections::{BTreeMap, HashMap};

use lookback_content::text::number;
use lookback_replay::prices::money;
use lookback_replay::week::{Call, Cause, Conversation, Kind, Used, Week};
use maud::{Markup, PreEscaped, html};
use serde_json::json;

use crate::numbers::{percent, short, time};
use crate::page::page;
use crate::text::{beginning, visible};

/// The script that shows the calls of a conversation when somebody opens it.
const SCRIPT: &str = include_str!("week.js");
/// The most lines of a list. The conversations are all there.
const MOST: usize = 50;
/// The size of the chart, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 24.0;
const BELOW: f64 = 26.0;
/// The widest column of a day, with the space beside it.
const WIDEST: f64 = 120.0;
/// The most days in the chart: the newest.
const MOST_DAYS: usize = 120;

/// Returns the page. `since` says in words which time it shows.
pub fn week(week: &Week, since: &str) -> String {
    let total = &week.total;
    let body = html! {
        header {
            h1 { "Your agents " (since) }
            p { (number(week.conversations.len() as u64)) " conversations, from the logs of the agents on this machine. Nothing was sent anywhere." }
            dl.numbers {
                div { dt { "cost" } dd { (cost(total)) } }
                div { dt { "model calls" } dd { (number(total.calls)) } }
                div { dt { "input tokens" } dd { (short(total.sent())) } }
                div { dt { "from the cache" } dd { (percent(total.cache_read, total.sent())) } }
                div { dt { "output tokens" } dd { (short(total.output)) } }
                div { dt { "cache misses" } dd { (number(total.misses)) ", " (money(total.miss_cost)) } }
                div { dt { "a window would save" } dd { "about " (money(total.saved)) } }
            }
            @for line in week_notes(week) { p.note { (line) } }
        }
        main {
            (days(&week.days))
            (sums(week, "Projects", "project", &week.projects, |it, name| it.place.project.as_deref().unwrap_or_default() == name))
            (sums(week, "Models", "model", &week.models, |it, name| it.calls.iter().any(|call| call.model.as_deref().unwrap_or_default() == name)))
            (sums(week, "Agents", "agent", &week.agents, |it, name| it.place.agent.unwrap_or_default() == name))
            (misses(week))
            (results(week))
            (repeats(week))
            (compactions(week))
            (conversations(week))
        }
        script type="application/json" #data { (PreEscaped(data(week))) }
    };
    page("your agents", body, SCRIPT, false)
}

/// Returns a cause in words, as they stand behind "after".
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Pause => "a pause longer than the cache lasts",
        Cause::Compaction => "a compaction",
        Cause::Model => "another model",
        _ => "a changed beginning, or the provider",
    }
}

/// Returns what the figures do not say by themselves.
pub fn week_notes(week: &Week) -> Vec<String> {
    let total = &week.total;
    let mut notes = Vec::new();
    if !week.prices.is_empty() {
        let prices: Vec<String> = week.prices.iter().map(|(name, date)| format!("{name} ({date})")).collect();
        notes.push(format!("Money is by the price lists {}.", prices.join(", ")));
    }
    if total.unpriced_calls > 0 {
        notes.push(format!(
            "{} calls are of models without a price, and cost nothing here.",
            number(total.unpriced_calls)
        ));
    }
    if total.input_only_calls > 0 {
        notes.push(format!(
            "{} calls have no price for output: only their input counts.",
            number(total.input_only_calls)
        ));
    }
    if total.estimated_calls > 0 {
        notes.push(format!("{} calls are estimated, because their logs have no usage.", number(total.estimated_calls)));
    }
    if week.copies > 0 {
        notes.push(format!("{} calls are in several files, and count once.", number(week.copies)));
    }
    notes.push(
        "Tokens are the provider's, from the logs. The saving is that of the default policy on the input, estimated from \
         the sizes of calls."
            .to_owned(),
    );
    notes
}

/// Renders the tokens of each day as stacked bars.
fn days(days: &BTreeMap<String, Used>) -> Markup {
    let known = filled(days);
    if known.is_empty() {
        return html! {};
    }
    #[allow(clippy::cast_precision_loss, reason = "it is drawn")]
    let float = |tokens: u64| tokens as f64;
    let most = known.iter().map(|(_, used)| float(used.sent())).fold(1.0, f64::max);
    #[allow(clippy::cast_precision_loss, reason = "it is drawn")]
    let step = (WIDTH / known.len() as f64).min(WIDEST);
    // Labels need room.
    let every = known.len().div_ceil(8);
    html! {
        section aria-labelledby="days" {
            h2 #days { "By day (UTC)" }
            svg.picture viewBox=(format!("0 0 {WIDTH} {}", HEIGHT + TOP + BELOW)) role="img" aria-label="Input tokens of each day" {
                @for (index, (day, used)) in known.iter().enumerate() {
                    @let left = float(index as u64) * step + step * 0.1;
                    @let scale = HEIGHT / most;
                    @let parts = [("read", used.cache_read), ("written", used.cache_write), ("uncached", used.input)];
                    @for (at, (class, tokens)) in parts.iter().enumerate() {
                        @let below: u64 = parts.iter().take(at).map(|(_, tokens)| tokens).sum();
                        @let height = float(*tokens) * scale;
                        rect class=(class) x=(format!("{left:.1}")) width=(format!("{:.1}", step * 0.8))
                            y=(format!("{:.1}", TOP + HEIGHT - float(below) * scale - height)) height=(format!("{height:.1}")) {}
                    }
                    @if index % every == 0 {
                        @let middle = format!("{:.1}", left + step * 0.4);
                        text x=(middle) y=(format!("{:.1}", TOP + HEIGHT + 18.0)) text-anchor="middle" { (day.get(5..).unwrap_or(day)) }
                        @if used.cost > 0.0 {
                            text x=(middle) y=(format!("{:.1}", TOP + HEIGHT - float(used.sent()) * scale - 5.0)) text-anchor="middle" { "$" (format!("{:.2}", used.cost)) }
                        }
                    }
                }
            }
            ul.legend.parts {
                @for (class, name) in [("read", "from the cache"), ("written", "written to it"), ("uncached", "neither")] {
                    li { svg.swatch viewBox="0 0 1 1" aria-hidden="true" { rect class=(class) width="1" height="1" {} } " " (name) }
                }
            }
        }
    }
}

/// Returns the days with calls and those between them.
fn filled(days: &BTreeMap<String, Used>) -> Vec<(String, Used)> {
    let known = || days.keys().filter_map(|day| day.parse::<jiff::civil::Date>().ok());
    let (Some(first), Some(last)) = (known().min(), known().max()) else { return Vec::new() };
    let all = first.series(jiff::ToSpan::day(1)).take_while(|day| *day <= last);
    let used = |day: jiff::civil::Date| {
        let day = day.to_string();
        let used = days.get(&day).copied().unwrap_or_default();
        (day, used)
    };
    let mut all: Vec<_> = all.take(MOST_DAYS * 100).map(used).collect();
    all.split_off(all.len().saturating_sub(MOST_DAYS))
}

fn sums(
    week: &Week,
    title: &str,
    kind: &str,
    sums: &BTreeMap<String, Used>,
    has: impl Fn(&Conversation, &str) -> bool,
) -> Markup {
    let total = &week.total;
    let mut sorted: Vec<(&String, &Used)> = sums.iter().collect();
    sorted.sort_by(|(_, one), (_, other)| one.highest_first(other));
    let id = title.to_lowercase();
    html! {
        section aria-labelledby=(id) tabindex="0" {
            h2 id=(id) { (title) }
            table {
                thead { tr {
                    th.words { (kind) } th { "calls" } th { "input" } th { "from the cache" } th { "output" } th { "misses" }
                    th { "cost" } th { "window saves" } th.words { "share" }
                } }
                tbody {
                    @for (name, used) in sorted.iter().take(MOST) {
                        tr {
                            td.words {
                                details {
                                    summary { (visible(if name.is_empty() { "unknown" } else { name })) @if used.estimated_calls > 0 { " " span.note { "estimated" } } }
                                    (links(week, |conversation| has(conversation, name)))
                                }
                            }
                            td { (number(used.calls)) }
                            td { (short(used.sent())) }
                            td { (percent(used.cache_read, used.sent())) }
                            td { (short(used.output)) }
                            td { (number(used.misses)) }
                            td { (cost(used)) }
                            td { @if used.saved.abs() >= 0.005 { (money(used.saved)) } }
                            td.words { (bar(used, total)) }
                        }
                    }
                }
            }
            @if sorted.len() > MOST { p.note { "And " (sorted.len() - MOST) " more." } }
        }
    }
}

/// Renders links to the conversations that have something, those first that cost most.
fn links(week: &Week, has: impl Fn(&Conversation) -> bool) -> Markup {
    let mut found: Vec<_> =
        week.conversations.iter().enumerate().filter(|(_, conversation)| has(conversation)).collect();
    found.sort_by(|(_, one), (_, other)| one.used.highest_first(&other.used));
    html! {
        ul {
            @for (index, conversation) in found.iter().take(MOST) {
                li { (link(week, *index, None)) " " span.note { (number(conversation.used.calls)) " calls, " (cost(&conversation.used)) } }
            }
        }
        @if found.len() > MOST { p.note { "And " (found.len() - MOST) " more." } }
    }
}

/// Returns the cost, or nothing if no model had a price.
fn cost(used: &Used) -> String {
    let sign = if used.is_complete() { "" } else { "≥ " };
    if used.unpriced_calls == used.calls { "no price".to_owned() } else { format!("{sign}{}", money(used.cost)) }
}

/// Renders a share of the cost, or of the tokens if nothing has a price.
fn bar(used: &Used, total: &Used) -> Markup {
    #[allow(clippy::cast_precision_loss, reason = "it is drawn")]
    let share = if total.cost > 0.0 { used.cost / total.cost } else { used.sent() as f64 / total.sent().max(1) as f64 };
    html! {
        svg.bar viewBox="0 0 200 10" aria-hidden="true" { rect.read width=(format!("{:.1}", share * 200.0)) height="10" {} }
    }
}

fn misses(week: &Week) -> Markup {
    html! {
        section aria-labelledby="misses" tabindex="0" {
            h2 #misses { "Misses of the cache" }
            @if week.misses.is_empty() { p.note { "None." } } @else {
                p { "A call misses the cache if it reads less than half of what the call before it left there." }
                table {
                    thead { tr { th.words { "after" } th { "calls" } th { "tokens" } th { "cost" } } }
                    tbody { @for (cause, missed) in &week.misses { tr {
                        td.words {
                            details {
                                summary { (self::cause(*cause)) }
                                (missing(week, *cause))
                            }
                        }
                        td { (number(missed.calls)) } td { (short(missed.tokens)) } td { (money(missed.cost)) }
                    } } }
                }
            }
        }
    }
}

/// Renders links to the calls that missed the cache for a cause, those first that missed most.
fn missing(week: &Week, cause: Cause) -> Markup {
    let tokens = |call: &Call| call.miss.filter(|miss| miss.cause == cause).map_or(0, |miss| miss.tokens);
    let found = all(week, |conversation| &conversation.calls, tokens);
    let found: Vec<_> = found.into_iter().filter(|(_, call)| tokens(call) > 0).collect();
    html! {
        ul {
            @for (index, call) in found {
                li { (link(week, index, Some(call.message))) " " span.note { (short(tokens(call))) " tokens" } }
            }
        }
    }
}

/// Returns the values of all conversations with the numbers of these, sorted.
fn all<T>(week: &Week, of: impl Fn(&Conversation) -> &[T], key: impl Fn(&T) -> u64) -> Vec<(usize, &T)> {
    let of = &of;
    let found = week.conversations.iter().enumerate();
    let mut all: Vec<(usize, &T)> =
        found.flat_map(|(index, conversation)| of(conversation).iter().map(move |value| (index, value))).collect();
    all.sort_by_key(|(_, value)| std::cmp::Reverse(key(value)));
    all.truncate(MOST);
    all
}

/// Renders a link to a conversation, and to the call behind one of its messages.
fn link(week: &Week, index: usize, message: Option<usize>) -> Markup {
    let place_in = message.map(|message| format!("/{message}")).unwrap_or_default();
    let place = week.conversations.get(index).map(|conversation| &conversation.place);
    let words = place.map(|place| beginning(&place.first_words, 40)).filter(|words| !words.is_empty());
    html! { a href=(format!("#c{index}{place_in}")) { (visible(words.as_deref().unwrap_or("conversation"))) } }
}

fn results(week: &Week) -> Markup {
    let found = all(week, |conversation| &conversation.results, |result| result.tokens * result.calls.max(1));
    html! {
        section aria-labelledby="results" tabindex="0" {
            h2 #results { "Large results" }
            @if found.is_empty() { p.note { "No result has 4,000 tokens." } } @else {
                p { "Results of 4,000 tokens or more, those first that were sent most often." }
                table {
                    thead { tr { th.words { "tool" } th.words { "about" } th { "tokens" } th { "sent by calls" } th.words { "conversation" } } }
                    tbody { @for (index, result) in found { tr {
                        td.words { (visible(&result.tool)) }
                        td.words { code { (visible(&beginning(&result.about, 80))) } }
                        td { (number(result.tokens)) } td { (number(result.calls)) } td.words { (link(week, index, Some(result.message))) }
                    } } }
                }
            }
        }
    }
}

fn repeats(week: &Week) -> Markup {
    let found = all(week, |conversation| &conversation.repeats, |repeat| repeat.tokens);
    html! {
        section aria-labelledby="repeats" tabindex="0" {
            h2 #repeats { "Read again and again" }
            @if found.is_empty() { p.note { "No file and no command was asked for three times in one conversation." } } @else {
                table {
                    thead { tr { th.words { "tool" } th.words { "about" } th { "times" } th { "tokens again, about" } th.words { "conversation" } } }
                    tbody { @for (index, repeat) in found { tr {
                        td.words { (visible(&repeat.tool)) }
                        td.words { code { (visible(&beginning(&repeat.about, 80))) } }
                        td { (number(repeat.times)) } td { (number(repeat.tokens)) } td.words { (link(week, index, Some(repeat.message))) }
                    } } }
                }
            }
        }
    }
}

fn compactions(week: &Week) -> Markup {
    let found = all(week, |conversation| &conversation.compactions, |compaction| compaction.dropped as u64);
    html! {
        section aria-labelledby="compactions" tabindex="0" {
            h2 #compactions { "Compactions by the agents" }
            @if found.is_empty() { p.note { "None." } } @else {
                p { "Rules are sentences of yours with words such as " i { "never" } ". Names count if the model used them again." }
                table {
                    thead { tr { th.words { "conversation" } th { "messages dropped" } th { "rules lost" } th { "names lost" } th.words { "of these" } } }
                    tbody { @for (index, compaction) in found { tr {
                        td.words { (link(week, index, Some(compaction.message))) }
                        td { (number(compaction.dropped as u64)) }
                        td { (compaction.rules.len()) " of " (compaction.all_rules) }
                        td { (compaction.names.len()) }
                        td.words {
                            @if !compaction.rules.is_empty() || !compaction.names.is_empty() {
                                details {
                                    summary { "show" }
                                    ul { @for rule in &compaction.rules { li { (visible(rule)) } } }
                                    p { code { (visible(&beginning(&compaction.names.join(", "), 1_000))) } }
                                }
                            }
                        }
                    } } }
                }
            }
        }
    }
}

fn conversations(week: &Week) -> Markup {
    html! {
        section aria-labelledby="conversations" {
            h2 #conversations { "Conversations" }
            p.note { "Open one for its calls." }
            @for (index, conversation) in week.conversations.iter().enumerate() {
                @let (place, used) = (&conversation.place, &conversation.used);
                details.conversation id=(format!("c{index}")) data-index=(index) {
                    summary {
                        span.when { (place.newest.and_then(time).unwrap_or_default().get(..16).unwrap_or_default()) }
                        span { (place.agent.unwrap_or("–")) }
                        span.says { (visible(&beginning(&place.first_words, 90))) }
                        span.tokens { (number(used.calls)) " calls" }
                        span.tokens { (short(used.sent())) }
                        span.tokens { (cost(used)) }
                    }
                    p.note {
                        (visible(place.project.as_deref().unwrap_or("no folder"))) " · " code { (visible(&place.file)) } " · " (visible(&place.id))
                        @if used.estimated_calls > 0 { " · estimated" }
                    }
                }
            }
        }
    }
}

/// Writes the calls of all conversations for the script, with each model once.
fn data(week: &Week) -> String {
    let mut models: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    let mut all = Vec::new();
    for conversation in &week.conversations {
        let mut calls = Vec::new();
        for call in &conversation.calls {
            let name = call.model.as_deref().unwrap_or_default();
            let model = *models.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            });
            let rounded = |cost: f64| (cost * 1e6).round() / 1e6;
            let miss = call.miss.map(|miss| (cause(miss.cause), miss.cost.map(rounded)));
            calls.push(json!([
                call.message,
                call.time,
                model,
                call.input,
                call.cache_read,
                call.cache_write,
                call.output,
                call.cost.map(rounded),
                rounded(call.saved),
                miss,
                kind(call.kind),
            ]));
        }
        all.push(calls);
    }
    // A `<` could end the element.
    json!({"models": names, "calls": all}).to_string().replace('<', "\\u003c")
}

/// Returns how the tokens of a call are known, if the provider has not reported them with an answer.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Reported => "",
        Kind::Aside => "aside",
        Kind::Estimated => "estimated",
    }
}
