//! Splitting a task that is too long for one call: the parts are summarized first, and then their summaries.

use lookback_tokens::TokenCounter;
use lookback_tokens::cut;

use super::error::Kind;
use super::{Passage, PassageRole, Summarizer, SummarizerError, SummaryTask, call, units};

/// The tokens of a request in addition to its two texts: roles, separators, names of members.
const ENVELOPE: u64 = 32;
/// An eighth of the context window is left free, because an estimate may be that much off.
const MARGIN: u64 = 8;
/// The same for an exact counter, because joined texts can have more tokens than their pieces.
const EXACT_MARGIN: u64 = 64;
/// The summary of a part takes at most a quarter of the context window, so that at least two fit into the next call.
const SHARE: u64 = 4;
/// The fewest tokens to summarize that justify a call.
const LEAST: u64 = 64;

/// Carries out a task in as many calls as necessary.
///
/// Each pass has at most half the parts of the one before, rounded up, so there are about twice as many calls as parts.
pub(super) async fn complete(
    summarizer: &dyn Summarizer,
    task: SummaryTask,
    counter: &dyn TokenCounter,
) -> Result<String, SummarizerError> {
    let Some(window) = summarizer.window() else { return call(summarizer, &task, counter).await };
    let margin = window / if counter.is_exact() { EXACT_MARGIN } else { MARGIN };
    let fixed = counter.text(&task.system()).saturating_add(ENVELOPE).saturating_add(schema(&task, counter));
    let free = window.saturating_sub(margin).saturating_sub(fixed);
    if counter.text(&task.prompt()).saturating_add(task.budget) <= free {
        return call(summarizer, &task, counter).await;
    }
    let budget = task.budget.min(free / SHARE);
    let room = free.saturating_sub(budget);
    if room < LEAST {
        let needed = (fixed + LEAST * SHARE / (SHARE - 1) + 1) * MARGIN / (MARGIN - 1) + 1;
        return Err(Kind::TooSmall { model: summarizer.model().to_owned(), window, needed }.into());
    }
    let mut task = SummaryTask { budget, ..task };
    let mut passages = std::mem::take(&mut task.passages);
    if let Some(previous) = task.previous.take() {
        let text = format!("Previous summary: {previous}");
        passages.insert(0, Passage::new(PassageRole::System, text).index(0));
    }
    let mut parts = parts(passages, room, counter);
    loop {
        let count = parts.len();
        let mut summaries = Vec::with_capacity(count);
        for (index, passages) in (1..).zip(parts) {
            task.passages = passages;
            let text = call(summarizer, &task, counter).await?;
            summaries.push(Passage::new(PassageRole::Summary, text).index(index));
        }
        if count <= 1 {
            return Ok(summaries.pop().map(|summary| summary.text).unwrap_or_default());
        }
        parts = self::parts(summaries, room, counter);
        // Answers to a schema are not cut, and can have any length.
        if parts.len() >= count {
            return Err(Kind::NoProgress { model: summarizer.model().to_owned(), parts: count }.into());
        }
    }
}

fn schema(task: &SummaryTask, counter: &dyn TokenCounter) -> u64 {
    task.schema.as_ref().map_or(0, |schema| counter.text(&schema.to_string()))
}

/// Divides the passages into parts of at most `room` tokens, in order. A longer passage is split into pieces.
fn parts(passages: Vec<Passage>, room: u64, counter: &dyn TokenCounter) -> Vec<Vec<Passage>> {
    let mut parts: Vec<Vec<Passage>> = Vec::new();
    let mut left = 0;
    let mut add = |passage: Passage, tokens: u64| {
        if tokens > left {
            parts.push(Vec::new());
            left = room;
        }
        left = left.saturating_sub(tokens);
        if let Some(part) = parts.last_mut() {
            part.push(passage);
        }
    };
    // The empty line between two passages.
    let cost = |text: &str| counter.text(text).saturating_add(2);
    for passage in passages {
        let tokens = cost(&passage.to_string());
        if tokens <= room {
            add(passage, tokens);
            continue;
        }
        let Passage { index, role, text, media } = passage;
        let empty = Passage { index, role, text: String::new(), media };
        let limit = room.saturating_sub(cost(&empty.to_string())).max(1);
        for piece in pieces(&text, limit, counter) {
            let piece = Passage { text: piece.to_owned(), ..empty.clone() };
            let tokens = cost(&piece.to_string());
            add(piece, tokens.min(room));
        }
    }
    parts
}

/// Splits a text into pieces of at most this many tokens: between paragraphs, lines, sentences or words, if one of them
/// ends in the second half of a piece.
fn pieces<'a>(mut text: &'a str, tokens: u64, counter: &dyn TokenCounter) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let head = cut::head(text, tokens, counter);
        let late = |end: &usize| *end > head.len() / 2;
        let end = if head.len() == text.len() {
            head.len()
        } else {
            let paragraph = head.rfind("\n\n").map(|at| at + 2).filter(late);
            let line = || head.rfind('\n').map(|at| at + 1).filter(late);
            let sentence = || units::last_end(text, head.len()).filter(late);
            let word = || head.rfind(' ').map(|at| at + 1).filter(late);
            paragraph.or_else(line).or_else(sentence).or_else(word).unwrap_or(head.len())
        };
        // A piece has at least one character, even if it does not fit.
        let end = if end == 0 { text.chars().next().map_or(text.len(), char::len_utf8) } else { end };
        let (piece, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        pieces.push(piece);
        text = rest;
    }
    pieces
}
