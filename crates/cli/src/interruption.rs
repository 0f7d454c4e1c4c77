//! Ctrl-C: ends a long command early, so that it can print its results so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// The exit code of a command that Ctrl-C ended, by the convention of shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns a flag that is set when Ctrl-C is pressed. A second Ctrl-C ends the program at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let pressed = interrupted.clone();
    let handler = move || {
        if pressed.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    ctrlc::set_handler(handler).map_err(Failure::Handler)?;
    Ok(interrupted)
}
