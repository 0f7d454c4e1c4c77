//! Lookback for Python: the native part of the package `lookback`.
//!
//! Python values become JSON text (`input.rs`). The calls of `lookback-bindings` run without the interpreter's lock.
//! Windows are returned as dictionaries, as bytes, or as the sources of their messages (`window.rs`).

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
