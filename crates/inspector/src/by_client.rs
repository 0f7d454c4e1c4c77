//! The client's own compactions: where they are, and what the model no longer saw behind them.

use lookback_content::identifiers::Kind;
use lookback_content::text::number;
use lookback_replay::lost::{ClientCompaction, Lost, LostDecision, LostName};
use lookback_replay::timeline::Timeline;
use maud::{Markup, html};

use crate::story::Contents;
use crate::text::visible;

/// The most sentences and names that are listed of each kind.
const MOST: usize = 12;

/// Describes the compactions of the client before a call.
pub(crate) fn told(all: &[ClientCompaction], timeline: &Timeline, call: u64, contents: Contents) -> Markup {
    html! {
        @for ClientCompaction { lost, .. } in all.iter().filter(|by_client| by_client.call == call) {
            div.event {
                p {
                    "Before it, the client replaced " (number(lost.messages as u64)) " messages by what begins with "
                    (link(timeline, lost.summary)) "."
                }
                @if contents == Contents::Shown { (list(lost, timeline)) } @else { p { (counts(lost)) } }
            }
        }
    }
}

/// Lists what a compaction dropped, with links to the messages.
fn list(lost: &Lost, timeline: &Timeline) -> Markup {
    let kinds = [("Files", Kind::File), ("Numbers", Kind::Number), ("Other names", Kind::Name)];
    html! {
        @if !lost.rules.is_empty() {
            p { "Rules of the person that the model no longer saw:" }
            ul {
                @for rule in lost.rules.iter().take(MOST) {
                    li { q { (visible(&rule.text)) } " (" (link(timeline, rule.message)) ")" }
                }
                @if lost.rules.len() > MOST { li { (more(lost.rules.len())) } }
            }
        }
        @if !lost.decisions.is_empty() {
            p { "Decisions of the person that it no longer saw:" }
            ul {
                @for LostDecision { question, answer, message } in lost.decisions.iter().take(MOST) {
                    li { q { (visible(question)) } " – " q { (visible(answer)) } " (" (link(timeline, *message)) ")" }
                }
                @if lost.decisions.len() > MOST { li { (more(lost.decisions.len())) } }
            }
        }
        @for (title, kind) in kinds {
            @let all = names(lost, kind);
            @if !all.is_empty() {
                p {
                    (title) " that it no longer saw: "
                    @for (index, name) in all.iter().take(MOST).enumerate() {
                        @if index > 0 { ", " }
                        code { (visible(&name.name)) } " (" (link(timeline, name.message))
                        @if name.is_needed { ", " b { "used later" } }
                        ")"
                    }
                    @if all.len() > MOST { ", " (more(all.len())) }
                    "."
                }
            }
        }
    }
}

/// Returns the names of a kind: first those that the model used later, and of these the most mentioned.
fn names(lost: &Lost, kind: Kind) -> Vec<&LostName> {
    let mut names: Vec<&LostName> = lost.names.iter().filter(|name| name.kind == kind).collect();
    names.sort_by_key(|name| !name.is_needed);
    names
}

fn more(all: usize) -> String {
    format!("and {} more", number((all - MOST) as u64))
}

/// Returns in a sentence how much the model no longer saw.
fn counts(lost: &Lost) -> String {
    format!(
        "The model no longer saw {} of {} rules of the person, {} decisions, and {} names and numbers.",
        number(lost.rules.len() as u64),
        number(lost.all_rules as u64),
        number(lost.decisions.len() as u64),
        number(lost.names.len() as u64),
    )
}

fn link(timeline: &Timeline, row: usize) -> Markup {
    html! {
        @if let Some(of) = timeline.rows.get(row) { a href=(format!("#r{row}")) { "message " (of.position) } }
    }
}
