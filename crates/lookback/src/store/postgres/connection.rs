//! Connections to the server: a pool of them, with limits, and tries that end.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::Settings;
use super::fault::{Failure, explain};
use crate::store::StoreError;
use crate::store::network::{Tries, Unresolved};

/// The parameters of a statement, each with its type, so that the server need not be asked for it.
pub(super) type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A database with the tables of a store.
pub(super) struct Database {
    pool: Pool,
    tls: MakeRustlsConnect,
    /// The database, without the password.
    pub(super) place: String,
    pub(super) schema: String,
    pub(super) partitions: u32,
    pub(super) patience: Duration,
    prepare: bool,
    /// Appends of which it is not known whether they were written.
    pub(super) unresolved: Unresolved,
}

impl Database {
    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let settings = Settings::parse(url)?;
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Backend {
            place: settings.place.clone(),
            source,
        };
        let tls = MakeRustlsConnect::new(tls(&settings).map_err(failed)?);
        let manager = Manager::from_config(
            settings.driver,
            tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let limit = Some(patience);
        let pool = Pool::builder(manager)
            .max_size(settings.connections)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts { wait: limit, create: limit, recycle: limit })
            .build()
            .map_err(|error| StoreError::Backend { place: settings.place.clone(), source: Box::new(error) })?;
        let Settings { place, schema, partitions, prepare, .. } = settings;
        Ok(Database { pool, tls, place, schema, partitions, patience, prepare, unresolved: Unresolved::default() })
    }

    /// Runs a statement that may be run again, and whose text is always the same.
    pub(super) async fn fixed(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let tries = &mut Tries::new(self.patience);
        loop {
            match self.try_fixed(tries, sql, params).await {
                Err(failure) if failure.may_pass() && tries.again().await => {}
                done => return done.map_err(|failure| explain(&self.place, self.patience, failure)),
            }
        }
    }

    /// Runs a statement that may be run again, and returns its rows.
    pub(super) async fn rows(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.rows_within(self.patience, sql, params).await
    }

    pub(super) async fn rows_within(
        &self,
        patience: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut tries = Tries::new(patience);
        loop {
            match self.try_rows(&tries, sql, params).await {
                Err(failure) if failure.may_pass() && tries.again().await => {}
                done => return done.map_err(|failure| explain(&self.place, patience, failure)),
            }
        }
    }

    /// Runs a statement once.
    pub(super) async fn try_rows(&self, tries: &Tries, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let client = self.client(tries).await?;
        let rows = timeout_at(tries.deadline, client.query_typed(sql, params)).await;
        self.in_time(client, rows)
    }

    /// Runs a statement once, whose text is always the same. If the URL asks for it, it is prepared by the first call of
    /// each connection.
    pub(super) async fn try_fixed(&self, tries: &Tries, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        if !self.prepare {
            return self.try_rows(tries, sql, params).await;
        }
        let client = self.client(tries).await?;
        let (values, types): (Vec<_>, Vec<_>) = params.iter().map(|(value, of)| (*value, of.clone())).unzip();
        let rows = async {
            let statement = client.prepare_typed_cached(sql, &types).await?;
            client.query(&statement, &values).await
        };
        let rows = timeout_at(tries.deadline, rows).await;
        self.in_time(client, rows)
    }

    /// The rows of an answer, if there was one in time.
    fn in_time(
        &self,
        client: Object,
        rows: Result<Result<Vec<Row>, tokio_postgres::Error>, Elapsed>,
    ) -> Result<Vec<Row>, Failure> {
        match rows {
            Ok(rows) => Ok(rows?),
            Err(_) => {
                self.give_up(client);
                // The others may be as dead. A new one tells.
                self.pool.retain(|_, _| false);
                Err(Failure::Late)
            }
        }
    }

    pub(super) async fn client(&self, tries: &Tries) -> Result<Object, Failure> {
        match timeout_at(tries.deadline, self.pool.get()).await {
            Ok(client) => Ok(client?),
            Err(_) => Err(Failure::Late),
        }
    }

    /// Closes a connection on which the server owes an answer, and asks the server not to go on.
    pub(super) fn give_up(&self, client: Object) {
        let client = Object::take(client);
        let (cancel, tls) = (client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_secs(5), cancel.cancel_query(tls)).await;
        });
    }
}

fn tls(settings: &Settings) -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    if !settings.verify {
        let verifier = Arc::new(AnyCertificate(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    match &settings.root_certificates {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path)? {
                roots.add(certificate?)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Accepts any certificate, as `psql` does unless the mode is `verify-full`: it keeps off those who only listen.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
