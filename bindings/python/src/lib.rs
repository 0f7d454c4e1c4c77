//! Lookback for Python: the native part of the package `lookback`.
//!
//! What Python has becomes JSON text (`input.rs`), the calls of `lookback-bindings` work without the interpreter's lock,
//! and windows go out as dictionaries, as bytes, or as decisions about what came in (`window.rs`).

mod callbacks;
mod errors;
mod functions;
mod input;
mod interpreter;
mod logging;
mod memory;
mod output;
mod policy;
mod session;
mod window;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::callbacks::{Answer, Ask};
    #[pymodule_export]
    use super::functions::{check, command_line, fit, presets, prices, repair, replay};
    #[pymodule_export]
    use super::interpreter::ends;
    #[pymodule_export]
    use super::memory::Memory;
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::window::{Source, Window};
}
