//! Recovery from an overflow: a smaller window at each try, a limited number of tries, then an error with what is left.

use lookback_engine::Engine;
use lookback_engine::plan::{Plan, Verdict};
use lookback_engine::policy::{Limits, Stage};
use lookback_engine::totals::Totals;
use lookback_wire::dialect::TooLong;

use super::{Error, Irreducible, Session};

/// The most reductions of a window before the session gives up. So the provider refuses at most ten requests.
const REDUCTIONS: u64 = 9;

impl Session {
    /// Makes the window smaller because the provider refused the last one as too long (see
    /// [`Dialect::provider_error`](lookback_wire::dialect::Dialect::provider_error)). After that, [`Session::window`]
    /// returns the smaller window.
    ///
    /// It first shortens large tool results, the oldest first, then drops the oldest groups. The window is strictly
    /// smaller each time. If the provider reported its limit, the window is reduced below it; otherwise by a quarter.
    ///
    /// # Errors
    /// Returns [`Error::Irreducible`] if nothing is left that may be shortened or dropped, or after nine reductions
    /// without a new message. Returns an error if the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_wire::{dialect::{Dialect, ProviderError}, message::Message};
    /// use lookback_store::MemoryStore;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
    /// for text in ["first", "second", "third", "fourth"] {
    ///     session.push(Message::user(text)).await?;
    /// }
    /// let body = r#"{"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 20 tokens."}}"#;
    /// if let ProviderError::TooLong(long) = Dialect::OpenAiChat.provider_error(Some(400), body) {
    ///     session.overflow(long).await?;
    /// }
    /// assert!(session.window().await?.view().messages().count() < 4);
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn overflow(&mut self, cause: TooLong) -> Result<(), Error> {
        let reductions = self.reductions;
        if reductions < REDUCTIONS {
            let reduce = |engine: &mut Engine| {
                let mut totals = engine.view().totals();
                totals.size.tokens = engine.tokens(engine.view());
                Ok(engine.overflow(within(cause, totals)))
            };
            let written = self.commit(reduce).await?;
            if written.outcome.plan.as_ref().is_some_and(|plan| plan.verdict == Verdict::Compact) {
                self.reductions += 1;
                self.report(&written);
                return Ok(());
            }
        }
        let tokens = self.engine.tokens(self.view());
        Err(Box::new(Irreducible { reductions, tokens, pinned: self.engine.pinned(), cause }).into())
    }
}

/// Returns the limit for a window with these totals: the provider's limit, converted from its count to ours. If the
/// provider gave no numbers, or none that would make the window smaller, the limit is a quarter below the totals.
fn within(cause: TooLong, totals: Totals) -> Limits {
    let now = totals.get(cause.measure);
    // The provider's numbers give the factor between its count and ours. Aim a little below its limit.
    let scaled = match (cause.actual, cause.room()) {
        (Some(actual), Some(room)) if actual > 0 => {
            let allowed = u128::from(now) * u128::from(room) / u128::from(actual);
            u64::try_from(allowed - allowed / 50).ok()
        }
        (_, room) => room.map(|room| room - room / 50),
    };
    let limit = scaled.filter(|scaled| *scaled < now).unwrap_or(now - now.div_ceil(4));
    Limits::only(cause.measure, limit)
}

/// Leaves out signed reasoning that the provider refused (see
/// [`ProviderError::refuses_reasoning`](lookback_wire::dialect::ProviderError::refuses_reasoning)). The reasoning of an
/// open tool loop stays. Returns whether there was any to leave out.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn leave_out_reasoning(session: &mut Session) -> Result<bool, Error> {
    let written = session.commit(|engine| Ok(engine.leave_out_reasoning())).await?;
    session.report(&written);
    Ok(!written.outcome.is_empty())
}

/// Shortens the results of one round: the oldest round that these stages can make smaller, even if it is the open
/// round. Returns the plan, or `None` if no round can be shortened. It drops and repairs nothing.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn shorten(session: &mut Session, stages: &[Stage]) -> Result<Option<Plan>, Error> {
    let written = session.commit(|engine| Ok(engine.shorten(stages))).await?;
    session.report(&written);
    Ok(written.outcome.plan)
}
