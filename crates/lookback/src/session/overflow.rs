//! Recovery when the provider refuses a window as too long: a smaller one at each try, a bounded number of tries, then an error that
//! says what is left.

use lookback_core::dialect::TooLong;
use lookback_core::engine::Engine;
use lookback_core::group::Pin;
use lookback_core::plan::{Plan, Verdict};
use lookback_core::policy::{Limits, Measure, Stage, Tokens, Totals};
use lookback_core::tokens::Size;

use super::{Error, Session};

/// How often a window is made smaller before its session gives up: with the first, ten requests are refused at the most.
const REDUCTIONS: u64 = 9;

/// A window that the provider refuses as too long, and that cannot be made smaller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the context cannot be reduced further: {tokens} tokens are left after {reductions} reductions, pinned: {}", told(.pinned))]
#[non_exhaustive]
pub struct Irreducible {
    /// How often it was made smaller since the last message.
    pub reductions: u64,
    /// Its tokens, by our count.
    pub tokens: u64,
    /// What of it may not be dropped, and how large that is.
    pub pinned: Vec<(Pin, Size)>,
    /// What the provider said.
    #[source]
    pub cause: TooLong,
}

fn told(pinned: &[(Pin, Size)]) -> String {
    pinned.iter().map(|(pin, size)| format!("{pin} ({} tokens)", size.tokens)).collect::<Vec<_>>().join(", ")
}

impl Session {
    /// The provider refused the last window as too long (see [`Dialect::provider_error`](lookback_core::Dialect::provider_error)): makes it smaller, so
    /// that [`Session::window`] gives one that may fit. Large tool results are shortened first, the oldest before the newer, then the
    /// oldest groups are dropped; each time the window is strictly smaller. Where the provider gave numbers it comes within them,
    /// else it loses a quarter.
    ///
    /// # Errors
    /// [`Error::Irreducible`] where nothing is left that may be shortened or dropped, or after nine reductions without a message
    /// in between; and where the store fails.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{ProviderError, Dialect, MemoryStore, Message, Session, Settings};
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
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn overflow(&mut self, cause: TooLong) -> Result<(), Error> {
        self.follow_policy();
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
                self.tell(&written);
                return Ok(());
            }
        }
        let tokens = self.engine.tokens(self.view());
        Err(Box::new(Irreducible { reductions, tokens, pinned: self.engine.pinned(), cause }).into())
    }

    /// Shortens the results of one round now: of the oldest that these stages make smaller, be it the open one. Gives the plan, or `None`
    /// where no round can be shortened. It drops nothing, and repairs nothing.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn shorten(&mut self, stages: &[Stage]) -> Result<Option<Plan>, Error> {
        let written = self.commit(|engine| Ok(engine.shorten(stages))).await?;
        self.tell(&written);
        Ok(written.outcome.plan)
    }
}

/// The limit that a window of these totals must be brought within: what the provider allows in its own numbers, in ours; a quarter less
/// than now where it gives none, or none that would change anything.
fn within(cause: TooLong, totals: Totals) -> Limits {
    let now = totals.get(cause.measure);
    // Our count and the provider's differ by a factor, which its own numbers tell; and a little less than it allows.
    let scaled = match (cause.actual, cause.room()) {
        (Some(actual), Some(room)) if actual > 0 => {
            let allowed = u128::from(now) * u128::from(room) / u128::from(actual);
            u64::try_from(allowed - allowed / 50).ok()
        }
        (_, room) => room.map(|room| room - room / 50),
    };
    let limit = scaled.filter(|scaled| *scaled < now).unwrap_or(now - now.div_ceil(4));
    match cause.measure {
        Measure::Tokens => Limits { tokens: Some(Tokens::Count(limit)), ..Limits::default() },
        Measure::Messages => Limits::messages(limit),
        Measure::Turns => Limits { turns: Some(limit), ..Limits::default() },
        Measure::Rounds => Limits { rounds: Some(limit), ..Limits::default() },
        Measure::Bytes => Limits { bytes: Some(limit), ..Limits::default() },
        Measure::Media => Limits { media: Some(limit), ..Limits::default() },
    }
}
