//! Opens connections to all addresses of a host at once, so that a silent address does not hide another one's error.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncStream, MultiplexedConnection};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, RedisResult};
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// A byte stream, encrypted or not.
type Stream = Box<dyn AsyncStream + Send + Sync + Unpin>;

/// The task that drives a connection. It ends with the last user of the connection, even if answers are outstanding.
pub(super) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a connection to a host within a time limit, and logs in.
pub(super) async fn dial(
    (host, port): &(String, u16),
    tls: Option<&TlsConnector>,
    login: &RedisConnectionInfo,
    limit: Duration,
) -> RedisResult<(MultiplexedConnection, Arc<Driver>)> {
    let deadline = Instant::now() + limit;
    let stream = connect((host.as_str(), *port), tls, deadline, limit).await?;
    // Each call has its own time limit.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let opened = timeout_at(deadline, MultiplexedConnection::new_with_config(login, stream, config)).await;
    let (link, driver) = opened.map_err(|_| RedisError::from(late(limit)))??;
    Ok((link, Arc::new(Driver(tokio::spawn(driver)))))
}

/// Returns the error of a host that does not answer.
pub(super) fn late(limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("there was no answer within {limit:?}"))
}

/// Connects to the first address of a host that answers. If none does, returns the most useful error.
async fn connect(
    (host, port): (&str, u16),
    tls: Option<&TlsConnector>,
    deadline: Instant,
    limit: Duration,
) -> io::Result<Stream> {
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let tls = match tls {
        Some(tls) => Some((tls.clone(), ServerName::try_from(host.to_owned()).map_err(wrong)?)),
        None => None,
    };
    let addresses = timeout_at(deadline, lookup_host((host, port))).await.map_err(|_| late(limit))??;
    let mut trying = JoinSet::new();
    for address in addresses {
        trying.spawn(reach(address, tls.clone()));
    }
    let mut failed: Option<io::Error> = None;
    loop {
        match timeout_at(deadline, trying.join_next()).await {
            Ok(Some(done)) => match done.map_err(io::Error::other)? {
                Ok(stream) => return Ok(stream),
                Err(error) if failed.as_ref().is_none_or(|failed| tells(failed) < tells(&error)) => {
                    failed = Some(error);
                }
                Err(_) => {}
            },
            Ok(None) => {
                let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                return Err(failed.unwrap_or_else(nowhere));
            }
            Err(_) => return Err(failed.unwrap_or_else(|| late(limit))),
        }
    }
}

async fn reach(address: SocketAddr, tls: Option<(TlsConnector, ServerName<'static>)>) -> io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream: Stream = match tls {
        Some((tls, name)) => Box::new(tls.connect(name, stream).await?),
        None => Box::new(stream),
    };
    Ok(stream)
}

/// Rates how much an error says about the server, as opposed to the network.
fn tells(error: &io::Error) -> u8 {
    match error.kind() {
        // A refused certificate is a permanent error.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => 2,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => 0,
        _ => 1,
    }
}
