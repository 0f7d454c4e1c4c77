//! The sessions that may be the same conversation, read on a blocking thread.

use std::sync::Arc;

use lookback_conversation::{Related, related as read};
use lookback_store::{LogName, Store, StoreError};

/// Returns the other sessions that may be the same conversation. They are compared on a blocking thread, because that
/// parses many messages.
pub(crate) async fn related(store: &Arc<dyn Store>, name: &LogName) -> Result<Vec<Related>, StoreError> {
    let (store, name) = (store.clone(), name.clone());
    let handle = tokio::runtime::Handle::current();
    match tokio::task::spawn_blocking(move || handle.block_on(read(&store, &name))).await {
        Ok(read) => read,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The server stops, and the answer is not needed.
            Err(_) => Ok(Vec::new()),
        },
    }
}
