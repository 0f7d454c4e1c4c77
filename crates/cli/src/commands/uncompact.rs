//! `lookback uncompact`: what an agent's own compaction dropped.

use lookback_content::identifiers::Kind;
use lookback_recordings::Recording;
use lookback_replay::lost::{Lost, LostDecision, LostName};
use serde::Serialize;

use crate::args::UncompactArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::recordings::{self, Listed};
use crate::{input, output};

/// The names of a kind that are shown. The others are in `--json` and in the note.
const MOST_NAMES: usize = 20;

/// What a compaction dropped, with the conversation that it is from.
#[derive(Serialize)]
struct Found {
    file: String,
    id: String,
    agent: Option<&'static str>,
    /// The messages of the conversation.
    of: usize,
    #[serde(flatten)]
    lost: Lost,
    note: String,
    note_tokens: u64,
    /// The dropped rules that the note brings back.
    rules_in_note: usize,
    /// The needed names that the note brings back.
    needed_in_note: usize,
}

pub(crate) fn run(args: &UncompactArgs) -> Result<ExitCode, Failure> {
    let found = if args.all {
        let found = recordings::each(&args.logs, |listed| of_conversation(args, listed))?;
        found.into_iter().flat_map(|(_, found)| found).collect()
    } else {
        newest(args)?
    };
    if found.is_empty() {
        output::message("no conversation was found that an agent has compacted");
        return Ok(ExitCode::from(1));
    }
    if args.json {
        found.iter().try_for_each(output::json_line)?;
    } else if args.all {
        table(&found)?;
    } else if let Some(found) = found.first() {
        if args.note { output::result(&found.note)? } else { show(found)? }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what the last compaction of the newest conversation with one dropped.
fn newest(args: &UncompactArgs) -> Result<Vec<Found>, Failure> {
    let is_compacted = |listed: &Listed| {
        let id = (!listed.recording.compactions.is_empty()).then(|| listed.recording.id.clone());
        id.map(|id| (listed.path.clone(), id, listed.agent))
    };
    let chosen = recordings::each(&args.logs, is_compacted)?;
    let Some((path, id, agent)) = chosen.into_iter().find_map(|(_, found)| found) else { return Ok(Vec::new()) };
    // Only one conversation is worth keeping in memory, and it is known only now.
    let all = input::recorded(&path, None)?;
    let recording = all.recordings.into_iter().find(|recording| recording.id == id);
    let listed = recording.map(|recording| Listed { agent, path, recording, left_out: all.left_out, newest: None });
    Ok(listed.map(|listed| of_conversation(args, &listed)).unwrap_or_default())
}

fn of_conversation(args: &UncompactArgs, listed: &Listed) -> Vec<Found> {
    let Listed { agent, path, recording, .. } = listed;
    if recording.compactions.is_empty() {
        return Vec::new();
    }
    let counter = input::settings(recording.model.as_deref()).counter;
    let found = |lost: Lost| {
        let note = lost.note(&*counter, args.tokens);
        let is_noted = |name: &str| note.split([' ', ',', '\n']).any(|word| word == name);
        let needed = lost.names.iter().filter(|lost| lost.is_needed && is_noted(&lost.name)).count();
        Found {
            file: input::place(path),
            id: recording.id.clone(),
            agent: *agent,
            of: recording.messages.len(),
            note_tokens: counter.text(&note),
            rules_in_note: lost.rules.iter().filter(|rule| note.contains(&rule.text)).count(),
            needed_in_note: needed,
            note,
            lost,
        }
    };
    lost(recording, args.all).into_iter().map(found).collect()
}

/// Returns what all compactions dropped, or the last one.
fn lost(recording: &Recording, all: bool) -> Vec<Lost> {
    if all {
        return Lost::all(recording);
    }
    recording.compactions.last().map(|summary| Lost::at(recording, *summary)).into_iter().collect()
}

fn show(found: &Found) -> Result<(), Failure> {
    let Found { lost, agent, id, of, .. } = found;
    let messages = output::counted(lost.messages as u64, "message", "messages");
    output::line(&format!(
        "{} replaced {messages} by a summary, message {} of {of} in {}.",
        agent.unwrap_or("The client"),
        lost.summary,
        output::plain(id)
    ))?;
    output::line(&format!(
        "\nRules of yours that the model no longer sees: {} of {}",
        lost.rules.len(),
        lost.all_rules
    ))?;
    for rule in &lost.rules {
        output::line(&format!("  {:>5}  {}", rule.message, output::plain(&rule.text)))?;
    }
    if !lost.decisions.is_empty() {
        output::line(&format!("\nDecisions of yours that it no longer sees: {}", lost.decisions.len()))?;
    }
    for LostDecision { question, answer, message } in &lost.decisions {
        output::line(&format!("  {message:>5}  {} – {}", output::plain(question), output::plain(answer)))?;
    }
    for (title, kind) in [("Files", Kind::File), ("Numbers", Kind::Number), ("Other names", Kind::Name)] {
        show_names(title, lost.names.iter().filter(|name| name.kind == kind).collect())?;
    }
    output::message("\nThe number before a line is that of its message. Next, try:");
    let file = output::quoted(&found.file);
    for command in [
        format!("lookback uncompact {file} --note   # a note of {} tokens to paste", found.note_tokens),
        format!(
            "lookback sessions import {file}    # then `lookback recall {} WORDS` finds the rest",
            output::quoted(id)
        ),
    ] {
        output::note(&command);
    }
    Ok(())
}

/// Writes dropped names, first those that the model used later.
fn show_names(title: &str, mut names: Vec<&LostName>) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let needed = names.iter().filter(|name| name.is_needed).count();
    let used =
        if needed > 0 { format!(", of which it used {} later", output::number(needed as u64)) } else { String::new() };
    output::line(&format!("\n{title} that it no longer sees: {}{used}", output::number(names.len() as u64)))?;
    names.sort_by_key(|name| !name.is_needed);
    for name in names.iter().take(MOST_NAMES) {
        let used = if name.is_needed { "  used later" } else { "" };
        output::line(&format!("  {:>5}  {} ({}×){used}", name.message, output::plain(&name.name), name.mentions))?;
    }
    if names.len() > MOST_NAMES {
        output::line(&format!("  and {} more", output::number((names.len() - MOST_NAMES) as u64)))?;
    }
    Ok(())
}

/// Writes a row for each compaction, and the sums.
fn table(found: &[Found]) -> Result<(), Failure> {
    let figures = |found: &Found| {
        let lost = &found.lost;
        let needed_lost = lost.names.iter().filter(|name| name.is_needed).count();
        [
            lost.messages,
            lost.all_rules,
            lost.all_rules - lost.rules.len(),
            lost.all_rules - lost.rules.len() + found.rules_in_note,
            lost.needed_names,
            lost.needed_names - needed_lost,
            lost.needed_names - needed_lost + found.needed_in_note,
        ]
    };
    let row = |name: String, agent: &str, figures: [usize; 7]| {
        let [messages, rules, said, rules_noted, needed, there, noted] =
            figures.map(|figure| output::number(figure as u64));
        [name, agent.to_owned(), messages, rules, said, rules_noted, needed, there, noted]
    };
    let mut sums = [0; 7];
    let mut rows = Vec::new();
    for found in found {
        let figures = figures(found);
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        rows.push(row(output::plain(&found.id), found.agent.unwrap_or("–"), figures));
    }
    rows.push(row("total".to_owned(), "", sums));
    let header =
        ["Conversation", "Agent", "Dropped", "Rules", "kept", "with note", "Names used later", "kept", "with note"];
    output::rows(&output::text_of(&output::table(header, &[0, 1], rows)))?;
    Ok(())
}
