//! What a person sees of hooks in their agent: a status line, and the results that were shortened.

use std::fmt::Write as _;

use lookback_engine::transcript::Millis;
use lookback_store::now;
use serde_json::Value;

use super::journal::{Journal, Written};
use super::switch;
use crate::output;

/// A result that was shortened in a conversation.
struct Shortened {
    time: Option<Millis>,
    log: String,
    tool: String,
    entry: u64,
    of: u64,
    to: u64,
}

fn shortened(agent: &str, session: &str) -> Vec<Shortened> {
    let lines = Journal::of_user().lines().into_iter();
    let lines = lines.filter(|line| line.agent == agent && line.session.as_deref() == Some(session));
    let found = lines.filter_map(|line| match line.what {
        Written::Shortened { tool, log, entry, of, to, .. } => {
            Some(Shortened { time: line.time, log, tool, entry, of, to })
        }
        _ => None,
    });
    found.collect()
}

/// Returns the line for an agent's status line, from what the agent says of the conversation: how full its window is,
/// how many tokens were saved, and when a result was last cut.
pub(crate) fn status_line(agent: &str, input: &Value) -> String {
    let session = input.get("session_id").and_then(Value::as_str).unwrap_or_default();
    if switch::is_off(agent, session) {
        return "Lookback is off for this conversation".to_owned();
    }
    let mut line = "Lookback".to_owned();
    if let Some(used) = input.pointer("/context_window/used_percentage").and_then(Value::as_f64) {
        // Writing to memory does not fail.
        let _ = write!(line, ": {used:.0} % full");
    }
    let cut = shortened(agent, session);
    let saved: u64 = cut.iter().map(|cut| cut.of.saturating_sub(cut.to)).sum();
    if let Some(last) = cut.last() {
        let _ = write!(line, ", {} tokens saved, last cut {}", output::number(saved), ago(last.time));
    }
    let last = Journal::of_user().lines().pop();
    if let Some(Written::Failed { why }) = last.map(|line| line.what) {
        let _ = write!(line, ", the last hook failed: {}", output::plain(&why));
    }
    line
}

/// Returns a line for each result that was shortened in a conversation, the newest first, and how to read it.
pub(crate) fn hidden(agent: &str, session: &str, store: &str) -> String {
    let cut = shortened(agent, session);
    let Some(last) = cut.last() else {
        return "Lookback has shortened no result in this conversation.".to_owned();
    };
    let mut text = String::new();
    for cut in cut.iter().rev() {
        let [of, to] = [cut.of, cut.to].map(output::number);
        let tool = output::plain(&cut.tool);
        let _ = writeln!(text, "entry {}: {tool}, {of} tokens shortened to {to}, {}", cut.entry, ago(cut.time));
    }
    let (log, store) = (output::quoted(&last.log), output::quoted(store));
    let _ = write!(text, "Read one: lookback recall {log} --entry {} --store {store}", last.entry);
    text
}

/// Returns how long ago a time was.
fn ago(time: Option<Millis>) -> String {
    let seconds = time.zip(now()).map_or(0, |(time, now)| (now - time).max(0) / 1_000);
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        _ => format!("{} h ago", seconds / 3_600),
    }
}
