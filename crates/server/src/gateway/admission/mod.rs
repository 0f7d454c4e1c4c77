//! An admitted request with its context, and the state that all requests share.

pub(crate) mod caller;
pub(crate) mod limits;
mod ready;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::http::{HeaderMap, Uri, header};
use lookback_engine::policy::Policy;
use lookback_store::Tenant;
use lookback_store::{Store, StoreError};

use crate::gateway::admission::caller::Caller;
use crate::gateway::admission::limits::Clients;
use crate::gateway::admission::ready::Readiness;
use crate::gateway::client::Client;
use crate::gateway::config::Config;
use crate::gateway::config::additions::Add;
use crate::gateway::lines::Lines;
use crate::gateway::lines::turn::Turn;
use crate::gateway::policies::{self, Policies};
use crate::gateway::report::event::Event;
use crate::gateway::report::metrics::Metrics;
use crate::gateway::report::payoff::Payoff;
use crate::gateway::report::simulated::Shadows;
use crate::host;
use crate::page::is_foreign;

/// Receives events, for a log.
pub(crate) type EventLog = Arc<dyn Fn(&Event) + Send + Sync>;

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// The stores of tenants that have been used.
    stores: Mutex<HashMap<Tenant, Arc<dyn Store>>>,
    /// The address that the gateway listens on.
    pub(crate) listens: SocketAddr,
    /// The configuration in use, which may change while the gateway serves.
    current: RwLock<Arc<Current>>,
    pub(crate) lines: Lines,
    pub(crate) clients: Arc<Clients>,
    pub(crate) metrics: Metrics,
    pub(crate) payoff: Payoff,
    pub(crate) shadows: Shadows,
    pub(crate) readiness: Readiness,
    /// `None` in a warm-up, which logs nothing.
    log: Option<EventLog>,
}

/// A configuration in use, with the policies and the client made from it.
pub(crate) struct Current {
    pub(crate) config: Config,
    policies: Policies,
    /// The policies for a model that can read back what was cut, unless a policy was chosen.
    saving: Option<Policies>,
    pub(crate) client: Client,
}

/// An admitted request with its context. Later changes of the configuration do not affect it.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) shared: Arc<Shared>,
    pub(crate) current: Arc<Current>,
    pub(crate) caller: Arc<Caller>,
}

/// The reason that a caller may not read the gateway's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLetIn {
    #[error("web pages may not read the sessions of this gateway")]
    WebPage,
    #[error("without keys, the sessions of this gateway can be read only on its own machine; add [[key]]")]
    Elsewhere,
}

impl Admission {
    /// Returns the part of the store that the caller may see.
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

    /// Checks that the caller may read the store: with a key, or, if there are no keys, on the gateway's own machine.
    ///
    /// # Errors
    /// Returns the reason if the caller may not.
    pub(crate) fn let_in(&self, target: &Uri, headers: &HeaderMap) -> Result<(), NotLetIn> {
        let is_local = self.shared.listens.ip().is_loopback() && host::is_local(target, headers);
        // Only browsers send an origin. Requests of browsers without one are admitted only if they follow a link.
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

    /// Creates it with an existing client, and so with its open connections.
    pub(crate) fn with_client(config: Config, policy: Policy, client: Client) -> Current {
        let saving = policies::for_readers(&policy).map(Policies::new);
        Current { config, policies: Policies::new(policy), saving, client }
    }

    /// Returns the policy that was chosen, or the default.
    pub(crate) fn usual(&self) -> &Policy {
        &self.policies.usual
    }

    /// Returns the policy of a turn's window.
    pub(crate) fn policy(&self, turn: &Turn) -> &Policy {
        let policies = self.policies(turn.reads_back);
        if turn.model.is_shortened {
            // The provider would not have to drop messages that are cut here.
            &policies.yielding
        } else if turn.adds.contains(&Add::Summaries) {
            &policies.summarizing
        } else {
            &policies.usual
        }
    }

    /// Returns the policy in its forms, for models that can read back what was cut, or for others.
    pub(crate) fn policies(&self, reads_back: bool) -> &Policies {
        self.saving.as_ref().filter(|_| reads_back).unwrap_or(&self.policies)
    }
}

impl Shared {
    /// Creates the state of a gateway that listens on an address.
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
            shadows: Shadows::default(),
            readiness: Readiness::default(),
            log,
        })
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the configuration, if the new one is valid.
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

    /// Reads the token calibrations of a store's sessions in the background.
    pub(crate) fn recall(self: &Arc<Self>, store: Arc<dyn Store>) {
        let shared = self.clone();
        tokio::spawn(async move { shared.lines.calibrations.recall(&store).await });
    }

    pub(crate) fn emit(&self, event: &Event) {
        if let Some(log) = &self.log {
            log(event);
        }
    }

    /// Returns whether calls are logged.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }
}
