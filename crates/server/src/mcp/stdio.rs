//! Serving one client on standard input and output: how clients start servers of their own.

use std::pin::pin;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;

use super::lines::Lines;
use super::{GRACE, ServeError, Server, asked_to_stop, runtime};

/// Serves the client that stands behind standard input, until that ends or the process is asked to stop. Answers that are
/// under way are given a few seconds.
///
/// Nothing else may be written to standard output meanwhile.
///
/// # Errors
/// Where the client speaks no protocol that is known.
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
            // It went away before it said a word, and needs nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            // What it did say is not repeated: it may be anything.
            Err(_) => return Err(ServeError::Handshake),
        };
        let cancel = running.cancellation_token();
        let mut ended = pin!(running.waiting());
        tokio::select! {
            _ = &mut ended => {}
            () = &mut stop => {
                cancel.cancel();
                // Nothing is left to be done where it ended badly: it has ended.
                let _ = tokio::time::timeout(GRACE, ended).await;
            }
        }
        Ok(())
    });
    // A thread may still wait for standard input, which nobody else wants.
    runtime.shutdown_background();
    served
}
