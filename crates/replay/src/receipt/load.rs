//! Reading the receipt of a session from its log.

use lookback_engine::transcript::Entry;
use lookback_tokens::TokenCounter;

use super::{Ledger, Receipt};
use crate::prices::{Price, Prices};
use lookback_session::Session;
use lookback_session::adapter::{Step, walk};
use lookback_store::{LogName, Store, StoreError};

impl Price {
    /// Returns the built-in price of the newest model in a log that a provider has reported usage of, if it is known.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    #[doc(hidden)]
    pub async fn for_log(store: &dyn Store, log: &LogName) -> Result<Option<&'static Price>, StoreError> {
        let mut price = None;
        walk(store, log, &mut |step| {
            if let Step::Read(_, Entry::Usage(usage)) = step {
                price = Prices::builtin().find(&usage.model).or(price);
            }
        })
        .await?;
        Ok(price)
    }
}

impl Receipt {
    /// Computes the receipt of a session, which need not be open. It reads the whole log, page by page.
    ///
    /// The counter is used only for tool results that were truncated on arrival, because the log does not have their
    /// whole size. Pass the counter of the session's [`Settings`](lookback_engine::Settings). A log that does not exist
    /// has no calls.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn load(
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

    /// Computes the receipt of an open session at this price, as [`Receipt::load`] does.
    ///
    /// If the policy is computed on read, the log does not record what it left out. The receipt is then that of a
    /// session that leaves out nothing.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_replay::{prices::Prices, receipt::Receipt};
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// session.push(Message::user("Read this: ".to_owned() + &"word ".repeat(5_000))).await?;
    /// session.window().await?;
    /// session.push(Message::assistant("I have read it.")).await?;
    /// session.push(Message::user("What did it say?")).await?;
    /// session.window().await?;
    /// session.push(Message::assistant("Always the same word.")).await?;
    ///
    /// let receipt = Receipt::for_session(&session, Prices::builtin().find("anthropic-5m").unwrap()).await?;
    /// let [first, second] = receipt.calls[..] else { panic!() };
    /// assert_eq!((first.cache_read_tokens, second.cache_read_tokens), (0, first.sent_tokens));
    /// assert_eq!(receipt.total.cost, receipt.total.cost_without_window, "nothing has left the window");
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn for_session(session: &Session, price: &Price) -> Result<Receipt, StoreError> {
        Receipt::load(&**session.store(), session.name(), &*session.settings().counter, price).await
    }
}
