//! Sessions as HTML pages: single files that a browser opens from the disk.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::transcript::Position;
use lookback_facts::{Memory, MemoryError};
use lookback_inspector::{Contents, KnownFact, Requests, Story};
use lookback_recordings::Recording;
use lookback_replay::lost::ClientCompaction;
use lookback_replay::prices::Price;
use lookback_replay::timeline::Timeline;
use lookback_store::{LogName, Store, StoreError};
use lookback_tokens::TokenCounter;

/// The contents of a session's page.
pub(crate) struct Shown {
    /// Its policy, if it is known.
    pub(crate) policy: Option<String>,
    timeline: Timeline,
    requests: Option<Requests>,
    facts: Vec<KnownFact>,
    /// The client's own compactions.
    by_client: Vec<ClientCompaction>,
}

impl Shown {
    /// Reads a session from its log. Reads its exact requests only if the page lets users copy them.
    pub(crate) fn read(
        store: &dyn Store,
        log: &LogName,
        counter: &dyn TokenCounter,
        price: &Price,
        policy: Option<&str>,
        has_requests: bool,
    ) -> Result<Shown, StoreError> {
        let timeline = block_on(Timeline::load(store, log, counter, price))?;
        let requests = has_requests.then(|| block_on(Requests::read(store, log, &timeline))).transpose()?;
        let by_client = ClientCompaction::in_log(&timeline);
        Ok(Shown { policy: policy.map(str::to_owned), timeline, requests, facts: Vec::new(), by_client })
    }

    /// Adds the compactions of the recording that this session replays. `positions` has the position of each message.
    pub(crate) fn with_recording(mut self, recording: &Recording, positions: &[Position]) -> Shown {
        self.by_client = ClientCompaction::in_replay(&self.timeline, recording, positions);
        self
    }

    /// Adds the facts of the session.
    pub(crate) fn with_facts(mut self, store: Arc<dyn Store>, log: &LogName) -> Result<Shown, MemoryError> {
        let events = block_on(async { Memory::open(store, log.as_str()).await?.events().await })?;
        self.facts = KnownFact::all(log.as_str(), &self.timeline, &events);
        Ok(self)
    }
}

/// Returns the page of a session, compared with its alternatives under other policies.
pub(crate) fn html(name: &str, shown: &Shown, others: &[Shown], price: &Price, has_contents: bool) -> String {
    let mut story = Story::new(name, &shown.timeline, price).with_facts(shown.facts.clone());
    story = story.with_client_compactions(shown.by_client.clone());
    if let Some(policy) = &shown.policy {
        story = story.with_policy(policy);
    }
    if let Some(requests) = &shown.requests {
        story = story.with_requests(requests);
    }
    for other in others {
        story = story.with_alternative(other.policy.as_deref().unwrap_or_default(), &other.timeline);
    }
    story.to_html(if has_contents { Contents::Shown } else { Contents::Masked })
}
