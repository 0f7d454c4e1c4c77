//! The page of a session.

use lookback_content::text::number;
use lookback_replay::prices::money;
use maud::html;

use crate::calls::Calls;
use crate::fragments::{self, Fragments};
use crate::numbers::percent;
use crate::page::page;
use crate::paid::paid;
use crate::story::{Contents, Parts, Story};
use crate::text::visible;
use crate::{alternatives, calls, data, edit, facts, picture, related, rows};

const SCRIPT: &str = include_str!("script.js");

impl Story<'_> {
    /// Returns the page as one HTML document. Unless its [parts](Parts) are served, it is complete, and a browser can
    /// open it from the disk.
    pub fn to_html(&self, contents: Contents) -> String {
        let fragments = match contents {
            Contents::Shown => fragments::render(self.timeline, &self.parts),
            Contents::Masked => Fragments::default(),
        };
        whole(self, contents, &fragments)
    }
}

/// Renders the page of a session.
fn whole(story: &Story<'_>, contents: Contents, fragments: &Fragments) -> String {
    let timeline = story.timeline;
    let call = story.first_call();
    let total = &timeline.total;
    let first = timeline.call(call);
    let is_served = story.parts != Parts::Packed;
    page(
        story.name,
        html! {
            header {
                h1 { (visible(story.name)) }
                @if let Parts::Served { edition } = &story.parts {
                    p #served .script hidden data-name=(story.name) data-edition=(edition) {
                        label { input #follow type="checkbox"; " follow the session" }
                        span #grown role="status" {}
                    }
                }
                p { (story.sentence()) @if let Some(policy) = story.policy { ", policy " code { (visible(policy)) } } "." }
                @if timeline.since > 0 {
                    p.note { "Calls before entry " (timeline.since) " are not known, because contents were erased." }
                }
                @if is_served { (related::links(story)) }
                @if let Some(paid) = paid(&total.paid.into()) { p { (paid) } }
                @if contents == Contents::Masked { p.note { "Contents are left out of this page." } }
                dl.numbers {
                    div { dt { "cost of the input" } dd { (money(total.cost)) } }
                    div { dt { "without a window" } dd { (money(total.cost_without_window)) } }
                    div { dt { "tokens sent" } dd { (number(total.sent_tokens)) } }
                    div { dt { "from the cache" } dd { (percent(total.cache_read_tokens, total.sent_tokens)) } }
                    div { dt { "compactions" } dd { (total.compactions) } }
                    @if !story.by_client.is_empty() { div { dt { "by the client" } dd { (story.by_client.len()) } } }
                    div { dt { "cache breaks" } dd { (total.prefix_breaks) } }
                    div { dt { "names missed" } dd { (alternatives::missed(timeline)) } }
                }
            }
            main {
                section aria-labelledby="picture-title" {
                    h2 #picture-title { "The window of each call" }
                    figure #picture { (picture::picture(timeline, &story.by_client, picture::highest(timeline), Some(call))) }
                    (picture::legend(timeline, !story.by_client.is_empty()))
                }
                section aria-labelledby="call-title" {
                    h2 #call-title { "What the model saw" }
                    div.slider.script hidden {
                        label for="call" { "call" }
                        button #back type="button" title="The call before (left arrow)" { "‹" }
                        input #call type="range" min="1" max=(story.newest_call()) value=(call);
                        button #forth type="button" title="The next call (right arrow)" { "›" }
                        output #at for="call" { (call) }
                        button #event-back type="button"
                            title="The previous compaction (also by the client), prefix break, cold cache or missed name" { "« event" }
                        button #event-forth type="button"
                            title="The next compaction (also by the client), prefix break, cold cache or missed name" { "event »" }
                    }
                    @if is_served { noscript { (calls::neighbors(story, call)) } }
                    div #told aria-live="polite" {
                        @if let Some(first) = first { (Calls::new(story, contents).one(first)) }
                        @else { p { "No call was made yet." } }
                    }
                    div.tools.script hidden {
                        label { "find " input #find type="search" placeholder="words in messages"; }
                        label { input #gone type="checkbox" checked; " what is missing" }
                        label { input #changed type="checkbox"; " only what differs from the call before" }
                        @if (is_served || story.requests.is_some()) && contents == Contents::Shown {
                            button #copy type="button" { "Copy the request" }
                        }
                        span #found role="status" {}
                    }
                    @if !timeline.rows.is_empty() {
                        p.head { span.entry { "entry" } span.role { "role" } span.says { "message" } span.fate { "fate" } span.tokens { "tokens" } }
                    }
                    (rows::list(timeline, call, contents, fragments))
                }
                (alternatives::render(story))
                @if contents == Contents::Shown { (facts::table(story, call)) }
                section aria-labelledby="calls-title" {
                    h2 #calls-title { "All calls" }
                    (calls::table(story))
                    p.note { "Costs are those of the input, at the prices `" (visible(&story.price.name)) "` of " (visible(&story.price.date)) " ("
                        (visible(&story.price.source)) "). The cache contents are simulated." }
                }
            }
            @if story.may_edit { p { a href=(edit::address(story.name, "delete", "")) { "Delete this session…" } } }
            footer { p { "Made by Lookback " (env!("CARGO_PKG_VERSION")) ". This page loads nothing" @if is_served { " from elsewhere" } "." } }
            (data::render(story, contents, fragments))
        },
        SCRIPT,
        is_served,
    )
}
