//! Functions without a session: on one request, on a recording, on presets and prices, and the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lookback_bindings::{self as bindings, Model, Replayed};
use pyo3::prelude::*;

use crate::errors::detached;
use crate::window::Window;
use crate::{input, output, policy};

fn model(name: Option<String>, dialect: Option<String>) -> Model {
    Model { name, dialect, ..Model::default() }
}

/// Returns the window of a request: a list of messages, or a request body.
#[pyfunction]
#[pyo3(signature = (request, *, model=None, dialect=None, policy=None))]
pub(crate) fn fit(
    request: &Bound<'_, PyAny>,
    model: Option<String>,
    dialect: Option<String>,
    policy: Option<&Bound<'_, PyAny>>,
) -> PyResult<Window> {
    let (text, model, policy) = (input::request(request)?, self::model(model, dialect), policy::read(policy)?);
    detached(request.py(), || bindings::fit(&text, &model, policy)).map(Window::from)
}

/// Returns a request that is only repaired: it keeps everything that its provider accepts.
#[pyfunction]
#[pyo3(signature = (request, *, model=None, dialect=None, provider=None, path=None))]
pub(crate) fn repair(
    request: &Bound<'_, PyAny>,
    model: Option<String>,
    dialect: Option<String>,
    provider: Option<String>,
    path: Option<String>,
) -> PyResult<Window> {
    let (text, model) = (input::request(request)?, Model { name: model, dialect, provider, path });
    detached(request.py(), || bindings::repair(&text, &model)).map(Window::from)
}

/// Returns the rules that a request breaks, each with its identifier, its place and the problem.
#[pyfunction]
#[pyo3(signature = (request, *, model=None, dialect=None, provider=None, path=None))]
pub(crate) fn check<'py>(
    request: &Bound<'py, PyAny>,
    model: Option<String>,
    dialect: Option<String>,
    provider: Option<String>,
    path: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let (text, model) = (input::request(request)?, Model { name: model, dialect, provider, path });
    output::json(request.py(), &detached(request.py(), || bindings::check(&text, &model))?)
}

/// Replays a recorded conversation message by message, and returns what its windows would have sent and cost.
#[pyfunction]
#[pyo3(signature = (recording, *, model=None, dialect=None, policy=None, price="anthropic-5m"))]
pub(crate) fn replay<'py>(
    recording: &Bound<'py, PyAny>,
    model: Option<String>,
    dialect: Option<String>,
    policy: Option<&Bound<'py, PyAny>>,
    price: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, model, policy) = (recording.py(), self::model(model, dialect), policy::read(policy)?);
    let told = if input::has_messages(recording) {
        let text = input::request(recording)?;
        detached(py, || bindings::replay(Replayed::Text(&text), &model, policy, price))
    } else {
        let path: PathBuf = recording.extract()?;
        detached(py, || bindings::replay(Replayed::File(&path), &model, policy, price))
    };
    output::json(py, &told?)
}

/// Returns the name and purpose of each preset.
#[pyfunction]
pub(crate) fn presets(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    output::json(py, &bindings::presets())
}

/// Returns all built-in prices by name.
#[pyfunction]
pub(crate) fn prices(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    output::json(py, &bindings::prices())
}

/// Runs the command line and returns its exit code.
#[pyfunction]
pub(crate) fn command_line(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| lookback_cli::run(args))
}
