//! Serves the inspector on its own address.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Extension;
use axum::middleware::from_fn_with_state;

use super::gate::{Gate, admit};
use super::{Inspector, pages};
use crate::listen::ListenOptions;
use crate::serving::{ServeError, wide_runtime};

/// How long open requests may take after the process was asked to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the pages until the process is asked to stop.
///
/// Calls `ready` with the address, including the port that the system picked, when the server listens.
///
/// # Errors
/// Returns an error if a token is required and missing, if the server cannot listen on the address, or if the system
/// provides no threads or signals.
pub fn serve(inspector: Inspector, options: ListenOptions, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let router = |ListenOptions { address, token, hosts, .. }: ListenOptions| {
        let gate = Gate { token, hosts, listens: address.ip(), may_edit: inspector.may_edit };
        pages("").layer(Extension(inspector)).layer(from_fn_with_state(gate, admit))
    };
    options.serve(wide_runtime, GRACE, router, ready)
}
