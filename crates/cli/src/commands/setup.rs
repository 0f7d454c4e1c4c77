//! `lookback setup` and `lookback undo`: the settings of agents, with Lookback and as they were before.

use std::env;
use std::path::{Path, PathBuf};

use lookback_recordings::Home;
use similar::TextDiff;

use crate::args::{SetupArgs, UndoArgs};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::setup::{self, ALL, Agent, Manifest, Step};
use crate::{hooks, output};

pub(crate) fn run(args: &SetupArgs) -> Result<ExitCode, Failure> {
    let home = Home::of_user().ok_or(Failure::NoDataFolder)?;
    let program = match &args.program {
        Some(program) => std::path::absolute(program)?,
        None => env::current_exe()?,
    };
    let is_chosen = |agent: &&&dyn Agent| match args.agents.is_empty() {
        true => is_on_path(agent.program()),
        false => args.agents.iter().any(|name| name == agent.slug()),
    };
    let agents: Vec<&&dyn Agent> = ALL.iter().filter(is_chosen).collect();
    if agents.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|agent| agent.slug()).collect();
        output::message(&format!("no agent was found on the PATH; name one: {}", names.join(", ")));
        return Ok(ExitCode::from(1));
    }
    let mut steps = Vec::new();
    for agent in &agents {
        steps.extend(setup::plan(**agent, &home, &program)?);
    }
    if args.dry_run {
        return show(&steps, "nothing to change: all is set up");
    }
    setup::write(&steps, &mut Manifest::read()?)?;
    list(&steps, "set up")?;
    for agent in agents {
        if let Some(advice) = agent.advice() {
            output::message(&format!("{}: {advice}", agent.name()));
        }
    }
    output::message("`lookback undo` restores every file");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn undo(args: &UndoArgs) -> Result<ExitCode, Failure> {
    let mut manifest = Manifest::read()?;
    let steps = setup::plan_undo(&manifest)?;
    if args.dry_run {
        return show(&steps, "nothing to undo");
    }
    setup::undo(&steps, &mut manifest)?;
    if steps.is_empty() {
        output::line("nothing to undo: `lookback setup` has written no file")?;
    } else {
        list(&steps, "undone")?;
    }
    let left: Vec<&str> = manifest.agents().collect();
    if !left.is_empty() {
        output::warning(&format!("mend these files, and run `lookback undo` again: {}", left.join(", ")));
    }
    if args.forget {
        let logs = hooks::forget_all()?;
        output::line(&format!("deleted {} that hooks have kept", output::counted(logs, "log", "logs")))?;
    }
    Ok(ExitCode::from(u8::from(!left.is_empty())))
}

/// Writes a line for each file.
fn list(steps: &[Step], done: &str) -> Result<(), Failure> {
    for step in steps {
        let says = match (&step.note, step.changes()) {
            (Some(note), _) => note.to_string(),
            (None, true) => done.to_owned(),
            (None, false) => "nothing to change".to_owned(),
        };
        let path = output::plain(&step.path.display().to_string());
        output::line(&format!("{}: {path}: {says}", step.agent))?;
    }
    Ok(())
}

/// Writes the changes as a patch. Files that are left alone are named.
fn show(steps: &[Step], nothing: &str) -> Result<ExitCode, Failure> {
    for step in steps {
        let path = step.path.display().to_string();
        if let Some(note) = &step.note {
            output::message(&format!("{}: {}: {note}", step.agent, output::plain(&path)));
        }
        if step.changes() {
            let [before, after] = [&step.before, &step.after].map(|text| text.as_deref().unwrap_or_default());
            let diff = TextDiff::from_lines(before, after);
            output::result(&diff.unified_diff().header(&path, &path).to_string())?;
        }
    }
    if !steps.iter().any(Step::changes) {
        output::line(nothing)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a program is on the PATH.
fn is_on_path(program: &str) -> bool {
    let name = format!("{program}{}", env::consts::EXE_SUFFIX);
    let folders = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<PathBuf>>());
    folders.unwrap_or_default().iter().any(|folder| is_program(&folder.join(&name)))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file() || path.with_extension("cmd").is_file()
}
