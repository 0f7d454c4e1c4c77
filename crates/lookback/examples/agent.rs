//! A small agent: a model, three tools that read the files of a folder, and Lookback, which manages the model's window
//! and memory.
//!
//! ```text
//! agent [--session-id NAME] [--dialect openai-chat|anthropic] [--store FILE|FOLDER/|URL] [--root FOLDER]
//!       [--budget TOKENS] [--iterations NUMBER] [TASK]
//! ```
//!
//! Without `--session-id`, it begins a new session. Without a task, it finishes an interrupted task of the session, and
//! then reads one task from each line of the input. Address, key and model come from `OPENAI_BASE_URL`,
//! `OPENAI_API_KEY` and `OPENAI_MODEL`, or from the same variables with `ANTHROPIC`.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{env, error::Error, fmt, fs, io::stdin, process, process::ExitCode, str::FromStr};

use lookback::memory::{Memory, tools::tools};
use lookback::middleware::{Budget, Call, CallUsage, ContextFilter, Pipeline, Stopped, ToolUse};
use lookback::policy::named;
use lookback::store::Location;
use lookback::{Dialect, Message, ProviderError, Request, Response, Session, Settings, ToolCall};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use ureq::{Agent, RequestBuilder, typestate::WithBody};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
const SYSTEM: &str = "You answer questions about the files of a folder. Look first. Remember what matters later.";
/// Each tool's name, description and argument. The tools of the memory are added to these.
const TOOLS: [[&str; 3]; 3] = [
    ["list", "Lists a folder; `.` is the first one.", "path"],
    ["read", "Reads a text file.", "path"],
    ["search", "Finds the lines that contain a text, in all files.", "text"],
];

#[tokio::main]
async fn main() -> ExitCode {
    let done = run(env::args().skip(1).collect()).await;
    done.inspect_err(|error| eprintln!("agent: {error}")).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

async fn run(mut arguments: Vec<String>) -> Result<()> {
    let new = format!("agent-{}-{}", UNIX_EPOCH.elapsed()?.as_millis(), process::id());
    let name: String = option(&mut arguments, "--session-id", &new)?;
    let dialect: Dialect = option(&mut arguments, "--dialect", "openai-chat")?;
    // The default store of the command line, so that `lookback sessions` shows the agent's sessions.
    let usual = env::var("LOOKBACK_STORE").ok().filter(|path| !path.is_empty());
    let place: String = option(&mut arguments, "--store", usual.as_deref().unwrap_or(".lookback/lookback.db"))?;
    let root = option::<PathBuf>(&mut arguments, "--root", ".")?;
    let root = &root.canonicalize().map_err(|error| format!("--root {}: {error}", root.display()))?;
    let (budget, most) = (option(&mut arguments, "--budget", "200000")?, option(&mut arguments, "--iterations", "30")?);
    let task = match &arguments[..] {
        [] => None,
        [task] if !task.starts_with("--") => Some(task),
        _ => return Err("give the options first, and then the task in quotes".into()),
    };
    let (_, template) = request(dialect, "auto")?;
    let settings = Settings::for_model(dialect, template.model().unwrap_or_default());
    let opened = spawn_blocking(move || -> Result<_> {
        let place = Location::parse(place)?;
        place.path().and_then(Path::parent).map_or(Ok(()), fs::create_dir_all)?;
        Ok(place.open()?)
    });
    let store = opened.await??;
    let mut session = Session::open(store.clone(), &name, settings).await?;
    session.set_preamble(template.preamble()).await?;
    if dialect == Dialect::OpenAiChat && session.stats().messages == 0 {
        session.push(Message::system(SYSTEM)).await?;
    }
    let (memory, unfinished) = (Memory::open(store, &name).await?, session.is_unfinished());
    let window = ContextFilter::new(named("two-tier:sliding_window_size=20,target_rounds=10")?);
    let mut run = Pipeline::standard(session, Budget::reported(budget), window, memory).with_iterations(most);
    eprintln!("the session is {name}");
    if let Some(task) = task {
        // If the session was interrupted in the middle of this task, the run continues there. Otherwise the task is
        // appended after the last turns.
        run.start(Message::user(task)).await?;
        return carry_out(&mut run, dialect, root).await;
    }
    if unfinished {
        carry_out(&mut run, dialect, root).await?;
    }
    eprintln!("enter one task per line; end the input to exit");
    while let Some(line) = spawn_blocking(|| stdin().lines().next()).await?.transpose()? {
        if !line.trim().is_empty() {
            run.start(Message::user(line)).await?;
            carry_out(&mut run, dialect, root).await?;
        }
    }
    Ok(())
}

/// Drives a run to its end, and prints the answer.
async fn carry_out(run: &mut Pipeline, dialect: Dialect, root: &Path) -> Result<()> {
    let mut answer = String::new();
    while let Some(call) = run.next().await? {
        // The HTTP client and the tools block, so each call runs on its own thread.
        let (status, body) = spawn_blocking(move || send(dialect, &call)).await??;
        if status != 200 {
            let ProviderError::TooLong(cause) = dialect.provider_error(Some(status), &body) else {
                return Err(format!("the provider answers with status {status}: {body:.500}").into());
            };
            eprintln!("{cause}; making the request smaller");
            run.overflow(cause).await?;
            continue;
        }
        let response =
            Response::decode(&body, dialect).map_err(|error| format!("cannot read the model's answer: {error}"))?;
        answer = response.text();
        for tool in run.answered(response.message.clone(), CallUsage::from_response(&response)).await? {
            eprintln!("{} {}", tool.name, tool.arguments);
            let root = root.to_owned();
            run.tool(&tool, |call| async move { spawn_blocking(move || files(&root, &call)).await? }).await?;
        }
    }
    // A failed middleware did not end the run, but the user should know about it.
    if let Some(failure) = run.failures().last() {
        let why = failure.cause.source().map_or_else(|| failure.cause.to_string(), ToString::to_string);
        eprintln!("{failure}: {why}");
    }
    match run.stopped() {
        Some(stopped @ (Stopped::Answered | Stopped::LastAnswer(_))) => eprintln!("{stopped}"),
        stopped => return Err(stopped.map_or_else(String::new, Stopped::to_string).into()),
    }
    println!("{answer}");
    Ok(())
}

/// Sends a call, and returns the status and the body of the response.
fn send(dialect: Dialect, call: &Call) -> Result<(u16, String)> {
    let (post, request) = request(dialect, if call.tools == ToolUse::Allowed { "auto" } else { "none" })?;
    let said = post.send(request.with_messages(&call.messages()?));
    let said = said.and_then(|mut said| Ok((said.status().as_u16(), said.body_mut().read_to_string()?)));
    Ok(said.map_err(|error| format!("cannot reach the provider: {error}"))?)
}

/// Builds the parts of a request that differ between providers: the address, the headers, and the body except messages.
fn request(dialect: Dialect, choice: &str) -> Result<(RequestBuilder<WithBody>, Request)> {
    let (provider, address) = match dialect {
        Dialect::OpenAiChat => ("OPENAI", "https://api.openai.com/v1"),
        Dialect::Anthropic => ("ANTHROPIC", "https://api.anthropic.com"),
        _ => return Err("this agent supports only openai-chat and anthropic".into()),
    };
    let told = |what: &str| env::var(format!("{provider}_{what}")).map_err(|_| format!("{provider}_{what} is not set"));
    let (base, key, model) = (told("BASE_URL").unwrap_or(address.to_owned()), told("API_KEY")?, told("MODEL")?);
    let own = TOOLS.map(|[name, description, argument]| {
        let properties = json!({argument: {"type": "string"}});
        dialect.tool(name, description, &json!({"type": "object", "properties": properties, "required": [argument]}))
    });
    let tools: Vec<Value> = own.into_iter().chain(tools().iter().map(|tool| tool.for_dialect(dialect))).collect();
    let limits = Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_mins(10)));
    let post = |path| Agent::from(limits.build()).post(base.trim_end_matches('/').to_owned() + path);
    let (post, body) = if dialect == Dialect::Anthropic {
        let post = post("/v1/messages").header("x-api-key", key).header("anthropic-version", "2023-06-01");
        let body = json!({"model": model, "max_tokens": 4096, "system": SYSTEM, "tools": tools,
            "tool_choice": {"type": choice}, "cache_control": {"type": "ephemeral"}, "messages": []});
        (post, body)
    } else {
        let post = post("/chat/completions").header("authorization", format!("Bearer {key}"));
        (post, json!({"model": model, "tools": tools, "tool_choice": choice, "messages": []}))
    };
    Ok((post.content_type("application/json"), Request::decode(body.to_string(), Some(dialect))?))
}

/// Runs a tool. A long result is shortened in the window only; the session's log keeps all of it.
fn files(root: &Path, call: &ToolCall) -> Result<String> {
    let arguments: Value = serde_json::from_str(&call.arguments)?;
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).ok_or(format!("`{name}` must be a text"));
    // Paths outside the folder do not exist for the tools, whether by `..` or by a link.
    let path = || -> Result<PathBuf> {
        let path = root.join(text("path")?).canonicalize().ok().filter(|path| path.starts_with(root));
        Ok(path.ok_or("the folder has no such path")?)
    };
    let mut lines = Vec::new();
    match call.name.as_str() {
        "list" => lines.extend(fs::read_dir(path()?)?.flatten().map(|it| it.file_name().display().to_string())),
        "read" => lines.push(fs::read_to_string(path()?)?),
        "search" => search(root, root, text("text")?, &mut lines)?,
        name => return Err(format!("there is no tool `{name}`").into()),
    }
    lines.sort();
    Ok(lines.join("\n"))
}

/// Searches the files of all folders that are not hidden. It does not follow links.
fn search(root: &Path, folder: &Path, text: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind, name) = entry.and_then(|it| Ok((it.path(), it.file_type()?, it.file_name())))?;
        if kind.is_dir() && !name.as_encoded_bytes().starts_with(b".") {
            search(root, &path, text, found)?;
        }
        let content = if kind.is_file() { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        let lines = content.lines().enumerate().filter(|(_, line)| line.contains(text));
        let name = path.strip_prefix(root)?.display();
        found.extend(lines.map(|(number, line)| format!("{name}:{:04}: {line}", number + 1)));
    }
    Ok(())
}

/// Removes an option from the arguments, given as `NAME VALUE` or `NAME=VALUE`, and returns its value.
fn option<T: FromStr<Err: fmt::Display>>(arguments: &mut Vec<String>, name: &str, otherwise: &str) -> Result<T> {
    let rest = |argument: &String| argument.strip_prefix(name).is_some_and(|it| it.is_empty() || it.starts_with('='));
    let value = match arguments.iter().position(rest) {
        None => otherwise.to_owned(),
        Some(at) => match arguments.remove(at).split_once('=') {
            Some((_, value)) => value.to_owned(),
            None if at < arguments.len() => arguments.remove(at),
            None => return Err(format!("{name} needs a value").into()),
        },
    };
    value.parse().map_err(|error| format!("{name} {value}: {error}").into())
}
