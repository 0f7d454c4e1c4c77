//! The certificates that stores on a network trust: those of the system, those of a file, or any.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Locks a reason. Each change is one assignment, so a panic leaves the value intact.
pub(super) fn lock(reason: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    reason.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the configuration of `Remote::tls`, which records why a certificate was refused.
pub(super) fn tls_config(
    verify: bool,
    roots: Option<&Path>,
    refused: Arc<Mutex<Option<String>>>,
) -> Result<ClientConfig, Box<dyn Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let checked = if verify { Some(verifier(roots, provider.clone())?) } else { None };
    let verifier = Arc::new(Verifier { checked, provider: provider.clone(), refused });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn verifier(
    roots: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Box<dyn Error + Send + Sync>> {
    let mut trusted = RootCertStore::empty();
    match roots {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path)? {
                trusted.add(certificate?)?;
            }
        }
        None => {
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), provider).build()?)
}

/// Checks certificates, or accepts any, as `psql` does unless the mode is `verify-full`. Accepting any still protects
/// against passive listeners.
#[derive(Debug)]
struct Verifier {
    checked: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    refused: Arc<Mutex<Option<String>>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.checked {
            Some(checked) => {
                let verified = checked.verify_server_cert(certificate, between, name, ocsp, now);
                verified.inspect_err(|error| *lock(&self.refused) = Some(error.to_string()))
            }
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
