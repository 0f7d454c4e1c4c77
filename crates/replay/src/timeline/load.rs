//! Reading the timeline of a session from its log.

use lookback_tokens::TokenCounter;

use super::{Builder, Timeline};
use crate::prices::Price;
use lookback_session::adapter::{Step, walk};
use lookback_store::{LogName, Store, StoreError};

impl Timeline {
    /// Computes the timeline of a session, which need not be open. The cost grows with the whole history.
    ///
    /// The counter and the price are used as for a [receipt](crate::receipt::Receipt::load). A log that does not exist
    /// has no calls.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn load(
        store: &dyn Store,
        log: &LogName,
        counter: &dyn TokenCounter,
        price: &Price,
    ) -> Result<Timeline, StoreError> {
        let mut builder = Builder::new(price, counter);
        walk(store, log, &mut |step| match step {
            Step::Begin(at, view) => builder.begin(at, view),
            Step::Read(position, entry) => builder.read(position, entry),
            Step::GoBack(end, view) => builder.go_back(end, view),
        })
        .await?;
        Ok(builder.timeline())
    }
}
