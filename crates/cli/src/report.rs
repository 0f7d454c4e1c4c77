//! The report of a failed command.

use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::output;

/// Prints the error and its causes to standard error, and returns the exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    if failure.is_gone_reader() {
        return ExitCode::SUCCESS;
    }
    if failure.has_lines() {
        output::error_with_lines(failure);
    } else {
        output::error(failure);
    }
    let mut said = failure.to_string();
    let mut source = std::error::Error::source(failure);
    while let Some(cause) = source {
        let why = cause.to_string();
        // Some libraries include the cause in the message.
        if !said.ends_with(&why) {
            output::note(&format!("because: {why}"));
        }
        said = why;
        source = cause.source();
    }
    ExitCode::from(failure.code())
}
