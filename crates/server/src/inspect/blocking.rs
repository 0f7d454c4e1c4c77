//! Reading sessions on a blocking thread, because parsing many messages would hold up other requests.

use std::future::Future;
use std::panic::resume_unwind;

use lookback_store::StoreError;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// Runs a reader on a blocking thread. If the server stops, the answer is not needed, and is the default.
pub(super) async fn on_blocking_thread<T: Default + Send + 'static>(
    reader: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let handle = Handle::current();
    match spawn_blocking(move || handle.block_on(reader)).await {
        Ok(read) => read,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Ok(T::default()),
        },
    }
}
