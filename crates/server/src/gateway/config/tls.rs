//! The certificate and the key of a gateway that serves TLS.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::gateway::config::{ConfigError, ConfigFault, Tls};

/// Reads the TLS certificate and key.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ConfigError> {
    fn fault<E: Error + Send + Sync + 'static>(path: &Path) -> impl Fn(E) -> ConfigError {
        move |error| ConfigFault::Tls { path: path.to_owned(), fault: Box::new(error) }.into()
    }
    let chain = CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(fault(&tls.certificate))?;
    if chain.is_empty() {
        return Err(ConfigFault::NoCertificate(tls.certificate.clone()).into());
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(fault(&tls.key))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(fault(&tls.certificate))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(fault(&tls.key))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
