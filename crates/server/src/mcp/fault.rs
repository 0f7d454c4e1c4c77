//! The answer to a request that failed.

use std::error::Error;

use rmcp::ErrorData;

use crate::causes::chained;

/// Returns the answer to a request for which the store failed: the error with its causes.
pub(super) fn failed(error: &(dyn Error + 'static)) -> ErrorData {
    ErrorData::internal_error(chained(error), None)
}
