//! The same session under other policies: what it would have cost, and what it would have missed.

use lookback::timeline::Timeline;
use lookback::words::number;
use maud::{Markup, html};

use crate::numbers::{money, percent};
use crate::picture;
use crate::story::Story;
use crate::text::visible;

/// Renders the table and the pictures. Nothing if there are no other policies.
pub(crate) fn of(story: &Story<'_>) -> Markup {
    if story.alternatives.is_empty() {
        return html! {};
    }
    let of_other = story.alternatives.iter().map(|other| (other.policy, other.timeline));
    let all: Vec<(&str, &Timeline)> =
        std::iter::once((story.policy.unwrap_or("this one"), story.timeline)).chain(of_other).collect();
    let highest = all.iter().map(|(_, timeline)| picture::highest(timeline)).max().unwrap_or(1);
    html! {
        section #what-if aria-labelledby="what-if-title" {
            h2 #what-if-title { "What another policy would have done" }
            table {
                thead { tr {
                    th.words { "policy" } th { "sent" } th { "from cache" } th { "cost" } th { "times" } th { "largest" }
                    th { "compactions" } th { "cache breaks" } th { "names missed" }
                } }
                tbody {
                    @for (index, (policy, timeline)) in all.iter().enumerate() {
                        @let total = &timeline.receipt.total;
                        tr.this[index == 0] {
                            td.words { code { (visible(policy)) } @if index == 0 { " (this page)" } }
                            td { (number(total.sent_tokens)) }
                            td { (percent(total.cache_read_tokens, total.sent_tokens)) }
                            td { (money(total.cost)) }
                            td { (times(total.cost, story.timeline.receipt.total.cost)) }
                            td { (number(timeline.calls.iter().map(|call| call.receipt.sent_tokens).max().unwrap_or(0))) }
                            td { (total.compactions) }
                            td { (total.prefix_breaks) }
                            td { (missed(timeline)) }
                        }
                    }
                }
            }
            @for (policy, timeline) in all.iter().skip(1) {
                figure { figcaption { code { (visible(policy)) } } (picture::picture(timeline, highest, None)) }
            }
        }
    }
}

/// How often names were used that had left.
pub(crate) fn missed(timeline: &Timeline) -> usize {
    timeline.calls.iter().map(|call| call.missed.len()).sum()
}

fn times(cost: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.2}", cost / of) } else { "-".to_owned() }
}
