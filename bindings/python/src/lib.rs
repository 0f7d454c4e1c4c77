//! Lookback for Python: the native part of the package `lookback`.
//!
//! Messages come in as what Python people have (`input.rs`), the engine works without the interpreter's lock, and windows
//! go out as dictionaries, as bytes, or as decisions about what came in (`window.rs`).

mod errors;
mod input;
mod output;
mod positions;
mod session;
mod settings;
mod stateless;
mod window;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::stateless::{check, fit, repair};
    #[pymodule_export]
    use super::window::{Source, Window};
}
