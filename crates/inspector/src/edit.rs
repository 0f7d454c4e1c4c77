//! What may be changed from a page: a fact is forgotten, a blocker resolved, a session deleted. Each is asked for twice: a link
//! leads to a page that says what will happen, and only the button there does it.

use lookback_content::text::number;
use lookback_facts::{Fact, Scope};
use maud::{Markup, html};

use crate::page::page;
use crate::text::{encoded, visible};

/// What somebody wants to change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// A fact is to be forgotten.
    Forget(Fact),
    /// A blocker is to be resolved.
    Resolve(Fact),
    /// A session is to be deleted, whose log has this many entries.
    Delete {
        /// How many entries it has.
        entries: u64,
    },
}

/// The address of the page that asks whether something is to be changed.
pub(crate) fn address(session: &str, change: &str, what: &str) -> String {
    format!("edit?name={}&change={change}&fact={}", encoded(session), encoded(what))
}

impl Change {
    /// Returns the page that asks whether it is to be done. Its form sends the name of the session, the change (`forget`,
    /// `resolve` or `delete`), the fact and why to `edit`. `fault` says what was wrong with the last try.
    pub fn to_html(&self, session: &str, fault: Option<&str>) -> String {
        let title = match self {
            Change::Forget(_) => "Forget a fact?",
            Change::Resolve(_) => "Resolve a blocker?",
            Change::Delete { .. } => "Delete a session?",
        };
        let body = html! {
            header { h1 { (title) } p { "In the session " code { (visible(session)) } "." } }
            main {
                @if let Some(fault) = fault { p.event.bad role="alert" { (visible(fault)) } }
                (self.asked())
                form method="post" action="edit" {
                    input type="hidden" name="name" value=(session);
                    (self.fields())
                    " " a href=(format!("session?name={}", encoded(session))) { "Change nothing" }
                }
            }
        };
        page(title, body, "", true)
    }

    /// What will happen.
    fn asked(&self) -> Markup {
        let said = |fact: &Fact| {
            html! {
                blockquote { (visible(&fact.statement.text)) }
                @if fact.id.scope == Scope::Shared { p { b { "All sessions of the workspace share this fact." } } }
            }
        };
        match self {
            Change::Forget(fact) => html! {
                p { "The " (fact.statement.kind) " " code { (fact.id) } " will not be on the fact sheet any more. Its history stays in the store." }
                (said(fact))
            },
            Change::Resolve(fact) => html! {
                p { "The blocker " code { (fact.id) } " will be ended, and its history says what resolved it." }
                (said(fact))
            },
            Change::Delete { entries } => html! {
                p { b { "All " (number(*entries)) " entries of the session and its facts are erased. This cannot be undone." } }
            },
        }
    }

    fn fields(&self) -> Markup {
        let hidden = |change: &str, fact: Option<&Fact>| {
            html! {
                input type="hidden" name="change" value=(change);
                @if let Some(fact) = fact { input type="hidden" name="fact" value=(fact.id); }
            }
        };
        match self {
            Change::Forget(fact) => html! {
                (hidden("forget", Some(fact)))
                p { label { "why (may be empty) " input type="text" name="why"; } }
                button { "Forget the fact" }
            },
            Change::Resolve(fact) => html! {
                (hidden("resolve", Some(fact)))
                p { label { "what resolved it " input type="text" name="why" required; } }
                button { "Resolve the blocker" }
            },
            Change::Delete { .. } => html! {
                (hidden("delete", None))
                button { "Delete the session" }
            },
        }
    }
}
