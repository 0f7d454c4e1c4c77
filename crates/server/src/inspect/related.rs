//! The sessions that may be the same conversation.

use std::sync::Arc;

use lookback_conversation::{Related, related as read};
use lookback_store::{LogName, Store, StoreError};

use super::blocking::on_blocking_thread;

/// Returns the other sessions that may be the same conversation.
pub(crate) async fn related(store: &Arc<dyn Store>, name: &LogName) -> Result<Vec<Related>, StoreError> {
    let (store, name) = (store.clone(), name.clone());
    on_blocking_thread(async move { read(&store, &name).await }).await
}
