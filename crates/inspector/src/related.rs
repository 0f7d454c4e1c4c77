//! The links from a session's page to other sessions that may be the same conversation.

use std::cmp::Reverse;

use lookback_content::text::number;
use maud::{Markup, html};

use crate::story::Story;
use crate::text::{encoded, visible};

/// The most links that are shown before the reader asks for them.
const FEW: usize = 3;

/// Renders the links, those with the most common messages first. Nothing without other sessions.
pub(crate) fn links(story: &Story<'_>) -> Markup {
    let mut sessions: Vec<&(String, u64)> = story.related.iter().collect();
    sessions.sort_by_key(|(_, messages)| Reverse(*messages));
    html! {
        @if !sessions.is_empty() {
            details #related open[sessions.len() <= FEW] {
                summary { "Related sessions: " (sessions.len()) }
                ul {
                    @for (name, messages) in sessions {
                        li {
                            a href=(format!("session?name={}", encoded(name))) { (visible(name)) }
                            @if *messages > 0 { " begins with the same " (number(*messages)) " messages" }
                            @else { " has the same name from the client" }
                        }
                    }
                }
            }
        }
    }
}
