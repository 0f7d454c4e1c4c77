//! The table of a session's facts: at which calls each was known, who said it, and how it ended.

use lookback_engine::transcript::Millis;
use lookback_facts::{Fact, FactEntry, FactKind, Speaker};
use lookback_replay::timeline::Timeline;
use maud::{Markup, html};

use crate::edit;
use crate::known::{Ended, KnownFact, MOST};
use crate::numbers::time;
use crate::story::Story;
use crate::text::visible;

/// Renders a table of the facts as they were at a call. Empty if there are none.
pub(crate) fn table(story: &Story<'_>, call: u64) -> Markup {
    let facts = &story.facts;
    if facts.is_empty() {
        return html! {};
    }
    let known = facts.iter().filter(|known| known.is_known_at(call)).count();
    html! {
        section #facts aria-labelledby="facts-title" {
            h2 #facts-title { "Facts" }
            p.note {
                span #known { (known) " of " (facts.len()) " were known at call " (call) "." }
                " Trust and disputes are shown as they are now."
                @if facts.len() >= MOST { " These are the newest " (MOST) "." }
            }
            table {
                thead { tr {
                    th.words { "fact" } th.words { "kind" } th.words { "what it says" } th.words { "known" } th.words { "who said it" }
                    th.words { "trust" } th { "confidence" } th { "confirmed" } th.words { "last said (UTC)" }
                    @if story.may_edit { th.words { "change" } }
                } }
                tbody { @for known in facts { (row(story, known, call)) } }
            }
        }
    }
}

fn row(story: &Story<'_>, known: &KnownFact, call: u64) -> Markup {
    let Fact { id, statement, confidence, trust, confirmations, disputes, said, .. } = &known.fact;
    let until = known.ended.as_ref().map(|ended| ended.call);
    let here = Some(story.name);
    html! {
        tr #(format!("fact-{id}")) .gone[!known.is_known_at(call)] data-from=(known.from) data-until=[until] {
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
            td.words { (calls(known, story.timeline)) }
            td.words {
                (speaker(&statement.source.by))
                @match (statement.source.session.as_deref(), statement.source.message) {
                    (session, Some(entry)) if session.is_none() || session == here => {
                        ", in " a href=(format!("#e{entry}")) { "entry " (entry) }
                    }
                    (Some(session), _) if Some(session) != here => { ", in " code { (visible(session)) } }
                    _ => {}
                }
            }
            td.words { (trust) }
            td { (format!("{:.2}", confidence.value())) }
            td { (confirmations) }
            td.words { (said.and_then(time).unwrap_or_default()) }
            @if story.may_edit {
                td.words {
                    @if known.ended.is_none() {
                        a href=(edit::address(story.name, "forget", &id.to_string())) { "forget…" }
                        @if statement.kind == FactKind::Blocker {
                            " " a href=(edit::address(story.name, "resolve", &id.to_string())) { "resolve…" }
                        }
                    }
                }
            }
        }
    }
}

/// Describes the calls at which a fact was known.
fn calls(known: &KnownFact, timeline: &Timeline) -> Markup {
    let since = match known.from {
        1 => "from the beginning".to_owned(),
        call if call == timeline.next_call() => "after the last call".to_owned(),
        call => format!("from call {call}"),
    };
    html! {
        (since)
        @if let Some(Ended { call, by }) = &known.ended {
            @if *call < timeline.next_call() { ", until call " (call) } @else { ", until after the last call" }
            @if let Some(by) = by { ": " a href=(format!("#fact-{by}")) { (by) } " replaced it" }
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
