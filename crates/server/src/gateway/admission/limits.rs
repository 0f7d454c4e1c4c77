//! How much each client may ask for: requests a minute, and requests at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Uri};

use crate::gateway::config::Limits;

/// The most clients that are remembered. If there are more, those that have nothing open begin anew.
const MOST: usize = 65_536;

/// What each client has asked for lately.
#[derive(Default)]
pub(crate) struct Clients(Mutex<HashMap<String, Client>>);

#[derive(Default)]
struct Client {
    open: usize,
    /// When its requests so far have been paid for. It may be ahead of time by a minute at most.
    paid: Option<Instant>,
}

/// Why a request has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The client asks too often, and may ask again after this time.
    Rate(Duration),
    /// The client has too many open requests.
    Concurrent,
}

/// An open request of a client. It is over when this is dropped.
pub(crate) struct Open {
    clients: Arc<Clients>,
    name: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut clients = self.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get_mut(&self.name) {
            client.open = client.open.saturating_sub(1);
        }
    }
}

/// Returns whether a request's head has more bytes than it may have.
pub(crate) fn is_long(target: &Uri, headers: &HeaderMap, limits: &Limits) -> bool {
    let target = target.path_and_query().map_or(0, |target| target.as_str().len());
    let headers = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    headers.sum::<usize>().saturating_add(target) > limits.head
}

impl Clients {
    /// Begins a request of a client.
    pub(crate) fn begin(self: &Arc<Self>, name: &str, limits: &Limits, now: Instant) -> Result<Option<Open>, Busy> {
        if limits.concurrent.is_none() && limits.requests_per_minute.is_none() {
            return Ok(None);
        }
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MOST && !clients.contains_key(name) {
            clients.retain(|_, client| client.open > 0);
        }
        let client = clients.entry(name.to_owned()).or_default();
        if limits.concurrent.is_some_and(|most| client.open >= most) {
            return Err(Busy::Concurrent);
        }
        if let Some(rate) = limits.requests_per_minute {
            const MINUTE: Duration = Duration::from_secs(60);
            // Each request costs its share of a minute. A client may be a minute ahead: then it has to wait.
            let paid = client.paid.map_or(now, |paid| paid.max(now)) + MINUTE / rate.max(1);
            if let Some(ahead) = paid.checked_duration_since(now + MINUTE).filter(|ahead| !ahead.is_zero()) {
                return Err(Busy::Rate(ahead));
            }
            client.paid = Some(paid);
        }
        client.open += 1;
        Ok(Some(Open { clients: self.clone(), name: name.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_ask_so_often_and_then_has_to_wait() {
        let clients = Arc::new(Clients::default());
        let limits = Limits { requests_per_minute: Some(2), ..Limits::default() };
        let begin = Instant::now();
        let ask = |name: &str, after: u64| clients.begin(name, &limits, begin + Duration::from_secs(after)).map(drop);
        assert_eq!([ask("ann", 0), ask("ann", 0)], [Ok(()), Ok(())]);
        assert_eq!(ask("ann", 0), Err(Busy::Rate(Duration::from_secs(30))));
        assert_eq!(ask("bob", 0), Ok(()), "another client");
        assert_eq!(ask("ann", 29), Err(Busy::Rate(Duration::from_secs(1))));
        assert_eq!(ask("ann", 31), Ok(()));
    }

    #[test]
    fn a_client_may_have_so_many_open_requests() {
        let clients = Arc::new(Clients::default());
        let limits = Limits { concurrent: Some(1), ..Limits::default() };
        let first = clients.begin("ann", &limits, Instant::now()).unwrap();
        assert_eq!(clients.begin("ann", &limits, Instant::now()).map(drop), Err(Busy::Concurrent));
        drop(first);
        assert!(clients.begin("ann", &limits, Instant::now()).is_ok());
    }
}
