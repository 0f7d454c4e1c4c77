//! Servers with which no client can communicate, each for another reason. They count the connections.

#![allow(dead_code, reason = "each program of tests uses some of them")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

/// A server on a port of this machine, which runs until the tests end.
pub(crate) struct Deaf {
    pub(crate) port: u16,
    tried: Arc<AtomicUsize>,
}

impl Deaf {
    /// A server that calls this function with each connection and its number, from 0.
    fn new(with: impl Fn(TcpStream, usize) + Send + 'static) -> Deaf {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let tried = Arc::new(AtomicUsize::new(0));
        let count = tried.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                with(stream.unwrap(), count.fetch_add(1, Ordering::SeqCst));
            }
        });
        Deaf { port, tried }
    }

    /// A server with a certificate that no client trusts. Before the handshake, it reads `before` bytes and sends
    /// `answer`.
    pub(crate) fn untrusted(before: usize, answer: &'static [u8]) -> Deaf {
        let config = Arc::new(config());
        Deaf::new(move |mut stream, _| {
            let mut asked = vec![0; before];
            if stream.read_exact(&mut asked).is_ok() && stream.write_all(answer).is_ok() {
                // The client ends the handshake as soon as it has seen the certificate.
                let _ = ServerConnection::new(config.clone()).unwrap().complete_io(&mut stream);
            }
        })
    }

    /// A server that closes each connection at once.
    pub(crate) fn closing() -> Deaf {
        Deaf::new(|stream, _| drop(stream))
    }

    /// A server that closes the first connections at once, and never sends anything on the others.
    pub(crate) fn silent_after(closed: usize) -> Deaf {
        Deaf::new(move |stream, number| {
            if number >= closed {
                // The connection stays open.
                std::mem::forget(stream);
            }
        })
    }

    /// The number of connections so far.
    pub(crate) fn tried(&self) -> usize {
        self.tried.load(Ordering::SeqCst)
    }
}

/// A self-signed certificate for `localhost`.
fn config() -> ServerConfig {
    let made = Command::new("openssl")
        .args(["req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "-", "-out", "-"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (certificate, key) =
        (CertificateDer::from_pem_slice(&made.stdout), PrivateKeyDer::from_pem_slice(&made.stdout));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.unwrap()], key.unwrap())
        .unwrap()
}

/// A port on which nothing listens.
pub(crate) fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The messages of an error and of its causes.
pub(crate) fn chained(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        told.push_str(": ");
        told.push_str(&cause.to_string());
        source = cause.source();
    }
    told
}
