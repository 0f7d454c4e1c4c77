//! Functions without a session: on one request, a recording, policies, presets and prices, and the command line.

use std::path::Path;

use lookback_bindings::{self as bindings, Model, Replayed};
use napi_derive::napi;

use crate::errors::done;
use crate::window::NativeWindow;

/// A model, and the name of its dialect.
#[napi(object)]
#[derive(Debug, Default)]
pub struct NativeModel {
    /// Its name.
    pub model: Option<String>,
    /// The name of the dialect.
    pub dialect: Option<String>,
    /// The name of the provider.
    pub provider: Option<String>,
    /// The path of the URL that a request is sent to.
    pub path: Option<String>,
}

impl From<NativeModel> for Model {
    fn from(model: NativeModel) -> Model {
        Model { name: model.model, dialect: model.dialect, provider: model.provider, path: model.path }
    }
}

/// Reads a policy, if one is given.
pub(crate) fn policy(text: Option<String>) -> Result<Option<lookback_engine::policy::Policy>, bindings::Failure> {
    text.map(|text| bindings::policy(&text)).transpose()
}

/// Returns the window of a request.
#[napi]
pub fn fit(request: String, model: NativeModel, policy: Option<String>) -> napi::Result<NativeWindow> {
    let fit = || bindings::fit(&request, &model.into(), self::policy(policy)?);
    done(fit()).map(NativeWindow::from)
}

/// Returns a request that is only repaired.
#[napi]
pub fn repair(request: String, model: NativeModel) -> napi::Result<NativeWindow> {
    done(bindings::repair(&request, &model.into())).map(NativeWindow::from)
}

/// Returns the rules that a request breaks, as JSON.
#[napi]
pub fn check(request: String, model: NativeModel) -> napi::Result<String> {
    done(bindings::check(&request, &model.into()))
}

/// Replays a recording: a file if `is_file` is set, otherwise its text. Returns what it sent and cost as JSON.
#[napi]
pub fn replay(
    recording: String,
    is_file: bool,
    model: NativeModel,
    policy: Option<String>,
    price: String,
) -> napi::Result<String> {
    let what = if is_file { Replayed::File(Path::new(&recording)) } else { Replayed::Text(&recording) };
    let replay = || bindings::replay(what, &model.into(), self::policy(policy)?, &price);
    done(replay())
}

/// Returns a policy as JSON, including all defaults.
#[napi]
pub fn policy_document(text: Option<String>) -> napi::Result<String> {
    let policy = done(policy(text))?.unwrap_or_else(lookback_engine::policy::Policy::production);
    Ok(bindings::policy_document(&policy))
}

/// Returns a policy as TOML.
#[napi]
pub fn policy_toml(text: Option<String>) -> napi::Result<String> {
    let policy = done(policy(text))?.unwrap_or_else(lookback_engine::policy::Policy::production);
    done(bindings::policy_toml(&policy))
}

/// Returns the name and purpose of each preset as JSON.
#[napi]
pub fn presets() -> String {
    bindings::presets()
}

/// Returns all built-in prices as JSON.
#[napi]
pub fn prices() -> String {
    bindings::prices()
}

/// Runs the command line and returns its exit code.
#[napi]
pub fn command_line(args: Vec<String>) -> u8 {
    lookback_cli::run(args)
}
