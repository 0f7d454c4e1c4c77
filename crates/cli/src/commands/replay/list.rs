//! The list of the conversations that agents keep on this machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lookback_recordings::{Reason, Recording};
use lookback_wire::message::{PartRef, Role};
use serde::Serialize;

use crate::args::LogsArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::recordings::{self, Listed};
use crate::{input, output};

/// The conversations that a list shows if nobody chose them.
const MOST: usize = 20;

/// A conversation.
#[derive(Serialize)]
struct Row {
    id: String,
    agent: Option<&'static str>,
    project: Option<String>,
    /// The time of the newest message, in RFC 3339.
    newest: Option<String>,
    messages: usize,
    tool_calls: usize,
    tool_results: usize,
    compactions: usize,
    model: Option<String>,
    /// The tokens that the provider reported for all calls, or `None` if the log has none.
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    first_words: String,
    file: String,
    /// The lines of the file that are in no conversation, by the reason.
    left_out: BTreeMap<Reason, usize>,
}

impl Row {
    fn new(listed: &Listed) -> Row {
        let Listed { agent, path, recording, left_out, newest } = listed;
        let usage = || recording.usage.iter().chain(&recording.aside);
        let is_known = usage().next().is_some();
        let calls = recording.messages.iter().map(|recorded| recorded.message.tool_calls().count());
        let results = recording.messages.iter().map(|recorded| recorded.message.tool_results().count());
        Row {
            id: recording.id.clone(),
            agent: *agent,
            project: recording.project.clone(),
            newest: newest.and_then(|time| Some(Timestamp::from_millisecond(time).ok()?.to_string())),
            messages: recording.messages.len(),
            tool_calls: calls.sum(),
            tool_results: results.sum(),
            compactions: recording.compactions.len(),
            model: recording.model.clone(),
            input_tokens: is_known.then(|| usage().map(|usage| usage.sent()).sum()),
            output_tokens: is_known.then(|| usage().map(|usage| usage.output).sum()),
            first_words: first_words(recording),
            file: input::place(path),
            left_out: left_out.iter().map(|(reason, lines)| (reason, lines.count)).collect(),
        }
    }

    fn cells(&self) -> [String; 7] {
        let day = self.newest.as_ref().and_then(|time| time.get(..16)).unwrap_or("–").replace('T', " ");
        let tokens = self.input_tokens.map_or_else(|| "–".to_owned(), output::number);
        let project = self.project.as_deref().unwrap_or("–");
        [
            day,
            self.agent.unwrap_or("–").to_owned(),
            output::plain(project),
            self.messages.to_string(),
            self.tool_calls.to_string(),
            tokens,
            output::plain(&self.first_words),
        ]
    }
}

/// Returns the beginning of the first words that a person wrote. Agents put their own in angle brackets, or before them.
pub(in crate::commands) fn first_words(recording: &Recording) -> String {
    const LONGEST: usize = 60;
    let said = recording.messages.iter().filter(|recorded| recorded.message.role() == Role::User);
    let parts = said.flat_map(|recorded| recorded.message.parts());
    let texts = parts.filter_map(|part| match part {
        PartRef::Text(text) if !text.trim().is_empty() => Some(text),
        _ => None,
    });
    let is_own = |text: &&str| !text.trim_start().starts_with(['<', '#']);
    let texts: Vec<&str> = texts.collect();
    let text = texts.iter().copied().find(is_own).or(texts.first().copied()).unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > LONGEST { line.chars().take(LONGEST - 1).chain(['…']).collect() } else { line }
}

pub(super) fn run(args: &LogsArgs, json: bool) -> Result<ExitCode, Failure> {
    let rows = recordings::each(args, Row::new)?;
    if rows.is_empty() {
        return Err(recordings::none_chosen(args));
    }
    if json {
        rows.iter().try_for_each(|(_, row)| output::json_line(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = if args.has_choice() { rows.len() } else { rows.len().min(MOST) };
    let header = ["Newest (UTC)", "Agent", "Project", "Messages", "Tool calls", "Input tokens", "First words"];
    let table = output::table(header, &[0, 1, 2, 6], rows.iter().take(shown).map(|(_, row)| row.cells()));
    output::rows(&output::text_without(&table, &[4, 5]))?;
    let all = output::counted(rows.len() as u64, "conversation", "conversations");
    if shown < rows.len() {
        output::message(&format!("\nThese are the newest {shown} of {all}; --json has all."));
    } else {
        output::message(&format!("\n{all}."));
    }
    // Whoever chose them knows how.
    if args.has_choice() || !args.files.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    output::message("Replay some of them:");
    for command in [
        "lookback replay --since 7d".to_owned(),
        "lookback replay --project .".to_owned(),
        rows.first().map(|(_, row)| format!("lookback replay {}", output::quoted(&row.file))).unwrap_or_default(),
    ] {
        output::note(&command);
    }
    Ok(ExitCode::SUCCESS)
}
