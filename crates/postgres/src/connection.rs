//! A pool of connections to the server, with time limits and a limited number of tries.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts};
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::Settings;
use super::fault::{failure, record};
use lookback_network::{Failure, Limit, Remote, retry};
use lookback_store::StoreError;

/// The parameters of a statement with their types, so that the server need not be asked for the types.
pub(super) type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// The driver's answer, unless it came too late.
pub(super) type Answer<T> = Result<Result<T, tokio_postgres::Error>, Elapsed>;

/// A database with the tables of a store.
pub(super) struct Database {
    pool: Pool,
    tls: MakeRustlsConnect,
    pub(super) remote: Remote,
    pub(super) schema: String,
    pub(super) partitions: u32,
    prepare: bool,
}

impl Database {
    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let mut settings = Settings::parse(url)?;
        let remote = Remote::new(settings.place, patience);
        // A host that does not answer must not use up the time of the next one.
        if settings.driver.get_connect_timeout().is_none() {
            settings.driver.connect_timeout(remote.patience_for_a_host());
        }
        let tls = MakeRustlsConnect::new(remote.tls(settings.verify, settings.root_certificates.as_deref())?);
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
            .map_err(|error| remote.broken(error))?;
        let Settings { schema, partitions, prepare, .. } = settings;
        Ok(Database { pool, tls, remote, schema, partitions, prepare })
    }

    /// Runs a statement that may be repeated, and whose text is always the same.
    pub(super) async fn fixed(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(retry(self.remote.patience, |limit| self.try_fixed(limit, sql, params)).await?)
    }

    /// Runs a statement that may be repeated, and returns its rows.
    pub(super) async fn rows(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.rows_within(self.remote.patience, sql, params).await
    }

    pub(super) async fn rows_within(
        &self,
        patience: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(retry(patience, |limit| self.try_rows(limit, sql, params)).await?)
    }

    /// Runs a statement once.
    pub(super) async fn try_rows(&self, limit: Limit, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let client = self.client(limit).await?;
        let rows = timeout_at(limit.deadline, client.query_typed(sql, params)).await;
        self.in_time(limit, client, rows)
    }

    /// Runs a statement once, whose text is always the same. With `prepare=yes` in the URL, the first call on each
    /// connection prepares it.
    pub(super) async fn try_fixed(&self, limit: Limit, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        if !self.prepare {
            return self.try_rows(limit, sql, params).await;
        }
        let client = self.client(limit).await?;
        let (values, types): (Vec<_>, Vec<_>) = params.iter().map(|(value, of)| (*value, of.clone())).unzip();
        let rows = async {
            let statement = client.prepare_typed_cached(sql, &types).await?;
            client.query(&statement, &values).await
        };
        let rows = timeout_at(limit.deadline, rows).await;
        self.in_time(limit, client, rows)
    }

    /// Returns the rows of an answer, or an error if it came too late.
    fn in_time(&self, limit: Limit, client: Object, rows: Answer<Vec<Row>>) -> Result<Vec<Row>, Failure> {
        if rows.is_err() {
            self.give_up(client);
            // The other connections may be dead, too. A new one will show.
            self.pool.retain(|_, _| false);
        }
        self.answered(limit, rows)
    }

    pub(super) fn answered<T>(&self, limit: Limit, answer: Answer<T>) -> Result<T, Failure> {
        answer.map_err(|_| self.late(limit))?.map_err(|error| failure(&self.remote, limit.patience, error))
    }

    fn late(&self, limit: Limit) -> Failure {
        let error = StoreError::Late { place: self.remote.place.clone(), limit: limit.patience };
        Failure::new(error, true, true)
    }

    /// Runs a transaction once. The work begins and commits it.
    pub(super) async fn transaction<T>(
        &self,
        limit: Limit,
        work: impl AsyncFnOnce(&Object) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let client = self.client(limit).await?;
        let done = work(&client).await;
        if done.is_err() {
            // The transaction may still be open.
            self.give_up(client);
        }
        done
    }

    async fn client(&self, limit: Limit) -> Result<Object, Failure> {
        let error = match timeout_at(limit.deadline, self.pool.get()).await {
            Ok(Ok(client)) => {
                self.remote.record(None);
                return Ok(client);
            }
            Ok(Err(PoolError::Backend(error))) => error,
            Ok(Err(PoolError::Timeout(_))) | Err(_) => {
                // No request was sent yet. The reason why the previous connection failed is more useful than a timeout.
                let trouble = self.remote.last_error(limit.patience).map(Failure::from);
                return Err(trouble.unwrap_or_else(|| self.late(limit)));
            }
            Ok(Err(other)) => return Err(self.remote.broken(other).into()),
        };
        // With several addresses, the driver reports only the last error. A certificate error is permanent, so it is
        // reported.
        let refused = self.remote.refused();
        match &refused {
            Some(refused) => self.remote.record(Some(refused)),
            None => record(&self.remote, &error),
        }
        Err(refused.map_or_else(|| failure(&self.remote, limit.patience, error), Failure::from))
    }

    /// Closes a connection that still waits for an answer, and asks the server to cancel the statement.
    fn give_up(&self, client: Object) {
        let client = Object::take(client);
        let (cancel, tls) = (client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_secs(5), cancel.cancel_query(tls)).await;
        });
    }
}
