//! The shadow of a conversation that is sent as it comes: a session in memory, which is cut as the policy wants.

use std::sync::Arc;

use lookback_engine::Settings;
use lookback_replay::prices::Price;
use lookback_replay::receipt::Receipt;
use lookback_session::adapter::{self, Resent};
use lookback_session::{Error, Session};
use lookback_store::MemoryStore;
use lookback_wire::dialect::{Preamble, RawRequest, Response, Target};
use lookback_wire::message::Role;

use crate::gateway::report::note::{Compacted, Cut, Shadowed};
use crate::gateway::report::simulated::Simulated;

/// After this share of new calls, the cost is simulated again. So the work grows with the calls, not with their square.
const SHARE: usize = 16;

/// The shadow of a conversation.
pub(crate) struct Shadow {
    session: Session,
    store: Arc<MemoryStore>,
    /// The answers so far.
    answers: usize,
    /// The number of answers after which the cost is simulated again.
    due: usize,
    /// The number of calls whose cost was counted.
    counted: usize,
}

impl Shadow {
    /// Creates the shadow of a conversation that has not begun.
    ///
    /// # Errors
    /// Returns an error if the name of the session is not valid.
    pub(crate) async fn open(name: &str, settings: Settings) -> Result<Shadow, Error> {
        let store = Arc::new(MemoryStore::new());
        let session = Session::open(store.clone(), name, settings).await?;
        Ok(Shadow { session, store, answers: 0, due: 0, counted: 0 })
    }

    /// Uses other settings from now on. The cuts so far stay.
    ///
    /// # Errors
    /// Returns an error if the session cannot be read.
    pub(crate) async fn change(&mut self, settings: Settings) -> Result<(), Error> {
        let name = self.session.name().clone();
        self.session = Session::open(self.store.clone(), name.as_str(), settings).await?;
        Ok(())
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.session.settings()
    }

    /// Takes a request over, and returns what its window would be.
    ///
    /// # Errors
    /// Returns an error if the request cannot be read, or if no window fits into the model's limit.
    pub(crate) async fn follow(
        &mut self,
        resent: &[Resent],
        (request, preamble): (&RawRequest<'_>, &Preamble),
        target: &Target,
    ) -> Result<Shadowed, Error> {
        let session = &mut self.session;
        if session.view().history_len() == 0 {
            session.set_preamble(preamble).await?;
            // A history that the client brings is computed as a whole, so the next simulation waits for as many calls.
            let is_answer = |resent: &&Resent| resent.role == Role::Assistant;
            self.answers = resent.iter().filter(is_answer).count();
            self.due = self.answers + self.answers / SHARE;
        }
        adapter::sync_resent(session, resent, |index| Ok(request.message(index).cloned()?)).await?;
        adapter::set_target(session, target);
        session.set_preamble(preamble).await?;
        let window = session.window().await?;
        let compacted = window.entries().iter().rev().find_map(Compacted::from_entry);
        Ok(Shadowed { window: window.tokens(), cut: Cut::from_view(window.view()), compacted })
    }

    /// Takes an answer over. Returns the simulated cost of the calls since the last time, if it is known. The report of
    /// usage has to be about the whole conversation.
    ///
    /// # Errors
    /// Returns an error if the answer cannot be recorded.
    pub(crate) async fn answered(
        &mut self,
        mut response: Response,
        price: Option<&Price>,
    ) -> Result<Option<Simulated>, Error> {
        if Cut::from_view(self.session.view()).is_some() {
            response.input = None;
        }
        self.session.answered(response).await?;
        self.answers += 1;
        let Some(price) = price.filter(|_| self.answers > self.due) else { return Ok(None) };
        self.due = self.answers + self.answers / SHARE;
        let receipt = Receipt::for_session(&self.session, price).await?;
        let new = receipt.calls.get(self.counted..).unwrap_or_default();
        let cost = new.iter().fold(Simulated::default(), |sum, call| {
            let output = price.output_cost(call.output_tokens);
            sum + Simulated { calls: 1.0, everything: call.cost_without_window + output, windows: call.cost + output }
        });
        self.counted = receipt.calls.len();
        Ok(Some(cost))
    }
}
