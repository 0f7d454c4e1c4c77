//! `lookback handoff`: continues a conversation in another agent.

mod note;

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use futures_lite::future::block_on;
use lookback_content::pasted::is_from_client;
use lookback_engine::Engine;
use lookback_engine::policy::{Policy, Stage};
use lookback_recordings::{Handoff, Home, Recording, Resumable, handoff_id, resume};
use lookback_session::Error;
use lookback_summarize::calls::{self, run_request_once};
use lookback_summarize::{Extractive, run as summarized};
use lookback_wire::dialect::{Dialect, Finding, Request, Severity, Target};
use lookback_wire::edit::Cut;
use lookback_wire::message::{AssistantPart, Content, Media, Message, PartRef, ResultItem, UserPart};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::HandoffArgs;
use crate::atomic_file::AtomicFile;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::recordings::{self, Listed, none_chosen};
use crate::{findings, input, output};

/// What was written, and where it is from.
#[derive(Serialize)]
struct Done<'a> {
    agent: &'a str,
    from: From<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a Path>,
    messages: usize,
    tokens: u64,
    /// Messages that the first agent had already replaced by a summary.
    compacted: usize,
    /// Messages that the policy left out.
    dropped: usize,
    /// Parts that the other agent does not get: files, and the provider's own tools.
    parts_left_out: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    /// Whether the agent has to import the file.
    #[serde(skip)]
    is_imported: bool,
}

#[derive(Serialize)]
struct From<'a> {
    agent: Option<&'static str>,
    id: &'a str,
    file: String,
    messages: usize,
}

pub(crate) fn run(mut args: HandoffArgs) -> Result<ExitCode, Failure> {
    let mut policy = input::policy(&args.policy.policy, &args.policy.set)?;
    if args.policy.policy == "default" && args.policy.set.is_empty() {
        policy = without_entries(policy);
    }
    let is_here = args.logs.files.is_empty() && args.logs.project.is_none() && args.id.is_none();
    if is_here {
        args.logs.project = std::env::current_dir().ok();
    }
    let listed = chosen(&args)?.ok_or_else(|| match &args.id {
        Some(id) => Failure::NoConversation(id.clone()),
        None if !args.logs.files.is_empty() && !args.logs.has_choice() => {
            Failure::NoneChosen(" of another agent than the one that continues it; --id takes any")
        }
        None if is_here => Failure::NoneChosen(" in this folder; --project / looks in all, and --id takes any"),
        None => none_chosen(&args.logs),
    })?;
    let Listed { agent, path, recording, newest, .. } = &listed;
    let (messages, parts_left_out) = current(recording);
    let from = From { agent: *agent, id: &recording.id, file: input::place(path), messages: recording.messages.len() };
    let Some(resume) = resume(args.to).filter(|_| !args.note) else {
        return write_note(&args, from, recording, &messages);
    };
    let window = window(&args, resume.dialect(), &messages, policy)?;
    let elements: Vec<&RawValue> = window.elements.iter().map(|element| &**element).collect();
    let here = std::env::current_dir().unwrap_or_default();
    let project = recording.project.as_ref().map_or(here.clone(), PathBuf::from);
    let handoff = Handoff {
        id: &handoff_id(&uuid::Uuid::new_v4().to_string()),
        messages: &window.messages,
        elements: &elements,
        project: &project,
        model: args.model.name.as_deref().or(recording.model.as_deref()),
        // So the conversation itself is newer than its copy, until somebody continues this.
        time: newest.or_else(lookback_store::now).unwrap_or_default().saturating_sub(1),
    };
    let home = Home::of_user().ok_or(Failure::NoHome)?;
    let written = resume.write(&handoff, &home);
    let file = place(&args, &written, handoff.id);
    let file = std::path::absolute(&file).unwrap_or(file);
    if file.exists() && !file.is_dir() {
        return Err(Failure::Exists(file.display().to_string()));
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let fault = |error| Failure::Folder { place: folder.display().to_string(), error };
        fs::create_dir_all(folder).map_err(fault)?;
    }
    AtomicFile::begin_private(&file)?.finish(&written.text)?;
    if let Some((marker, text)) = written.marker.as_ref().filter(|(marker, _)| args.out.is_none() && !marker.exists()) {
        AtomicFile::begin_private(marker)?.finish(text)?;
    }
    for finding in window.broken.iter().filter(|finding| finding.severity == Severity::Refused) {
        let text = findings::Line::from_finding(finding).text();
        output::warning(&format!("the conversation breaks a rule of the other model: {text}"));
    }
    let compacted = compacted(recording);
    if args.model.name.is_none() && !args.json && resume.wants_model() {
        let (provider, model) = handoff.model();
        output::message(&format!(
            "{} goes on with {provider}/{model}; --model PROVIDER/NAME chooses another",
            resume.agent()
        ));
    }
    let commands = commands(&args, &written, &file, (project != here).then_some(&*project));
    let done = Done {
        agent: resume.agent(),
        from,
        file: Some(&file),
        messages: window.messages.len(),
        tokens: window.tokens,
        compacted,
        dropped: messages.len().saturating_sub(window.messages.len()),
        parts_left_out,
        commands,
        note: None,
        is_imported: !written.import.is_empty(),
    };
    if args.json {
        output::result(&output::json(&done)?)?;
    } else {
        show(&done)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the default policy for an agent that has no log of Lookback's: no note names an entry of one.
fn without_entries(policy: Policy) -> Policy {
    const CLEARED: &str = "[tool result cleared: {cut} characters; run the tool again if you need them]";
    let mut policy = Policy { caps: None, repeats: None, index: None, ..policy };
    for stage in &mut policy.stages {
        if let Stage::ClearResults { marker, .. } = stage {
            *marker = Some(CLEARED.to_owned());
        }
    }
    policy
}

/// Returns the conversation to hand over: the one with the name, or the newest that a person had with another agent.
fn chosen(args: &HandoffArgs) -> Result<Option<Listed>, Failure> {
    let is_wanted = |listed: &Listed| match &args.id {
        Some(id) => listed.recording.id == *id,
        None => !listed.recording.is_side_chain() && (listed.agent != Some(args.to) || !args.logs.agent.is_empty()),
    };
    let place = |listed: &Listed| {
        let is_wanted = is_wanted(listed) && !listed.recording.messages.is_empty();
        is_wanted.then(|| (listed.path.clone(), listed.recording.id.clone(), listed.agent))
    };
    let all = recordings::each(&args.logs, place)?;
    let Some((newest, (path, id, agent))) = all.into_iter().find_map(|(newest, found)| Some((newest, found?))) else {
        return Ok(None);
    };
    let file = input::recorded(&path, None)?;
    let recording = file.recordings.into_iter().find(|recording| recording.id == id);
    Ok(recording.map(|recording| Listed { agent, path, recording, left_out: file.left_out, newest }))
}

/// Returns the messages of the conversation as it is now, without thinking and without what the client added. Returns the
/// number of parts that are left out, too: tools that the provider runs itself have no form that others understand.
fn current(recording: &Recording) -> (Vec<Message>, usize) {
    let mut left_out = 0;
    let mut messages = Vec::new();
    for index in recording.current() {
        let Some(recorded) = recording.messages.get(index) else { continue };
        let is_summary = recording.compactions.contains(&index);
        let others = recorded.message.opaques().filter(|(_, opaque)| !opaque.is_cache_marker());
        left_out += others.count();
        let content = match recorded.message.content() {
            Content::User(parts) => {
                let said = parts.iter().filter(|part| is_said(part, is_summary));
                Content::User(said.map(|part| without_files(part, &mut left_out)).collect())
            }
            Content::Assistant(parts) => {
                let is_shown =
                    |part: &&AssistantPart| matches!(part, AssistantPart::Text(_) | AssistantPart::ToolCall(_));
                Content::Assistant(parts.iter().filter(is_shown).cloned().collect())
            }
            // The other agent has its own instructions.
            _ => continue,
        };
        let message = Message::new(content);
        if message.parts().next().is_some() {
            messages.push(message);
        }
    }
    (messages, left_out)
}

/// Returns a part with a line in place of each file, because most agents cannot have files in their logs.
fn without_files(part: &UserPart, left_out: &mut usize) -> UserPart {
    let mut line = |file: &Media| match file.source.text() {
        Some(text) => text.to_owned(),
        None => {
            *left_out += 1;
            Cut::placeholder(file, "file").marker
        }
    };
    match part {
        UserPart::Document(file) => UserPart::Text(line(file)),
        UserPart::ToolResult(result) => {
            let mut result = result.clone();
            for item in &mut result.content {
                if let ResultItem::Document(file) = item {
                    *item = ResultItem::Text(line(file));
                }
            }
            UserPart::ToolResult(result)
        }
        part => part.clone(),
    }
}

/// Returns the number of messages that the agent no longer sent.
fn compacted(recording: &Recording) -> usize {
    recording.messages.len() - recording.current().len()
}

/// Returns whether a part is from the person, or the result of a tool.
fn is_said(part: &UserPart, is_summary: bool) -> bool {
    match part {
        UserPart::Text(text) => is_summary || !is_from_client(text),
        UserPart::Image(_) | UserPart::Document(_) | UserPart::ToolResult(_) => true,
        UserPart::Opaque(_) => false,
    }
}

/// A conversation as a request to the other agent's model has it.
struct Window {
    messages: Vec<Message>,
    elements: Vec<Box<RawValue>>,
    tokens: u64,
    broken: Vec<Finding>,
}

fn window(args: &HandoffArgs, dialect: Dialect, messages: &[Message], policy: Policy) -> Result<Window, Failure> {
    let converted = dialect.convert_all(messages).or_else(|_| dialect.convert_all(&only_texts(dialect, messages)));
    let converted = converted.map_err(Error::from)?;
    let raws: Vec<Box<RawValue>> =
        converted.iter().filter_map(Message::wire).flat_map(|wire| wire.elements()).map(ToOwned::to_owned).collect();
    let fault = |fault| Failure::Request { place: "the conversation".to_owned(), fault };
    let request = Request::from_raw(dialect, &raws).map_err(fault)?;
    let model = args.model.name.as_deref().map(|model| model.rsplit('/').next().unwrap_or(model));
    let target = model.into_iter().fold(Target::from(dialect), Target::with_model);
    let settings = input::settings_at(&target).dialect(dialect).policy(policy);
    let counter = settings.counter.clone();
    let mut engine = Engine::new(settings);
    let summarizer = Extractive::new(counter.clone());
    let mut summarize = |request: &lookback_engine::SummaryRequest| {
        block_on(summarized(&summarizer, calls::task(request), &*counter)).ok().map(|summary| summary.text)
    };
    let mut run = run_request_once(&mut engine, &request, &mut summarize, &mut |_| {}).map_err(Error::from)?;
    if let Some(exceeded) = run.outcome.exceeded.take() {
        return Err(Error::HardLimitExceeded(exceeded).into());
    }
    let view = run.outcome.on_read.as_deref().unwrap_or(engine.view());
    let encoded = view.encode(engine.target().clone()).map_err(Error::from)?;
    let elements: Vec<Box<RawValue>> = encoded.into_iter().map(Cow::into_owned).collect();
    let sent = Request::from_raw(dialect, &elements).map_err(fault)?;
    let (tokens, broken) = (engine.tokens(view), dialect.check(&sent));
    Ok(Window { messages: sent.into_messages(), elements, tokens, broken })
}

/// Returns the messages with only the texts of those that the dialect cannot express.
fn only_texts(dialect: Dialect, messages: &[Message]) -> Vec<Message> {
    let text = |message: &Message| {
        if dialect.convert(message).is_ok() {
            return Some(message.clone());
        }
        let texts = message.parts().filter_map(|part| match part {
            PartRef::Text(text) => Some(text),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        (!text.is_empty()).then(|| match message.content() {
            Content::Assistant(_) => Message::assistant(text),
            _ => Message::user(text),
        })
    };
    messages.iter().filter_map(text).collect()
}

/// Returns the place of the file: that of the command line, that of the agent, or one for the time until it is imported.
fn place(args: &HandoffArgs, written: &Resumable, id: &str) -> PathBuf {
    let to_import = || std::env::temp_dir().join(format!("lookback-handoff-{id}.json"));
    args.out.clone().or_else(|| written.place.clone()).unwrap_or_else(to_import)
}

/// Returns the commands that resume the conversation.
fn commands(args: &HandoffArgs, written: &Resumable, file: &Path, elsewhere: Option<&Path>) -> Vec<String> {
    let mut commands = Vec::new();
    commands.extend(elsewhere.map(|folder| format!("cd {}", output::quoted(&folder.display().to_string()))));
    if !written.import.is_empty() {
        commands.push(format!("{} {}", written.import.join(" "), output::quoted(&file.display().to_string())));
    } else if let Some(place) = written.place.as_ref().filter(|_| args.out.is_some()) {
        // The agent does not look there.
        let [file, place] = [file, place].map(|path| output::quoted(&path.display().to_string()));
        commands.push(format!("install -D -m 600 {file} {place}"));
    }
    commands.push(written.resume.join(" "));
    commands
}

fn show(done: &Done<'_>) -> Result<(), Failure> {
    let Done { agent, from, file, messages, tokens, compacted, dropped, parts_left_out, commands, is_imported, .. } =
        done;
    let title = output::plain(from.id);
    let of = from.agent.unwrap_or("a recording");
    output::message(&format!(
        "{agent} gets {} of {of}'s conversation {title}: {} tokens",
        output::counted(*messages as u64, "message", "messages"),
        output::number(*tokens),
    ));
    if *dropped > 0 {
        output::message(&format!(
            "the policy left {} out; --policy none takes all that fit",
            output::counted(*dropped as u64, "older one", "older ones"),
        ));
    }
    if *compacted > 0 {
        output::message(&format!(
            "{of} had replaced {} by a summary; `lookback uncompact` shows what that dropped",
            output::counted(*compacted as u64, "message", "messages"),
        ));
    }
    if *parts_left_out > 0 {
        output::message(&format!(
            "left out: {}: files, or tools of {of}'s provider",
            output::counted(*parts_left_out as u64, "part", "parts")
        ));
    }
    if let Some(file) = file {
        let until = if *is_imported { "delete it when it is imported" } else { "delete it to undo this" };
        output::message(&format!("written: {} ({until})", file.display()));
    }
    if !commands.is_empty() {
        output::message("\nTo continue, run:");
    }
    commands.iter().try_for_each(|command| output::line(command))?;
    Ok(())
}

/// Writes a note to paste into the other agent.
fn write_note(
    args: &HandoffArgs,
    from: From<'_>,
    recording: &Recording,
    messages: &[Message],
) -> Result<ExitCode, Failure> {
    let counter = input::settings(args.model.name.as_deref()).counter;
    let note = note::of(recording, messages, &counter, args.tokens);
    let done = Done {
        agent: args.to,
        from,
        file: None,
        messages: messages.len(),
        tokens: counter.text(&note),
        compacted: compacted(recording),
        dropped: 0,
        parts_left_out: 0,
        commands: Vec::new(),
        note: Some(&note),
        is_imported: false,
    };
    if args.json {
        output::result(&output::json(&done)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(out) = &args.out {
        if out.exists() {
            return Err(Failure::Exists(out.display().to_string()));
        }
        AtomicFile::begin_private(out)?.finish(&note)?;
        output::message(&format!(
            "{} resumes no conversation from a file. Paste the note in {}",
            args.to,
            out.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.note {
        output::message(&format!("{} resumes no conversation from a file. Paste this note:\n", args.to));
    }
    output::result(&note)?;
    Ok(ExitCode::SUCCESS)
}
