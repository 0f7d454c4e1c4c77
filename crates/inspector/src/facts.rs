//! The facts of a session: what is known beyond its window, who said it, and what became of it.

use lookback::memory::{Fact, FactEntry, FactEvent, Speaker};
use lookback::transcript::Millis;
use maud::{Markup, html};

use crate::numbers::time;
use crate::text::visible;

/// A fact with all that happened to it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KnownFact {
    /// The fact.
    pub fact: Fact,
    /// Its versions, and those that it replaced.
    pub events: Vec<FactEvent>,
}

impl KnownFact {
    /// Creates a fact with its history.
    pub fn new(fact: Fact, events: Vec<FactEvent>) -> KnownFact {
        KnownFact { fact, events }
    }
}

/// Renders a table of facts. Nothing if there are none.
pub(crate) fn table(facts: &[KnownFact]) -> Markup {
    if facts.is_empty() {
        return html! {};
    }
    html! {
        section #facts aria-labelledby="facts-title" {
            h2 #facts-title { "Facts" }
            table {
                thead { tr {
                    th.words { "fact" } th.words { "kind" } th.words { "what it says" } th.words { "who said it" } th.words { "trust" }
                    th { "certain" } th { "said again" } th.words { "last said (UTC)" }
                } }
                tbody { @for known in facts { (row(known)) } }
            }
        }
    }
}

fn row(known: &KnownFact) -> Markup {
    let Fact { id, statement, confidence, trust, confirmations, disputes, said, .. } = &known.fact;
    html! {
        tr #(format!("fact-{id}")) {
            td.words { code { (id) } }
            td.words { (statement.kind) }
            td.words {
                (visible(&statement.text))
                @if let Some(about) = &statement.about { " (about " (visible(about)) ")" }
                @if let Some(other) = disputes { p.event.bad { "Disputed: " a href=(format!("#fact-{other}")) { (other) } " says something else." } }
                @if known.events.len() > 1 {
                    details { summary { (known.events.len()) " versions and confirmations" }
                        ol { @for event in &known.events { li { (said_in(&event.entry)) } } }
                    }
                }
            }
            td.words {
                (speaker(&statement.source.by))
                @if let Some(entry) = statement.source.message { ", in " a href=(format!("#e{entry}")) { "entry " (entry) } }
            }
            td.words { (trust) }
            td { (format!("{:.2}", confidence.value())) }
            td { (confirmations) }
            td.words { (said.and_then(time).unwrap_or_default()) }
        }
    }
}

fn said_in(entry: &FactEntry) -> Markup {
    let at = |time: Option<Millis>| {
        time.and_then(crate::numbers::time).map(|time| format!(" at {time}")).unwrap_or_default()
    };
    match entry {
        FactEntry::Stated(statement) => html! {
            (speaker(&statement.source.by)) " said" (at(statement.time)) ": " (visible(&statement.text))
        },
        FactEntry::Confirmed { source, time, .. } => html! { (speaker(&source.by)) " said it again" (at(*time)) },
        FactEntry::Resolved { with, source, time, .. } => html! {
            (speaker(&source.by)) " resolved it" (at(*time)) ": " (visible(with))
        },
        FactEntry::Forgotten { why, source, time, .. } => html! {
            (speaker(&source.by)) " forgot it" (at(*time)) @if let Some(why) = why { ": " (visible(why)) }
        },
        _ => html! { "something that this version cannot show" },
    }
}

fn speaker(speaker: &Speaker) -> String {
    match speaker {
        Speaker::Person => "a person".to_owned(),
        Speaker::Model => "the model".to_owned(),
        Speaker::Tool(name) => format!("the tool {}", visible(name)),
        _ => "somebody".to_owned(),
    }
}
