//! What needs no session: one request in, and its window, its repair or its mistakes out.

use lookback::explain::outcomes;
use lookback::transcript::Entry;
use lookback::{Dialect, Engine, Policy, Request, Settings, calls, words};
use pyo3::prelude::*;
use serde_json::Value;

use crate::output::{told, why};
use crate::window::Window;
use crate::{errors, input, output, settings};

/// Returns the window of a request: a list of messages, or all that is sent with them.
///
/// It is what a session would send that had seen the conversation message by message, so a longer request of the same
/// conversation begins with the same bytes until the next cut. If the model is not given, it is the request's.
#[pyfunction]
#[pyo3(signature = (request, *, model=None, dialect=None, policy=None))]
pub(crate) fn fit(
    request: &Bound<'_, PyAny>,
    model: Option<&str>,
    dialect: Option<&str>,
    policy: Option<&Bound<'_, PyAny>>,
) -> PyResult<Window> {
    let py = request.py();
    let policy = settings::policy(policy)?;
    let request = read(request, dialect, model)?;
    let settings = settings::settings(request.dialect(), model.or(request.model()), policy);
    run(py, settings, &request)
}

/// Returns a request with repairs alone: nothing is left out that its provider accepts.
#[pyfunction]
#[pyo3(signature = (request, *, dialect=None))]
pub(crate) fn repair(request: &Bound<'_, PyAny>, dialect: Option<&str>) -> PyResult<Window> {
    let py = request.py();
    let request = read(request, dialect, None)?;
    run(py, Settings::default().dialect(request.dialect()).policy(Policy::never_compact()), &request)
}

/// Returns the rules of its provider that a request breaks, each with its number, its place and what is wrong.
#[pyfunction]
#[pyo3(signature = (request, *, dialect=None))]
pub(crate) fn check<'py>(request: &Bound<'py, PyAny>, dialect: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let py = request.py();
    let request = read(request, dialect, None)?;
    let findings = py.detach(|| request.dialect().check(&request));
    let told = findings.iter().map(|finding| told(finding, &words::problem(&finding.problem)));
    output::json(py, &Value::from_iter(told).to_string())
}

fn read(request: &Bound<'_, PyAny>, dialect: Option<&str>, model: Option<&str>) -> PyResult<Request> {
    let py = request.py();
    // What the request looks like tells more than the model's name.
    let dialect: Option<Dialect> = dialect.map(|name| settings::dialect(py, Some(name), model)).transpose()?;
    let text = input::request(request)?;
    py.detach(|| Request::decode(text, dialect)).map_err(|error| errors::request(py, &error))
}

fn run(py: Python<'_>, settings: Settings, request: &Request) -> PyResult<Window> {
    let dialect = request.dialect();
    let made = py.detach(|| -> Result<Window, lookback::Error> {
        let mut engine = Engine::new(settings);
        let mut run = calls::run_request(&mut engine, request, &mut |_| None, &mut |_| {})?;
        if let Some(exceeded) = run.outcome.exceeded.take() {
            return Err(exceeded.into());
        }
        let view = run.outcome.on_read.take().map_or_else(|| engine.view().clone(), |view| *view);
        let told = why(&outcomes(&run.entries, &view, dialect, &engine.explain()));
        let compacted = run.entries.iter().any(|entry| matches!(entry, Entry::Compaction(_)));
        let (tokens, over) = (engine.tokens(&view), engine.over(&view));
        Ok(Window::new(view, dialect, tokens, over).told(compacted, told))
    });
    made.map_err(|error| errors::session(py, &error))
}
