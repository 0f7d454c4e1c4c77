//! The comparison of a session with its alternatives under other policies: cost and missed names.

use lookback_content::text::number;
use lookback_replay::prices::money;
use lookback_replay::timeline::Timeline;
use maud::{Markup, html};

use crate::numbers::percent;
use crate::picture;
use crate::story::{Story, Trial};
use crate::text::visible;

/// Renders the form for trying out a policy, the table and the pictures. Empty without alternatives and without a form.
pub(crate) fn render(story: &Story<'_>) -> Markup {
    if story.alternatives.is_empty() && story.trial.is_none() {
        return html! {};
    }
    let of_other = story.alternatives.iter().map(|other| (other.policy, other.timeline));
    let this = story.policy.unwrap_or("this one");
    let all: Vec<(&str, &Timeline)> = std::iter::once((this, story.timeline)).chain(of_other).collect();
    let highest = all.iter().map(|(_, timeline)| picture::highest(timeline)).max().unwrap_or(1);
    html! {
        section #what-if aria-labelledby="what-if-title" {
            h2 #what-if-title { "What another policy would have done" }
            @if let Some(trial) = &story.trial { (form(story.name, trial)) }
            table {
                thead { tr {
                    th.words { "policy" } th { "sent" } th { "from cache" } th { "cost" } th { "times" } th { "largest" }
                    th { "compactions" } th { "cache breaks" } th { "names missed" }
                } }
                tbody {
                    @for (index, (policy, timeline)) in all.iter().enumerate() {
                        @let total = &timeline.total;
                        tr.this[index == 0] {
                            td.words { code { (visible(policy)) } @if index == 0 { " (this page)" } }
                            td { (number(total.sent_tokens)) }
                            td { (percent(total.cache_read_tokens, total.sent_tokens)) }
                            td { (money(total.cost)) }
                            td { (times(total.cost, story.timeline.total.cost)) }
                            td { (number(timeline.calls.iter().map(|call| call.receipt.sent_tokens).max().unwrap_or(0))) }
                            td { (total.compactions) }
                            td { (total.prefix_breaks) }
                            td { (missed(timeline)) }
                        }
                    }
                }
            }
            @if all.len() > 1 {
                div.pictures {
                    @for (policy, timeline) in &all {
                        figure { figcaption { code { (visible(policy)) } } (picture::picture(timeline, &[], highest, None)) }
                    }
                }
            }
        }
    }
}

/// Renders the form for trying out a policy, with the result of the last try.
fn form(name: &str, trial: &Trial) -> Markup {
    html! {
        form method="get" action="session#what-if" {
            input type="hidden" name="name" value=(name);
            p { label for="policy" {
                "A policy: a preset with settings such as " code { "turns:max_turns=8" } ", or the text of a TOML or JSON file."
            } }
            p { textarea #policy name="policy" rows="4" cols="72" spellcheck="false" { (trial.text) } }
            p { button { "Replay the session under this policy" } }
        }
        @if let Some(fault) = &trial.fault { p.event.bad role="alert" { (visible(fault)) } }
        @if let Some(toml) = &trial.toml {
            details {
                summary { "The policy as TOML" }
                button #copy-toml.script type="button" hidden { "Copy the policy" }
                " " span #copied role="status" {}
                pre #toml { (visible(toml)) }
            }
        }
    }
}

/// Returns how often the model used names that had left the window.
pub(crate) fn missed(timeline: &Timeline) -> usize {
    timeline.calls.iter().map(|call| call.missed.len()).sum()
}

fn times(cost: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.2}", cost / of) } else { "-".to_owned() }
}
