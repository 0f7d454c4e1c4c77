//! The caller of a request, as its keys identify it.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use lookback_facts::Memory;
use lookback_store::LogName;
use lookback_store::Tenant;
use lookback_wire::dialect::Dialect;
use ring::hmac;

use crate::gateway::admission::limits::{self, Busy, Clients, Open};
use crate::gateway::config::Config;
use crate::gateway::config::additions::Add;
use crate::gateway::config::keys;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::http::answers;
use crate::gateway::http::headers;

/// The client that a request comes from.
pub(crate) struct Caller {
    /// The tenant whose sessions it may reach. `None` if the gateway has no keys.
    pub(crate) tenant: Option<Tenant>,
    /// A name for the account of its provider's key, if it has one.
    pub(crate) account: Option<String>,
    /// The additions that its key sets.
    adds: Option<Vec<Add>>,
    /// Marks the request as open until the answer ends.
    _open: Option<Open>,
}

/// The reason that a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has no key of the gateway.
    NoKey,
    /// Its head is too long.
    Long,
    /// It exceeds a rate limit.
    Busy(Busy),
}

impl Caller {
    /// Admits a request. Removes a key of the gateway from its headers.
    pub(crate) fn admit(
        config: &Config,
        clients: &Arc<Clients>,
        target: &Uri,
        headers: &mut HeaderMap,
    ) -> Result<Caller, Refused> {
        if limits::is_long(target, headers, &config.limits) {
            return Err(Refused::Long);
        }
        let keys = &config.keys;
        let key = keys::take(keys, headers);
        if key.is_none() && !keys.is_empty() {
            return Err(Refused::NoKey);
        }
        let account = account(headers::credential(headers, target.query()));
        let name = key.map(keys::Key::name).or(account.as_deref()).unwrap_or_default();
        let open = clients.begin(name, &config.limits, Instant::now()).map_err(Refused::Busy)?;
        let (tenant, adds) = (key.map(|key| key.tenant().clone()), key.and_then(keys::Key::adds).map(<[Add]>::to_vec));
        Ok(Caller { tenant, account, adds, _open: open })
    }

    /// Returns the list of additions to its requests to an upstream, if there is one. The key overrides the upstream,
    /// which overrides the whole configuration.
    pub(crate) fn adds<'a>(&'a self, upstream: &'a Upstream, config: &'a Config) -> Option<&'a [Add]> {
        self.adds.as_deref().or(upstream.adds()).or(config.adds.as_deref())
    }
}

impl Refused {
    /// Returns the answer for the client.
    pub(crate) fn answer(self, dialect: Option<Dialect>) -> Response<Body> {
        let busy = |words: &str, seconds: u64| {
            let mut response = answers::error(StatusCode::TOO_MANY_REQUESTS, words, dialect);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
            response
        };
        match self {
            Refused::NoKey => {
                answers::error(StatusCode::UNAUTHORIZED, "the request has no key of this gateway", dialect)
            }
            Refused::Long => answers::error(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the head of the request has more bytes than this gateway accepts",
                dialect,
            ),
            Refused::Busy(Busy::Rate(wait)) => {
                // A fraction of a second is rounded up.
                busy(
                    "the rate limit of this gateway is reached",
                    wait.as_millis().div_ceil(1000).try_into().unwrap_or(60),
                )
            }
            Refused::Busy(Busy::Concurrent) => busy("the rate limit of this gateway is reached: too much is open", 1),
        }
    }
}

/// The number of characters in an account's name.
pub(crate) const ACCOUNT: usize = 16;

/// Returns a name for the account of a credential, as a keyed hash from which the credential cannot be found. `None` if
/// there is no credential.
fn account(credential: &[u8]) -> Option<String> {
    if credential.is_empty() {
        return None;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"lookback gateway account");
    let tag = hmac::sign(&key, credential);
    let (begin, _) = tag.as_ref().split_at_checked(8)?;
    Some(begin.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the workspace of a session, which determines the shared facts. Sessions of a tenant share a workspace.
/// Without tenants, sessions of an account do; its name is part of the session's name.
pub(crate) fn workspace<'a>(tenant: Option<&Tenant>, session: &'a LogName) -> &'a str {
    let account = session.as_str().rsplit_once('@').map(|(_, rest)| rest.split(['/', '~']).next().unwrap_or(rest));
    account.filter(|account| tenant.is_none() && account.len() == ACCOUNT).unwrap_or(Memory::WORKSPACE)
}
