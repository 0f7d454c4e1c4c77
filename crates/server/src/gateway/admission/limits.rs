//! The rate limits of each client: requests per minute, and concurrent requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Uri};

use crate::gateway::config::Limits;

/// The most clients that are remembered. Beyond that, clients without open requests start over.
const MOST: usize = 65_536;

/// The recent requests of each client.
#[derive(Default)]
pub(crate) struct Clients(Mutex<HashMap<String, Client>>);

#[derive(Default)]
struct Client {
    open: usize,
    /// The time up to which its requests are paid for. At most a minute ahead of now.
    paid: Option<Instant>,
}

/// The reason that a request has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The client sends requests too often, and may send the next one after this time.
    Rate(Duration),
    /// The client has too many open requests.
    Concurrent,
}

/// An open request of a client. Dropping it closes the request.
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

/// Returns whether a request's head has more bytes than the limit.
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
            // Each request costs its share of a minute. A client that is a minute ahead has to wait.
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
