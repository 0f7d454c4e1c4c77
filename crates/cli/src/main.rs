//! The `lookback` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(lookback_cli::run(std::env::args_os()))
}
