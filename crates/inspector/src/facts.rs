//! The facts of a session: what is known beyond its window, at which calls, who said it, and what became of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lookback_engine::transcript::Millis;
use lookback_facts::{Fact, FactEntry, FactEvent, FactId, FactKind, Facts, Scope, Source, Speaker, history};
use lookback_replay::timeline::{Call, Timeline};
use maud::{Markup, html};

use crate::edit;
use crate::numbers::time;
use crate::story::Story;
use crate::text::visible;

/// A fact, and the calls at which it was known.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KnownFact {
    /// The fact, as it stood last.
    pub fact: Fact,
    /// The first call at which it was known. After the last call of the session, the next one.
    pub from: u64,
    /// How it ended, if it did.
    pub ended: Option<Ended>,
    /// All that happened to it, to the facts that it replaced, and to those that replaced it.
    pub events: Vec<FactEvent>,
}

/// How a fact ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// The first call at which it was not known any more.
    pub call: u64,
    /// The fact that replaced it. Without one, it was resolved or forgotten.
    pub by: Option<FactId>,
}

impl KnownFact {
    /// Finds out at which calls facts were known: those of the session and the shared ones, also those that are known no
    /// longer. The current ones come first, and of each sort the newest.
    ///
    /// When a fact was said is compared with when the answers arrived. Without times, the message counts that it comes from.
    pub fn all(session: &str, timeline: &Timeline, events: &[FactEvent]) -> Vec<KnownFact> {
        let (mut shared, mut own) = (Facts::new(Scope::Shared), Facts::new(Scope::Session));
        // The entries of a log are in order, and so are the calls before which they were written.
        let (mut shared_call, mut own_call) = (1, 1);
        let mut known: BTreeMap<FactId, KnownFact> = BTreeMap::new();
        for event in events {
            let (facts, call) = match event.scope {
                Scope::Session => (&mut own, &mut own_call),
                _ => (&mut shared, &mut shared_call),
            };
            facts.apply(&event.entry);
            *call = call_of(session, timeline, &event.entry).max(*call);
            let Some(id) = event.fact() else { continue };
            if let Some(fact) = facts.get(id) {
                let anew = || KnownFact { fact: fact.clone(), from: *call, ended: None, events: Vec::new() };
                known.entry(id).or_insert_with(anew).fact = fact.clone();
            }
            let (ends, by) = match &event.entry {
                FactEntry::Stated(statement) => (statement.supersedes.as_slice(), Some(id)),
                _ => (std::slice::from_ref(&id), None),
            };
            for id in ends {
                let is_over = facts.over(*id).is_some() || (id.scope == event.scope && facts.get(*id).is_none());
                if let Some(known) = known.get_mut(id).filter(|known| is_over && known.ended.is_none()) {
                    known.ended = Some(Ended { call: *call, by });
                }
            }
        }
        for known in known.values_mut() {
            let id = known.fact.id;
            // A dispute begins and ends with what happens to other facts, and so does what a session replaces for itself.
            if let Some(fact) = own.get(id).or_else(|| if own.over(id).is_none() { shared.get(id) } else { None }) {
                (known.fact, known.ended) = (fact.clone(), None);
            }
        }
        let mut known: Vec<KnownFact> = known.into_values().collect();
        known.sort_by_key(|known| (known.ended.is_some(), Reverse(known.from), known.fact.id));
        known.truncate(MOST);
        for known in &mut known {
            known.events = history(events, known.fact.id);
        }
        known
    }

    /// Whether it was known at a call.
    pub fn is_known_at(&self, call: u64) -> bool {
        self.from <= call && self.ended.as_ref().is_none_or(|ended| call < ended.call)
    }
}

/// The most facts that are shown.
const MOST: usize = 200;

/// The first call that was made after something was said.
fn call_of(session: &str, timeline: &Timeline, entry: &FactEntry) -> u64 {
    let has_times = timeline.calls.iter().any(|call| call.time.is_some());
    let is_here = |source: &&Source| source.session.as_deref().is_none_or(|name| name == session);
    let said = if has_times { entry.time() } else { None };
    let is_after = |call: &&Call| match (said, entry.source().filter(is_here)) {
        (Some(said), _) => call.time.is_some_and(|answered| said <= answered),
        (None, Some(Source { message: Some(message), .. })) => call.receipt.position > *message,
        // It was always known.
        (None, _) => true,
    };
    timeline.calls.iter().find(is_after).map_or(timeline.next_call(), |call| call.receipt.number)
}

/// Renders a table of facts as they stood at a call. Nothing if there are none.
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
                " How far they are trusted, and what disputes them, is told as it is now."
                @if facts.len() >= MOST { " These are the newest " (MOST) "." }
            }
            table {
                thead { tr {
                    th.words { "fact" } th.words { "kind" } th.words { "what it says" } th.words { "known" } th.words { "who said it" }
                    th.words { "trust" } th { "certain" } th { "said again" } th.words { "last said (UTC)" }
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

/// Says at which calls a fact was known.
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
