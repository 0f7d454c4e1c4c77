//! A pool of connections to the server, with time limits and a limited number of tries.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::Settings;
use super::fault::{Failure, explain};
use lookback_network::{Refused, Tries, Trouble, patience_for_a_host, tls_config};
use lookback_store::StoreError;

/// The parameters of a statement with their types, so that the server need not be asked for the types.
pub(super) type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A database with the tables of a store.
pub(super) struct Database {
    pool: Pool,
    tls: MakeRustlsConnect,
    refused: Refused,
    /// The URL without the password.
    pub(super) place: String,
    pub(super) schema: String,
    pub(super) partitions: u32,
    pub(super) patience: Duration,
    prepare: bool,
    /// The reason why the last connection failed.
    pub(super) trouble: Trouble,
}

impl Database {
    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let mut settings = Settings::parse(url)?;
        // A host that does not answer must not use up the time of the next one.
        if settings.driver.get_connect_timeout().is_none() {
            settings.driver.connect_timeout(patience_for_a_host(patience));
        }
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Backend {
            place: settings.place.clone(),
            source,
        };
        let refused = Refused::default();
        let config = tls_config(settings.verify, settings.root_certificates.as_deref(), &refused).map_err(failed)?;
        let tls = MakeRustlsConnect::new(config);
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
        let trouble = Trouble::default();
        Ok(Database { pool, tls, refused, place, schema, partitions, patience, prepare, trouble })
    }

    /// Runs a statement that may be repeated, and whose text is always the same.
    pub(super) async fn fixed(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let tries = &mut Tries::new(self.patience);
        loop {
            match self.try_fixed(tries, sql, params).await {
                Err(failure) if failure.may_pass() && tries.back_off().await => {}
                done => return done.map_err(|failure| explain(&self.place, self.patience, failure)),
            }
        }
    }

    /// Runs a statement that may be repeated, and returns its rows.
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
                Err(failure) if failure.may_pass() && tries.back_off().await => {}
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

    /// Runs a statement once, whose text is always the same. With `prepare=yes` in the URL, the first call on each
    /// connection prepares it.
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

    /// Returns the rows of an answer, or an error if it came too late.
    fn in_time(
        &self,
        client: Object,
        rows: Result<Result<Vec<Row>, tokio_postgres::Error>, Elapsed>,
    ) -> Result<Vec<Row>, Failure> {
        match rows {
            Ok(rows) => Ok(rows?),
            Err(_) => {
                self.give_up(client);
                // The other connections may be dead, too. A new one will show.
                self.pool.retain(|_, _| false);
                Err(Failure::Late)
            }
        }
    }

    pub(super) async fn client(&self, tries: &Tries) -> Result<Object, Failure> {
        let failure = match timeout_at(tries.deadline, self.pool.get()).await {
            Ok(Ok(client)) => {
                self.refused.take();
                self.trouble.end();
                return Ok(client);
            }
            Ok(Err(error)) => Failure::from(error),
            Err(_) => Failure::Late,
        };
        Err(match failure {
            // No request was sent yet. The reason why the previous connection failed is more useful than a timeout.
            Failure::Late => self.trouble.error(&self.place, tries.patience).map_or(Failure::Late, Failure::Store),
            failure => {
                // With several addresses, the driver reports only the last error. A certificate error is permanent, so
                // it is reported.
                let refused = |why: String| StoreError::Unreachable { place: self.place.clone(), source: why.into() };
                let failure = self.refused.take().map(refused).map_or(failure, Failure::Store);
                self.trouble.record(failure.describe());
                failure
            }
        })
    }

    /// Closes a connection that still waits for an answer, and asks the server to cancel the statement.
    pub(super) fn give_up(&self, client: Object) {
        let client = Object::take(client);
        let (cancel, tls) = (client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_secs(5), cancel.cancel_query(tls)).await;
        });
    }
}
