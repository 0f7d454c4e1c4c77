//! The network address of a server, and its access rules.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::runtime::Runtime;

use crate::serving::{ConnectionLimits, ServeError, asked_to_stop, bind, listen};
use crate::token::Token;

/// The network address of a server, and its access rules.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// The address to listen on. With port 0, the system picks a free port.
    pub address: SocketAddr,
    /// The token that each request must carry. Required if other machines can reach the address.
    pub token: Option<Token>,
    /// The host names that clients may use, with or without a port, in addition to `localhost` and the address itself.
    ///
    /// A request with any other `Host` is refused, so that no web page can reach the server through its own host name.
    pub hosts: Vec<String>,
    /// The limits for connections and requests.
    pub limits: ConnectionLimits,
}

impl ListenOptions {
    /// Serves until the process is asked to stop. Then gives open requests this much time to finish.
    ///
    /// `service` creates the service, which must check access. `ready` is called with the address, including the port
    /// that the system picked, when the server listens.
    pub(crate) fn serve(
        self,
        runtime: fn() -> Result<Runtime, ServeError>,
        grace: Duration,
        service: impl FnOnce(ListenOptions) -> Router,
        ready: impl FnOnce(SocketAddr),
    ) -> Result<(), ServeError> {
        let (address, limits) = (self.address, self.limits);
        if self.token.is_none() && !address.ip().is_loopback() {
            return Err(ServeError::needs_token(address));
        }
        let runtime = runtime()?;
        let served = runtime.block_on(async {
            let (listener, bound) = bind(address).await?;
            let stop = asked_to_stop()?;
            ready(bound);
            listen(listener, None, service(self), limits, grace, stop).await;
            Ok::<(), ServeError>(())
        });
        runtime.shutdown_background();
        served
    }
}
