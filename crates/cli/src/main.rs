//! The `lookback` command: parses the command line, runs the command, and reports its error.

mod args;
mod changes;
mod commands;
mod failure;
mod input;
mod interruption;
mod json;
mod output;
mod recordings;
mod store;
#[cfg(feature = "otel")]
mod telemetry;
mod warnings;
mod written;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    warnings::print();
    match commands::run(args) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
