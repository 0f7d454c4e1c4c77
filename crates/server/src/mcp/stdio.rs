//! Serves one client on standard input and output, for clients that start their own servers.

use std::pin::pin;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;

use super::lines::Lines;
use super::{GRACE, ServeError, Server};
use crate::serving::{asked_to_stop, runtime};

/// Serves the client on standard input and output, until its input ends or the process is asked to stop.
///
/// Then open requests have five seconds to finish. Nothing else may be written to standard output in the meantime.
///
/// # Errors
/// Returns an error if the client does not speak the protocol, or if the system provides no threads or signals.
pub fn serve(server: Server) -> Result<(), ServeError> {
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let mut stop = pin!(asked_to_stop()?);
        let (input, output) = stdio_pipes();
        let opened = tokio::select! {
            opened = server.serve(Lines::new(input, output)) => opened,
            () = &mut stop => return Ok(()),
        };
        let running = match opened {
            Ok(running) => running,
            // The client left before it sent anything. That is not an error.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            // The error does not quote the client, whose text could be anything.
            Err(_) => return Err(ServeError::handshake()),
        };
        let cancel = running.cancellation_token();
        let mut ended = pin!(running.waiting());
        tokio::select! {
            _ = &mut ended => {}
            () = &mut stop => {
                cancel.cancel();
                // The connection is over, whether it ended well or not.
                let _ = tokio::time::timeout(GRACE, ended).await;
            }
        }
        Ok(())
    });
    // A thread may still wait for standard input, which is no longer needed.
    runtime.shutdown_background();
    served
}
