//! Serves the inspector on an address of its own.

use std::net::SocketAddr;

use axum::Extension;
use axum::middleware::from_fn_with_state;

use super::gate::{Gate, admit};
use super::{Inspector, pages};
use crate::mcp::http::Door;
use crate::serving::{ServeError, asked_to_stop, bind, listen, wide_runtime};

/// How long requests may take that are under way when the process is asked to stop.
const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// Serves the pages until the process is asked to stop.
///
/// Calls `ready` with the address, including the port that the system picked, when the server listens.
///
/// # Errors
/// Returns an error if a token is required and missing, if the server cannot listen on the address, or if the system
/// provides no threads or signals.
pub fn serve(inspector: Inspector, door: Door, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let Door { address, token, hosts, limits } = door;
    if token.is_none() && !address.ip().is_loopback() {
        return Err(ServeError::NeedsToken { address });
    }
    let runtime = wide_runtime()?;
    let served = runtime.block_on(async {
        let (listener, bound) = bind(address).await?;
        let stop = asked_to_stop()?;
        ready(bound);
        let own = (!address.ip().is_unspecified()).then(|| address.ip().to_string());
        let gate = Gate { token, hosts: hosts.into_iter().chain(own).collect() };
        let router = pages("").layer(Extension(inspector)).layer(from_fn_with_state(gate, admit));
        listen(listener, None, router, limits, GRACE, stop).await;
        Ok::<(), ServeError>(())
    });
    runtime.shutdown_background();
    served
}
