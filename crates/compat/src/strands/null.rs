//! A manager that does nothing.

use lookback_wire::message::Message;

use super::{ContextWindowOverflow, ConversationManager, Error, ModelError};

/// A manager that never changes the list.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullConversationManager;

impl ConversationManager for NullConversationManager {
    fn name(&self) -> &str {
        "NullConversationManager"
    }

    async fn apply_management(&self, _: &mut Vec<Message>) -> Result<(), Error> {
        Ok(())
    }

    async fn reduce_context(&self, _: &mut Vec<Message>, cause: Option<ModelError>) -> Result<(), Error> {
        let overflow = ContextWindowOverflow::new("The list is too long, and nothing manages it");
        cause.map_or(Ok(()), |cause| Err(overflow.with_cause(cause).into()))
    }
}
