//! Windows and sessions as HTML, for notebooks: a picture, and a table of how each message was treated.

use std::fmt::Write as _;

use lookback_engine::plan::Action;
use lookback_inspector::figure;
use lookback_replay::explain::MessageOutcome;
use lookback_replay::timeline::Timeline;

use crate::annotated::in_words;

/// The width of the picture, in pixels, and the height of its bars.
const WIDTH: f64 = 720.0;
const HEIGHT: u32 = 28;
/// The most rows of a table. Longer tables count the rows in the middle in one row.
const MOST: usize = 60;

/// Returns a window as HTML.
pub(crate) fn window(tokens: u64, compacted: bool, outcomes: &[MessageOutcome]) -> String {
    let compacted = if compacted { ", and cut for this call" } else { "" };
    block(&format!("Window of {tokens} tokens{compacted}"), outcomes)
}

/// Returns a session as HTML: the picture of the inspector, and a table.
pub(crate) fn session(name: &str, messages: u64, timeline: &Timeline, outcomes: &[MessageOutcome]) -> String {
    let title = format!("Session {}: {messages} messages", escaped(name));
    if timeline.calls.is_empty() {
        return block(&title, outcomes);
    }
    format!("<div><p><b>{title}</b></p>{}{}</div>", figure(timeline), table(outcomes))
}

fn block(title: &str, outcomes: &[MessageOutcome]) -> String {
    format!("<div><p><b>{title}</b></p>{}{}</div>", picture(outcomes), table(outcomes))
}

/// Draws each run of messages as a bar: its width is the original tokens, and the filled part is what is sent.
fn picture(outcomes: &[MessageOutcome]) -> String {
    let total: u64 = outcomes.iter().map(|outcome| outcome.tokens.max(1)).sum();
    let mut drawn =
        format!("<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\"><title>tokens of the messages</title>");
    let mut at = 0.0;
    for outcome in outcomes {
        #[allow(clippy::cast_precision_loss, reason = "a picture need not be exact")]
        let of = |tokens: u64| tokens as f64 / total.max(1) as f64 * WIDTH;
        let (whole, sent) = (of(outcome.tokens.max(1)), of(outcome.sent.min(outcome.tokens.max(1))));
        let color = color(outcome.action);
        // Writing to memory does not fail.
        let _ = write!(
            drawn,
            "<rect x=\"{at:.1}\" width=\"{whole:.1}\" height=\"{HEIGHT}\" fill=\"{color}\" opacity=\"0.25\"/>\
             <rect x=\"{at:.1}\" width=\"{sent:.1}\" height=\"{HEIGHT}\" fill=\"{color}\"/>"
        );
        at += whole;
    }
    drawn + "</svg>"
}

fn color(action: Action) -> &'static str {
    match action {
        Action::Keep => "#2c7fb8",
        Action::Truncate => "#7fcdbb",
        Action::Clear => "#f0a202",
        Action::Summarize => "#8856a7",
        Action::Drop => "#999999",
        _ => "#cccccc",
    }
}

fn table(outcomes: &[MessageOutcome]) -> String {
    let (begin, end) = if outcomes.len() <= MOST {
        (outcomes, &[][..])
    } else {
        let (begin, rest) = outcomes.split_at(MOST / 2);
        (begin, rest.get(rest.len() - MOST / 2..).unwrap_or_default())
    };
    let mut rows: Vec<String> = begin.iter().map(row).collect();
    let between = outcomes.len() - begin.len() - end.len();
    if between > 0 {
        rows.push(format!("<tr><td colspan=\"5\">{between} more</td></tr>"));
    }
    rows.extend(end.iter().map(row));
    format!(
        "<table><thead><tr><th>messages</th><th>action</th><th>tokens</th><th>sent</th><th>why</th></tr></thead>\
         <tbody>{}</tbody></table>",
        rows.concat()
    )
}

fn row(outcome: &MessageOutcome) -> String {
    let MessageOutcome { span, action, tokens, sent, .. } = outcome;
    let messages = match span.len() {
        1 => span.start.to_string(),
        _ => format!("{} to {}", span.start, span.end.saturating_sub(1)),
    };
    let (color, action) = (color(*action), format!("{action:?}").to_lowercase());
    let why = escaped(&in_words(outcome));
    format!(
        "<tr><td>{messages}</td><td style=\"color:{color}\">{action}</td><td>{tokens}</td><td>{sent}</td>\
         <td style=\"text-align:left\">{why}</td></tr>"
    )
}

/// Escapes a text for HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}
