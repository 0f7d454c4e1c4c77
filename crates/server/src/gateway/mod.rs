//! A gateway in front of models: clients keep their code, and change one address.
//!
//! A request of a conversation goes into a session of the store. If it is within the limits, and the policy shortens none
//! of its tool results, its messages are forwarded unchanged, byte for byte. Otherwise, the session's window is sent.
//! Unless additions are configured, requests with tools get one more, with which the model reads what was cut. All other
//! requests pass through.

mod admission;
mod client;
pub(crate) mod config;
mod exchange;
mod guard;
mod http;
mod inspect;
mod lines;
mod mcp;
mod policies;
mod report;
mod rest;
mod router;
mod warm_up;
mod windows;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use lookback_conversation::Relation;
use lookback_engine::policy::Policy;
use lookback_store::{IntoStore, Store};

use self::admission::{Current, EventLog, Shared};
pub use self::config::additions::{Add, UnknownAdd};
pub use self::config::keys::Key;
#[doc(hidden)]
pub use self::config::keys::NoRandom;
pub use self::config::summarizer::SummaryModel;
pub use self::config::upstream::{BadUpstream, Upstream};
pub use self::config::{Config, ConfigError, Limits, Timeouts, Tls};
pub use self::report::event::Event;
#[doc(hidden)]
pub use self::report::habits::Habit;
#[doc(hidden)]
pub use self::report::note::Shadowed;
pub use self::report::note::{Compacted, Cut, Note, Passed};
use crate::serving::{ConnectionLimits, ServeError, asked_to_reload, asked_to_stop, bind, listen, wide_runtime};

/// A gateway, ready to serve.
///
/// ```no_run
/// use lookback_engine::policy::Policy;
/// use lookback_sqlite::SqliteStore;
/// use lookback_server::gateway::Gateway;
///
/// let gateway = Gateway::new(SqliteStore::open("memory.db")?)
///     .with_upstream("anthropic=https://api.anthropic.com".parse()?)
///     .with_policy(Policy::production());
/// gateway.serve("127.0.0.1:8787".parse()?, |address| println!("listening on http://{address}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gateway {
    store: Arc<dyn Store>,
    config: Config,
    policy: Policy,
    reload: Option<Reload>,
    log: EventLog,
}

/// Reads the configuration again. `None` if it cannot be used.
type Reload = Box<dyn Fn() -> Option<(Config, Policy)> + Send + Sync>;

impl Gateway {
    /// Creates a gateway that keeps its sessions in a store. It has no upstream yet.
    pub fn new(store: impl IntoStore) -> Gateway {
        Gateway {
            store: store.into_store(),
            config: Config::default(),
            policy: Gateway::policy(),
            reload: None,
            log: Arc::new(|_| {}),
        }
    }

    /// Returns the default policy of a gateway for a model that cannot read back what was cut: that of production, but
    /// with a limit so high that most conversations are never cut, and nothing shortened. With a tool whose name ends in
    /// `recall`, the limits of production apply, too.
    ///
    /// The limit is 45 % of the model's context window. Of the known clients, Gemini CLI compacts first, at half of it.
    /// Codex does so at 61 % (of 400,000 tokens, it keeps 128,000 for the answer, and compacts at nine tenths of the
    /// rest), and Qwen Code at 70 %. If the model is unknown, nothing is cut until the upstream refuses a request as
    /// too long.
    pub fn policy() -> Policy {
        policies::sparing()
    }

    /// Sets the configuration. The caller has to read its texts `store` and `policy` itself; see [`Gateway::new`] and
    /// [`Gateway::with_policy`].
    #[must_use]
    pub fn with_config(self, config: Config) -> Gateway {
        Gateway { config, ..self }
    }

    /// Adds an upstream. A request goes to the first one that takes its dialect.
    #[must_use]
    pub fn with_upstream(mut self, upstream: Upstream) -> Gateway {
        self.config.upstreams.push(upstream);
        self
    }

    /// Sets the policy of all windows.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Gateway {
        Gateway { policy, ..self }
    }

    /// Returns the policy for models that can read back what was cut, or for others.
    #[doc(hidden)]
    pub fn policy_for(&self, reads_back: bool) -> Policy {
        let reader = if reads_back { policies::for_readers(&self.policy) } else { None };
        let policy = reader.unwrap_or_else(|| self.policy.clone());
        let summarizes = self.config.adds.as_ref().is_some_and(|adds| adds.contains(&Add::Summaries));
        if summarizes { config::summarizer::summarizing(&policy) } else { policy }
    }

    /// Sets how the configuration is read again when the process gets the signal `SIGHUP`. If the function returns
    /// `None`, the gateway keeps its configuration.
    ///
    /// The address, the number of connections and TLS do not change before the next start.
    #[must_use]
    pub fn with_reload(self, reload: impl Fn() -> Option<(Config, Policy)> + Send + Sync + 'static) -> Gateway {
        Gateway { reload: Some(Box::new(reload)), ..self }
    }

    /// Sets a log for model calls and failures.
    #[must_use]
    pub fn with_log(self, log: impl Fn(&Event) + Send + Sync + 'static) -> Gateway {
        Gateway { log: Arc::new(log), ..self }
    }

    /// Serves clients until the process is asked to stop, and then finishes open answers.
    ///
    /// Calls `ready` with the address, including the port that the system picked, when the gateway listens. Before
    /// that, it loads tables and makes some calls to itself, on ports of the loopback interface, so that its first
    /// answer is as fast as later ones.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be used, if the gateway cannot listen on the address, or if the
    /// system provides no threads or signals.
    pub fn serve(self, address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
        self.config.check()?;
        self.config.check_address(address)?;
        let tls = self.config.tls.as_ref().map(config::tls::acceptor).transpose()?;
        let runtime = wide_runtime()?;
        let served = runtime.block_on(async {
            let loading = tokio::task::spawn_blocking(warm_up::load);
            let (shared, reload, limits, grace) = self.parts(address);
            // If loading failed, the first call that needs the tables will report it.
            let _ = loading.await;
            warm_up::run(&shared).await;
            let (listener, bound) = bind(address).await?;
            let (stop, mut again) = (asked_to_stop()?, asked_to_reload()?);
            shared.recall(shared.store.clone());
            ready(bound);
            let reloading = {
                let shared = shared.clone();
                async move {
                    while again.recv().await.is_some() {
                        if let Some((config, policy)) = reload.as_ref().and_then(|reload| reload()) {
                            shared.renew(config, policy);
                        }
                    }
                }
            };
            let reloading = tokio::spawn(reloading);
            listen(listener, tls, router::router(shared), limits, grace, stop).await;
            reloading.abort();
            Ok(())
        });
        runtime.shutdown_background();
        served
    }

    fn parts(self, listens: SocketAddr) -> (Arc<Shared>, Option<Reload>, ConnectionLimits, Duration) {
        let Gateway { store, config, policy, reload, log } = self;
        let limits = ConnectionLimits {
            connections: config.limits.connections,
            head: config.timeouts.head,
            request: config.timeouts.pause,
        };
        let grace = config.timeouts.stop;
        let shared = Shared::new(store, Current::new(config, policy), Some(log), listens);
        (shared, reload, limits, grace)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("config", &self.config).finish_non_exhaustive()
    }
}
