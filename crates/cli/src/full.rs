//! Commands and stores that a small build lacks. In a clone, `cargo run` builds the full program when one is first
//! used.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// The commands that need the feature `server`, or set up agents to start one that does.
const COMMANDS: [&str; 4] = ["inspect", "mcp", "serve", "setup"];
/// The URL schemes of stores on a server.
const SERVERS: [&str; 6] = ["postgres://", "postgresql://", "redis://", "rediss://", "valkey://", "valkeys://"];

/// Returns whether a command line or the environment needs more than this build has.
pub(crate) fn is_needed(args: &[OsString]) -> bool {
    let is_server = |text: &OsStr| {
        let text = text.to_string_lossy();
        let value = text.strip_prefix("--store=").unwrap_or(&text);
        SERVERS.iter().any(|begin| value.starts_with(begin))
    };
    let command = args.iter().skip(1).find(|arg| *arg != "help" && !arg.to_string_lossy().starts_with('-'));
    command.is_some_and(|command| COMMANDS.iter().any(|known| command == known))
        || args.iter().any(|arg| is_server(arg))
        || env::var_os("LOOKBACK_STORE").is_some_and(|place| is_server(&place))
}

/// Runs the same command with a full build, which `cargo run` makes, and returns its exit code. Returns an error if
/// `cargo run` did not start this program.
pub(crate) fn run(args: &[OsString]) -> Result<u8, Failure> {
    let here = env!("CARGO_MANIFEST_DIR");
    let is_run_by_cargo = env::var_os("CARGO_MANIFEST_DIR").is_some_and(|folder| folder == here);
    let cargo = if is_run_by_cargo { env::var_os("CARGO") } else { None };
    let mut command = Command::new(cargo.ok_or(Failure::NoServers)?);
    command.args(["run", "--features", "full", "--manifest-path"]).arg(format!("{here}/Cargo.toml"));
    // The folder of a program has the name of its profile, except for that of the profile `dev`.
    let program = env::current_exe()?;
    if let Some(profile) = program.parent().and_then(Path::file_name).filter(|profile| *profile != "debug") {
        command.arg("--profile").arg(profile);
    }
    command.arg("--").args(args.iter().skip(1));
    replace(command).map_err(Failure::from)
}

/// Replaces this process by the command, so that signals reach it.
#[cfg(unix)]
fn replace(mut command: Command) -> io::Result<u8> {
    use std::os::unix::process::CommandExt;

    Err(command.exec())
}

#[cfg(not(unix))]
fn replace(mut command: Command) -> io::Result<u8> {
    let code = command.status()?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_their_stores_are_told_from_the_rest() {
        let is_needed = |line: &str| is_needed(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(is_needed("lookback serve --upstream https://api.openai.com"));
        assert!(is_needed("lookback inspect") && is_needed("lookback help mcp"));
        assert!(is_needed("lookback setup pi") && !is_needed("lookback undo") && !is_needed("lookback hook pi"));
        assert!(is_needed("lookback sessions list --store postgres://db/agents"));
        assert!(is_needed("lookback sessions list --store=valkey://db"));
        assert!(!is_needed("lookback"));
        assert!(!is_needed("lookback replay serve.jsonl --html redis.html"));
        assert!(!is_needed("lookback --help"));
    }
}
