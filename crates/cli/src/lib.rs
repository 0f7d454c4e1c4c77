//! The command line of Lookback, as a function that the packages for other languages call too.
//!
//! ```
//! assert_eq!(lookback_cli::run(["lookback", "rules", "AM2"]), 0);
//! ```

mod args;
mod atomic_file;
mod changes;
mod commands;
mod exit;
mod failure;
mod findings;
#[cfg(any(test, not(all(feature = "postgres", feature = "redis", feature = "server"))))]
#[cfg_attr(all(feature = "postgres", feature = "redis", feature = "server"), allow(dead_code))]
mod full;
mod hooks;
mod input;
mod interruption;
mod json;
mod location;
mod output;
mod pages;
mod recordings;
mod report;
mod setup;
mod store;
#[cfg(feature = "otel")]
mod telemetry;
mod warnings;

use std::ffi::OsString;

use clap::Parser;

/// Runs a command and returns its exit code. The first argument is the name of the program.
///
/// The exit code is 0 if the answer is yes, 1 if it is no, 2 if the input or the command line is invalid or something
/// failed, and 130 after Ctrl-C.
///
/// Writes to standard output and standard error. Call it at most once in a process.
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let is_of_person = |arg: &OsString| ["--off", "--on", "--hidden"].iter().any(|option| arg == option);
    let is_hook = args.get(1).is_some_and(|command| command == "hook") && !args.iter().any(is_of_person);
    let code = run_command(args);
    // With 2, a hook would stop its agent.
    if is_hook { 0 } else { code }
}

fn run_command(args: Vec<OsString>) -> u8 {
    #[cfg(not(all(feature = "postgres", feature = "redis", feature = "server")))]
    if full::is_needed(&args) {
        return full::run(&args).unwrap_or_else(|failure| report::report(&failure).number());
    }
    let args = match args::Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            // If standard error is closed, there is nowhere to report that.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    warnings::print();
    commands::run(args).unwrap_or_else(|failure| report::report(&failure)).number()
}
