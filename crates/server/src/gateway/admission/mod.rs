//! An admission: a request with all that it needs of the gateway, and what all requests share.

pub(crate) mod caller;
pub(crate) mod limits;
mod ready;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::http::{HeaderMap, Uri, header};
use lookback_engine::policy::{Limits, Policy};
use lookback_store::Tenant;
use lookback_store::{Store, StoreError};

use crate::gateway::admission::caller::Caller;
use crate::gateway::admission::limits::Clients;
use crate::gateway::admission::ready::Readiness;
use crate::gateway::client::Client;
use crate::gateway::config::Config;
use crate::gateway::config::summarizer::summarizing;
use crate::gateway::lines::Lines;
use crate::gateway::report::event::Event;
use crate::gateway::report::metrics::Metrics;
use crate::gateway::report::payoff::Payoff;
use crate::host;
use crate::page::is_foreign;

/// Takes what happens, for a log.
pub(crate) type EventLog = Arc<dyn Fn(&Event) + Send + Sync>;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// The stores of the tenants, once they were used.
    stores: Mutex<HashMap<Tenant, Arc<dyn Store>>>,
    /// The address that the gateway listens on.
    pub(crate) listens: SocketAddr,
    /// What may change while the gateway serves.
    current: RwLock<Arc<Current>>,
    pub(crate) lines: Lines,
    pub(crate) clients: Arc<Clients>,
    pub(crate) metrics: Metrics,
    pub(crate) payoff: Payoff,
    pub(crate) readiness: Readiness,
    /// `None` in a rehearsal, which logs nothing.
    log: Option<EventLog>,
}

/// A configuration in use.
pub(crate) struct Current {
    pub(crate) config: Config,
    pub(crate) policy: Policy,
    /// The same, with summaries.
    pub(crate) summarizing: Policy,
    /// The same, for conversations that the provider shortens: nothing is cut unless a request is refused as too long.
    pub(crate) yielding: Policy,
    pub(crate) client: Client,
}

/// A request, with all that it needs of the gateway. Whatever changes meanwhile, it is served as it was let in.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) shared: Arc<Shared>,
    pub(crate) current: Arc<Current>,
    pub(crate) caller: Arc<Caller>,
}

/// Why a caller may not learn what the gateway keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLetIn {
    #[error("web pages may not read what the gateway keeps")]
    WebPage,
    #[error("without keys, what the gateway keeps is read on its own machine only; add [[key]]")]
    Elsewhere,
}

impl Admission {
    /// Returns the store, as far as the caller sees it.
    ///
    /// # Errors
    /// Returns an error if the store of the tenant cannot be opened.
    pub(crate) fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        let Some(tenant) = &self.caller.tenant else { return Ok(self.shared.store.clone()) };
        let (store, is_new) = self.shared.store_of(tenant)?;
        if is_new {
            self.shared.recall(store.clone());
        }
        Ok(store)
    }

    /// Checks that the caller may learn what the gateway keeps: with a key, or without keys on the gateway's own machine.
    ///
    /// # Errors
    /// Returns why not.
    pub(crate) fn let_in(&self, target: &Uri, headers: &HeaderMap) -> Result<(), NotLetIn> {
        let is_local = self.shared.listens.ip().is_loopback() && host::is_local(target, headers);
        // Only browsers send an origin. Of what they fetch without one, a link that is followed is let in.
        if headers.contains_key(header::ORIGIN) || is_foreign(headers, true) {
            Err(NotLetIn::WebPage)
        } else if self.caller.tenant.is_none() && !is_local {
            Err(NotLetIn::Elsewhere)
        } else {
            Ok(())
        }
    }
}

impl Current {
    pub(crate) fn new(config: Config, policy: Policy) -> Current {
        let client = Client::new(&config.timeouts);
        Current::with_client(config, policy, client)
    }

    /// The same, with the connections that there are already.
    pub(crate) fn with_client(config: Config, policy: Policy, client: Client) -> Current {
        // What comes is sent as it came until the window is cut, so nothing may be done to it as it arrives.
        let policy = Policy { arrival: None, caps: None, repeats: None, ..policy };
        let summarizing = summarizing(&policy);
        let yielding = Policy { limits: Limits::default(), target: None, cold: None, payback: None, ..policy.clone() };
        Current { config, policy, summarizing, yielding, client }
    }
}

impl Shared {
    /// Begins to serve at an address.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        current: Current,
        log: Option<EventLog>,
        listens: SocketAddr,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            store,
            stores: Mutex::default(),
            listens,
            current: RwLock::new(Arc::new(current)),
            lines: Lines::default(),
            clients: Arc::default(),
            metrics: Metrics::default(),
            payoff: Payoff::default(),
            readiness: Readiness::default(),
            log,
        })
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses another configuration from now on.
    pub(crate) fn renew(&self, config: Config, policy: Policy) {
        match config.check().and_then(|()| config.check_address(self.listens)) {
            Ok(()) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Current::new(config, policy));
                self.emit(&Event::Reloaded);
            }
            Err(error) => self.emit(&Event::failure(format!("the changed configuration is not used: {error}"))),
        }
    }

    /// Returns the store of a tenant, and whether it is used for the first time.
    fn store_of(&self, tenant: &Tenant) -> Result<(Arc<dyn Store>, bool), StoreError> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(tenant) {
            return Ok((store.clone(), false));
        }
        let store = self.store.scoped(tenant)?;
        stores.insert(tenant.clone(), store.clone());
        Ok((store, true))
    }

    /// Reads in the background what the sessions of a store have learned of the models' tokens.
    pub(crate) fn recall(self: &Arc<Self>, store: Arc<dyn Store>) {
        let shared = self.clone();
        tokio::spawn(async move { shared.lines.calibrations.recall(&store).await });
    }

    pub(crate) fn emit(&self, event: &Event) {
        if let Some(log) = &self.log {
            log(event);
        }
    }

    /// Returns whether anything is logged of a call.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }
}
