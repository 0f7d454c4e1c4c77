//! The overview of a store: its sessions with their figures, search results, and the cost of each day.

use lookback_content::text::number;
use lookback_engine::transcript::Millis;
use lookback_facts::Fact;
use lookback_replay::prices::money;
use maud::{Markup, html};

use crate::figures::{Day, Figures};
use crate::numbers::{percent, short, time};
use crate::page::page;
use crate::paid::paid;
use crate::text::{encoded, visible};

/// The sessions of a store, and how to list them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Overview {
    /// The location of the store.
    pub place: String,
    /// The listed sessions, in order.
    pub sessions: Vec<Listed>,
    /// The sum of all figures that have been read so far.
    pub total: Figures,
    /// The number of all sessions.
    pub count: usize,
    /// Whether `total` covers all sessions in their current state.
    pub is_all: bool,
    /// The text that names of listed sessions contain.
    pub filter: String,
    /// The sort order of the list.
    pub sort: Sort,
    /// The search results, if a search was requested.
    pub found: Option<Found>,
}

/// A session in the list.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The size of its log in bytes.
    pub bytes: u64,
    /// The time of its last use, if known.
    pub used: Option<Millis>,
    /// Its figures, if they have been read.
    pub figures: Option<Figures>,
    /// The reason that its log cannot be read, if there is one.
    pub fault: Option<&'static str>,
}

/// The messages and facts that a search found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Found {
    /// The words.
    pub words: String,
    /// The session, the entry and an excerpt of each message, the best match first.
    pub hits: Vec<(String, u64, String)>,
    /// The matching facts, each with a session that knows it.
    pub facts: Vec<(String, Fact)>,
    /// Whether the facts of all sessions were searched, or time ran out.
    pub is_all: bool,
}

impl Listed {
    /// Creates a line of the list.
    pub fn new(name: impl Into<String>, bytes: u64) -> Listed {
        Listed { name: name.into(), bytes, ..Listed::default() }
    }

    /// Sets the time of its last use.
    #[must_use]
    pub fn used(self, used: Option<Millis>) -> Listed {
        Listed { used, ..self }
    }

    /// Marks its log as unreadable, with a reason.
    #[must_use]
    pub fn fault(self, why: &'static str) -> Listed {
        Listed { fault: Some(why), ..self }
    }

    /// Sets its figures.
    #[must_use]
    pub fn figures(self, figures: Option<Figures>) -> Listed {
        Listed { figures, ..self }
    }
}

/// The sort order of a list of sessions: by name ascending, or by a figure descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sort {
    /// By the time of last use.
    #[default]
    Used,
    /// By their names.
    Name,
    /// By their calls.
    Calls,
    /// By the size of their logs.
    Size,
    /// By the tokens that they sent.
    Sent,
    /// By their cost.
    Cost,
    /// By their compactions.
    Compactions,
    /// By the calls that do not extend the previous call.
    Breaks,
    /// By their repairs.
    Repairs,
    /// By the missed names.
    Missed,
}

impl Sort {
    const ALL: [Sort; 10] = [
        Sort::Name,
        Sort::Used,
        Sort::Size,
        Sort::Calls,
        Sort::Sent,
        Sort::Cost,
        Sort::Compactions,
        Sort::Breaks,
        Sort::Repairs,
        Sort::Missed,
    ];

    /// Returns its name in an address.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Used => "used",
            Sort::Name => "name",
            Sort::Calls => "calls",
            Sort::Size => "size",
            Sort::Sent => "sent",
            Sort::Cost => "cost",
            Sort::Compactions => "compactions",
            Sort::Breaks => "breaks",
            Sort::Repairs => "repairs",
            Sort::Missed => "missed",
        }
    }

    /// Returns the order with this name, or the default.
    pub fn named(name: &str) -> Sort {
        Sort::ALL.into_iter().find(|sort| sort.name() == name).unwrap_or_default()
    }

    fn title(self) -> &'static str {
        match self {
            Sort::Used => "last used (UTC)",
            Sort::Name => "session",
            Sort::Breaks => "cache breaks",
            Sort::Missed => "names missed",
            _ => self.name(),
        }
    }

    /// Sorts sessions.
    pub fn sort(self, sessions: &mut [Listed]) {
        let figure = |session: &Listed, of: fn(&Figures) -> u64| session.figures.as_ref().map_or(0, of);
        sessions.sort_by(|a, b| {
            let by = |of: fn(&Figures) -> u64| figure(b, of).cmp(&figure(a, of));
            let cost = |session: &Listed| session.figures.as_ref().map_or(0.0, |figures| figures.cost);
            let first = match self {
                Sort::Used => b.used.cmp(&a.used),
                Sort::Name => std::cmp::Ordering::Equal,
                Sort::Size => b.bytes.cmp(&a.bytes),
                Sort::Calls => by(|figures| figures.calls),
                Sort::Sent => by(|figures| figures.sent_tokens),
                Sort::Cost => cost(b).total_cmp(&cost(a)),
                Sort::Compactions => by(|figures| figures.compactions),
                Sort::Breaks => by(|figures| figures.prefix_breaks),
                Sort::Repairs => by(|figures| figures.repairs),
                Sort::Missed => by(|figures| figures.missed),
            };
            first.then_with(|| a.name.cmp(&b.name))
        });
    }
}

/// The most days in the table of days.
const MOST_DAYS: usize = 60;

impl Overview {
    /// Creates the overview of the sessions of a store.
    pub fn new(place: impl Into<String>, sessions: Vec<Listed>) -> Overview {
        let mut total = Figures::default();
        let figures = sessions.iter().filter_map(|session| session.figures.as_ref());
        figures.for_each(|figures| total.add(figures));
        Overview { place: place.into(), count: sessions.len(), sessions, total, is_all: true, ..Overview::default() }
    }

    /// Returns the page. It links to the pages of sessions at `session?name=NAME`.
    pub fn to_html(&self) -> String {
        let total = &self.total;
        page(
            "sessions",
            html! {
                header {
                    h1 { "Sessions" }
                    p { (number(self.count as u64)) " in " code { (visible(&self.place)) } "." }
                    @if let Some(paid) = paid(&total.paid) { p { (paid) } }
                    @if !self.is_all {
                        p.note { "Figures are still being read. Load the page again for all of them." }
                    }
                    dl.numbers {
                        div { dt { "model calls" } dd { (number(total.calls)) } }
                        div { dt { "cost of the input" } dd { (money(total.cost)) } }
                        div { dt { "without a window" } dd { (money(total.cost_without_window)) } }
                        div { dt { "tokens sent" } dd { (number(total.sent_tokens)) } }
                        div { dt { "from the cache" } dd { (percent(total.cache_read_tokens, total.sent_tokens)) } }
                        div { dt { "compactions" } dd { (number(total.compactions)) } }
                        div { dt { "cache breaks" } dd { (number(total.prefix_breaks)) } }
                        div { dt { "repairs" } dd { (number(total.repairs)) } }
                        div { dt { "names missed" } dd { (number(total.missed)) } }
                    }
                }
                main {
                    (self.trend())
                    section aria-labelledby="search-title" {
                        h2 #search-title { "Search" }
                        form method="get" action="." role="search" {
                            input type="hidden" name="sort" value=(self.sort.name());
                            input type="hidden" name="filter" value=(self.filter);
                            label { "words in messages and facts " input type="search" name="words" value=(self.found.as_ref().map_or("", |found| &found.words)); }
                            " " button { "Search" }
                        }
                        @if let Some(found) = &self.found { (found.to_markup()) }
                    }
                    section aria-labelledby="sessions-title" {
                        h2 #sessions-title { "All sessions" }
                        form method="get" action="." {
                            input type="hidden" name="sort" value=(self.sort.name());
                            @if let Some(found) = &self.found { input type="hidden" name="words" value=(found.words); }
                            label { "name has " input type="search" name="filter" value=(self.filter); }
                            " " button { "Filter" }
                        }
                        (self.table())
                    }
                }
            },
            "",
            true,
        )
    }

    fn table(&self) -> Markup {
        let words = self.found.as_ref().map_or("", |found| &found.words);
        html! {
            table.sessions {
                thead { tr {
                    @for sort in Sort::ALL {
                        th.words[sort == Sort::Name] aria-sort=[(sort == self.sort).then_some(if sort == Sort::Name { "ascending" } else { "descending" })] {
                            a href=(format!("?sort={}&filter={}&words={}", sort.name(), encoded(&self.filter), encoded(words))) { (sort.title()) }
                        }
                    }
                    th { "from cache" } th { "without a window" }
                } }
                tbody {
                    @for session in &self.sessions {
                        tr {
                            td.words { a href=(format!("session?name={}", encoded(&session.name))) { (visible(&session.name)) } }
                            td { (session.used.and_then(time).unwrap_or_default()) }
                            td { @if session.bytes > 0 { (short(session.bytes)) "B" } }
                            @if let Some(figures) = &session.figures {
                                td { (number(figures.calls)) }
                                td { (number(figures.sent_tokens)) }
                                td { (money(figures.cost)) }
                                td { (number(figures.compactions)) }
                                td { (number(figures.prefix_breaks)) }
                                td { (number(figures.repairs)) }
                                td { (number(figures.missed)) }
                                td { (percent(figures.cache_read_tokens, figures.sent_tokens)) }
                                td { (money(figures.cost_without_window)) }
                            } @else {
                                td colspan="9" { @if let Some(fault) = session.fault { span.bad { "cannot be read: " (fault) } } @else { "not read yet" } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Renders the cost of each day with and without a window. Empty if there are fewer than two days.
    fn trend(&self) -> Markup {
        let days: Vec<(i64, Day)> =
            self.total.days.iter().rev().take(MOST_DAYS).rev().map(|(day, of)| (*day, *of)).collect();
        if days.len() < 2 {
            return html! {};
        }
        html! {
            section aria-labelledby="days-title" tabindex="0" {
                h2 #days-title { "By day" }
                table.days {
                    thead { tr { th.words { "day (UTC)" } th { "calls" } th { "sent" } th { "cost" } th { "without a window" } th.words { "cost" } } }
                    tbody {
                        @let most = days.iter().map(|(_, of)| of.cost_without_window.max(of.cost)).fold(f64::MIN_POSITIVE, f64::max);
                        @for (day, of) in days.iter().rev() {
                            tr {
                                td.words { (time(day * 86_400_000).unwrap_or_default().split(' ').next().unwrap_or_default()) }
                                td { (number(of.calls)) }
                                td { (short(of.sent_tokens)) }
                                td { (money(of.cost)) }
                                td { (money(of.cost_without_window)) }
                                td.words {
                                    svg.bar viewBox="0 0 200 10" aria-hidden="true" {
                                        rect.cost width=(format!("{:.1}", of.cost_without_window / most * 200.0)) height="10" fill-opacity="0.35" {}
                                        rect.read width=(format!("{:.1}", of.cost / most * 200.0)) height="10" {}
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Found {
    /// Creates search results for these words, with the session, entry and excerpt of each message.
    pub fn new(words: impl Into<String>, hits: impl IntoIterator<Item = (String, u64, String)>) -> Found {
        Found { words: words.into(), hits: hits.into_iter().collect(), facts: Vec::new(), is_all: true }
    }

    /// Sets the facts, each with a session that knows it, and whether the facts of all sessions were searched.
    #[must_use]
    pub fn facts(self, facts: Vec<(String, Fact)>, is_all: bool) -> Found {
        Found { facts, is_all, ..self }
    }

    fn to_markup(&self) -> Markup {
        html! {
            @if self.hits.is_empty() && self.facts.is_empty() {
                p role="status" { "Nothing was found." }
            }
            @if !self.is_all { p.note { "The facts of the sessions that were used longest ago were not searched." } }
            @if !self.facts.is_empty() {
                h3 { "In facts" }
                ul.facts {
                    @for (session, fact) in &self.facts {
                        li {
                            a href=(format!("session?name={}#fact-{}", encoded(session), fact.id)) { (visible(session)) ", " (fact.statement.kind) " " (fact.id) }
                            ": " (visible(&fact.statement.text))
                        }
                    }
                }
            }
            @if !self.hits.is_empty() {
                @if !self.facts.is_empty() { h3 { "In messages" } }
                ol.found {
                    @for (session, entry, excerpt) in &self.hits {
                        li {
                            a href=(format!("session?name={}#e{entry}", encoded(session))) { (visible(session)) ", entry " (entry) }
                            ": " (visible(excerpt))
                        }
                    }
                }
            }
        }
    }
}
