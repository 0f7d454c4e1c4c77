//! Functions without a session: they return the window, the repair or the broken rules of one request.

use lookback_engine::{Engine, Settings, policy::Policy};
use lookback_summarize::calls;
use lookback_wire::dialect::{Dialect, Request};
use serde_json::Value;

use crate::annotated::with_words;
use crate::options::settings;
use crate::{Failure, Model, Window};

/// Returns the window of a request. The request is the JSON of a list of messages or of a request body.
///
/// The window is the one that a session would send if it had seen the conversation message by message. So a longer
/// request of the same conversation begins with the same bytes until the next compaction. Without a model, the
/// request's own model counts.
///
/// # Errors
/// Returns an error if the text is not a request, or if a hard limit of the policy is exceeded.
pub fn fit(request: &str, model: &Model, policy: Option<Policy>) -> Result<Window, Failure> {
    let request = read(request, model)?;
    let name = model.name.as_deref().or(request.model());
    run(settings(request.dialect(), name, policy.unwrap_or_else(Policy::production)), &request)
}

/// Returns a request that is only repaired: it keeps everything that its provider accepts.
///
/// # Errors
/// Returns an error if the text is not a request.
pub fn repair(request: &str, model: &Model) -> Result<Window, Failure> {
    let request = read(request, model)?;
    run(Settings::default().dialect(request.dialect()).policy(Policy::never_compact()), &request)
}

/// Returns the rules that a request breaks as JSON, each with its identifier, its place and the problem.
///
/// # Errors
/// Returns an error if the text is not a request.
pub fn check(request: &str, model: &Model) -> Result<String, Failure> {
    let request = read(request, model)?;
    let findings = request.dialect().check(&request);
    let told = findings.iter().map(|finding| with_words(finding, &finding.problem.to_string()));
    Ok(Value::from_iter(told).to_string())
}

fn read(request: &str, model: &Model) -> Result<Request, Failure> {
    // The form of the request identifies the dialect better than the model's name, so only a named dialect is passed.
    let dialect: Option<Dialect> = model.dialect.as_deref().map(crate::dialect).transpose()?;
    let mut request = Request::decode(request.to_owned(), dialect)?;
    if let Some(name) = &model.provider {
        let provider = name.parse().map_err(|error| Failure::decode("provider", format_args!("{error}")))?;
        request = request.with_provider(provider);
    }
    request = model.path.iter().fold(request, |request, path| request.with_path(path));
    Ok(model.name.iter().fold(request, Request::with_model))
}

fn run(settings: Settings, request: &Request) -> Result<Window, Failure> {
    let mut engine = Engine::new(settings);
    let mut run = calls::run_request(&mut engine, request, &mut |_| None, &mut |_| {})?;
    if let Some(exceeded) = run.outcome.exceeded.take() {
        return Err(lookback_session::Error::from(exceeded).into());
    }
    let view = run.outcome.on_read.take().map_or_else(|| engine.view().clone(), |view| *view);
    Ok(Window::from_engine(&engine, view, run.entries))
}
