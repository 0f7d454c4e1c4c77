//! An error with its causes, in one line.

use std::error::Error;
use std::iter::successors;

/// Returns the messages of an error and its causes.
pub(crate) fn chained(error: &(dyn Error + 'static)) -> String {
    let causes = successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
