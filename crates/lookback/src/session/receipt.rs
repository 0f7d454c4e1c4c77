//! The receipt of a session: what its calls sent and cost, read from its log.

use lookback_core::tokens::TokenCounter;

use super::walk::{Step, walk};
use super::{Error, Session};
use crate::prices::Price;
use crate::receipt::{Ledger, Receipt};
use crate::store::{LogName, Store, StoreError};

/// Computes the receipt of a session that need not be open (see [`receipt`](crate::receipt)). It reads the whole log,
/// page by page.
///
/// The counter is asked only for tool results that were truncated as they arrived, whose whole size the log does not
/// have. Take that of the session's [`Settings`](crate::Settings). A log that does not exist has no calls.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn receipt(
    store: &dyn Store,
    log: &LogName,
    counter: &dyn TokenCounter,
    price: &Price,
) -> Result<Receipt, StoreError> {
    let mut ledger = Ledger::new(price, counter);
    walk(store, log, &mut |step| match step {
        Step::Begin(at, view) => ledger.begin(at, view),
        Step::Read(position, entry) => ledger.read(position, entry),
        Step::GoBack(end, view) => ledger.go_back(end, view),
    })
    .await?;
    Ok(ledger.receipt())
}

impl Session {
    /// Returns what each model call of the session sent and cost at this price, and what it would have cost without a
    /// window (see [`receipt`](crate::receipt)). The cost of this grows with the whole history.
    ///
    /// If the policy is computed on read, what it left out is not recorded, and the receipt is that of a session that
    /// leaves out nothing.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{MemoryStore, Message, Prices, Session, Settings};
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// session.push(Message::user("Read this: ".to_owned() + &"word ".repeat(5_000))).await?;
    /// session.window().await?;
    /// session.push(Message::assistant("I have read it.")).await?;
    /// session.push(Message::user("What did it say?")).await?;
    /// session.window().await?;
    /// session.push(Message::assistant("Always the same word.")).await?;
    ///
    /// let receipt = session.receipt(Prices::builtin().find("anthropic-5m").unwrap()).await?;
    /// let [first, second] = receipt.calls[..] else { panic!() };
    /// assert_eq!((first.cache_read_tokens, second.cache_read_tokens), (0, first.sent_tokens));
    /// assert_eq!(receipt.total.cost, receipt.total.cost_without_window, "nothing has left the window");
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn receipt(&mut self, price: &Price) -> Result<Receipt, Error> {
        self.refresh().await?;
        let counter = self.engine.settings().counter.clone();
        Ok(receipt(&*self.store, &self.name, &*counter, price).await?)
    }
}
