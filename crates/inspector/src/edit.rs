//! Pages for changes: forget a fact, resolve a blocker, delete a session. A link leads to a page that explains the
//! change, and only the button on that page makes it.

use lookback_content::text::number;
use lookback_facts::{Fact, Scope};
use maud::{Markup, html};

use crate::page::page;
use crate::text::{encoded, visible};

/// A change to be confirmed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// Forget a fact.
    Forget(Fact),
    /// Resolve a blocker.
    Resolve(Fact),
    /// Delete a session.
    Delete {
        /// The number of entries of its log.
        entries: u64,
    },
}

/// Returns the address of the page that asks for confirmation.
pub(crate) fn address(session: &str, change: &str, what: &str) -> String {
    format!("edit?name={}&change={change}&fact={}", encoded(session), encoded(what))
}

impl Change {
    /// Returns the page that asks for confirmation. Its form sends the name of the session, the change (`forget`,
    /// `resolve` or `delete`), the fact and the reason to `edit`. `fault` is the error of the last try.
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

    /// Describes what the change will do.
    fn asked(&self) -> Markup {
        let said = |fact: &Fact| {
            html! {
                blockquote { (visible(&fact.statement.text)) }
                @if fact.id.scope == Scope::Shared { p { b { "All sessions of the workspace share this fact." } } }
            }
        };
        match self {
            Change::Forget(fact) => html! {
                p { "The " (fact.statement.kind) " " code { (fact.id) } " will no longer be on the fact sheet. Its history stays in the store." }
                (said(fact))
            },
            Change::Resolve(fact) => html! {
                p { "The blocker " code { (fact.id) } " will be marked as resolved. Its history will record what resolved it." }
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
