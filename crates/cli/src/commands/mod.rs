//! The commands, one per file.

mod causes;
mod check;
mod facts;
mod forget;
mod front;
mod handoff;
mod hook;
#[cfg(feature = "server")]
mod inspect;
#[cfg(feature = "server")]
mod mcp;
mod recall;
mod replay;
mod rules;
#[cfg(feature = "server")]
mod serve;
mod sessions;
mod setup;
mod store;
mod tune;
mod uncompact;
mod week;
mod window;

use crate::exit::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, Command};
use crate::failure::Failure;

/// Runs the command and returns the exit code.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Window(args) => window::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Uncompact(args) => uncompact::run(&args),
        Command::Handoff(args) => handoff::run(args),
        Command::Setup(args) => setup::run(&args),
        Command::Undo(args) => setup::undo(&args),
        Command::Hook(args) => hook::run(&args),
        Command::Forget(args) => forget::run(&args),
        Command::Week(args) => week::run(args),
        Command::Sessions(command) => sessions::run(command),
        Command::Facts(command) => facts::run(command),
        Command::Recall(args) => recall::run(args),
        Command::Store(command) => store::run(command),
        #[cfg(feature = "server")]
        Command::Inspect(args) => inspect::run(args),
        #[cfg(feature = "server")]
        Command::Mcp(args) => mcp::run(args),
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::run(args),
        #[cfg(not(feature = "server"))]
        Command::Inspect | Command::Mcp | Command::Serve => Err(Failure::NoServers),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "lookback", &mut script);
            crate::output::result(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
