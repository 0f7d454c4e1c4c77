//! Full-text search: answers the ranking's questions in SQL.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use lookback_engine::transcript::Millis;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::connection::Database;
use super::read::get;
use super::{PostgresStore, signed, unsigned};
use lookback_store::search::{Index, Lookup, Place, Query, rank};
use lookback_store::{Hit, LogName, Scope, StoreError};

/// How long a search may take.
const LONGEST: Duration = Duration::from_secs(10);

/// Finds the records that match a query, in one log or in all: the best first.
pub(super) async fn search(
    PostgresStore { database, scope }: PostgresStore,
    log: Option<LogName>,
    query: Query,
    most: usize,
) -> Result<Vec<Hit>, StoreError> {
    let (handle, of) = (Handle::current(), database.clone());
    // The ranking blocks while it waits for answers, so it runs on another thread.
    let ranked = spawn_blocking(move || {
        let (times, logs) = (query.times(), Logs::default());
        let deadline = Instant::now() + LONGEST;
        rank(&mut Words { database: &of, handle, deadline, scope, log, times, texts: 0, logs }, &query, most)
    });
    ranked.await.map_err(|error| database.remote.broken(error))?
}

/// The logs that were found, numbered in the order of their identifiers.
#[derive(Default)]
struct Logs {
    numbers: BTreeMap<i64, u32>,
    ids: Vec<i64>,
}

impl Logs {
    fn know(&mut self, ids: impl Iterator<Item = i64>) {
        self.numbers = ids.map(|id| (id, 0)).collect();
        self.ids = self.numbers.keys().copied().collect();
        for (number, of) in (0..).zip(self.numbers.values_mut()) {
            *of = number;
        }
    }
}

/// The index as one query sees it.
struct Words<'a> {
    database: &'a Database,
    handle: Handle,
    /// The time by which all answers must have arrived.
    deadline: Instant,
    scope: Scope,
    /// The searched log; all if `None`.
    log: Option<LogName>,
    times: Option<RangeInclusive<Millis>>,
    /// The number of texts, from the newest answer.
    texts: u64,
    logs: Logs,
}

impl Words<'_> {
    fn rows(&self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, StoreError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.handle.block_on(self.database.rows_within(left, sql, params)).map_err(|error| match error {
            StoreError::Late { place, .. } if Instant::now() >= self.deadline => {
                StoreError::Slow { place, limit: LONGEST }
            }
            other => other,
        })
    }

    /// Returns a condition that limits the texts `t` to those that are searched. `$1` is the scope, `$2` the log, and
    /// `$3` the terms of the tenant.
    fn within(&self) -> String {
        let schema = &self.database.schema;
        match &self.log {
            Some(_) => format!("t.log = (SELECT id FROM {schema}.logs WHERE scope = $1 AND name = $2)"),
            None if self.scope.as_str().is_empty() => "NOT t.terms @> $3::text[]".to_owned(),
            None => "t.terms @> $3::text[]".to_owned(),
        }
    }

    fn tenant_terms(&self) -> Vec<String> {
        match self.scope.terms().pop() {
            Some(own) => vec![own],
            None => vec![Scope::OF_TENANTS.to_owned()],
        }
    }
}

impl Index for Words<'_> {
    type Error = StoreError;
    type Hit = Hit;

    fn texts(&mut self) -> Result<u64, StoreError> {
        Ok(self.texts)
    }

    fn counts(&mut self, terms: &[String]) -> Result<Vec<u64>, StoreError> {
        Ok(self.counts_of(&[terms.to_vec()])?.pop().unwrap_or_default())
    }

    fn counts_of(&mut self, lists: &[Vec<String>]) -> Result<Vec<Vec<u64>>, StoreError> {
        let terms: Vec<&String> = lists.iter().flatten().collect();
        let (schema, within) = (&self.database.schema, self.within());
        // The terms of one log are fewer than the texts with a term in all logs.
        let counted = match &self.log {
            Some(_) => format!(
                "SELECT term, count(*) FROM {schema}.texts t, unnest(t.terms) AS term
                 WHERE {within} AND term = ANY($4) GROUP BY term"
            ),
            None => format!(
                "SELECT term, (SELECT count(*) FROM {schema}.texts t WHERE t.terms @> ARRAY[term] AND {within})
                 FROM unnest($4::text[]) AS term"
            ),
        };
        let sql = format!(
            "SELECT NULL, coalesce(sum(texts), 0)::bigint FROM {schema}.logs
             WHERE scope = $1 AND ($2::text IS NULL OR name = $2) AND $3::text[] IS NOT NULL
             UNION ALL {counted}"
        );
        let (scope, log, of_tenant) =
            (self.scope.as_str(), self.log.as_ref().map(LogName::as_str), self.tenant_terms());
        let params: &[(&(dyn ToSql + Sync), Type)] =
            &[(&scope, Type::TEXT), (&log, Type::TEXT), (&of_tenant, Type::TEXT_ARRAY), (&terms, Type::TEXT_ARRAY)];
        let mut counts = HashMap::new();
        for row in self.rows(&sql, params)? {
            let (term, count): (Option<String>, i64) = (get(self.database, &row, 0)?, get(self.database, &row, 1)?);
            match term {
                Some(term) => {
                    counts.insert(term, unsigned(count));
                }
                None => self.texts = unsigned(count),
            }
        }
        let count = |term: &String| counts.get(term).copied().unwrap_or(0);
        Ok(lists.iter().map(|terms| terms.iter().map(count).collect()).collect())
    }

    fn places(&mut self, any: &[String], all: &[Vec<String>], most: usize) -> Result<Vec<Place>, StoreError> {
        let lookup = Lookup { any: any.to_vec(), all: all.to_vec() };
        Ok(self.places_of(&[lookup], most)?.pop().unwrap_or_default())
    }

    fn places_of(&mut self, lookups: &[Lookup], most: usize) -> Result<Vec<Vec<Place>>, StoreError> {
        if lookups.is_empty() {
            return Ok(Vec::new());
        }
        let (schema, within) = (&self.database.schema, self.within());
        let (scope, log, of_tenant) =
            (self.scope.as_str(), self.log.as_ref().map(LogName::as_str), self.tenant_terms());
        let (most, times) = (signed(most as u64), self.times.clone());
        let (since, until) = times.map(RangeInclusive::into_inner).unzip();
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![
            (&scope, Type::TEXT),
            (&log, Type::TEXT),
            (&of_tenant, Type::TEXT_ARRAY),
            (&most, Type::INT8),
            (&since, Type::INT8),
            (&until, Type::INT8),
        ];
        let mut selects = Vec::new();
        for (number, lookup) in lookups.iter().enumerate() {
            let mut demands = Vec::new();
            for terms in [&lookup.any].into_iter().chain(&lookup.all) {
                params.push((terms, Type::TEXT_ARRAY));
                demands.push(format!("t.terms && ${}", params.len()));
            }
            selects.push(format!(
                "(SELECT {number}::bigint, t.log, t.number FROM {schema}.texts t WHERE {within} AND {}
                  AND ($5::bigint IS NULL OR t.time BETWEEN $5 AND $6) ORDER BY t.log DESC, t.number DESC LIMIT $4)",
                demands.join(" AND ")
            ));
        }
        // The statement must use every parameter.
        let all =
            "SELECT 0::bigint, 0::bigint, 0::bigint WHERE $1::text IS NULL AND $2::text IS NULL AND $3::text[] IS NULL";
        let sql = format!("{all} UNION ALL {}", selects.join(" UNION ALL "));
        let mut found = Vec::new();
        for row in self.rows(&sql, &params)? {
            let at: (i64, i64, i64) =
                (get(self.database, &row, 0)?, get(self.database, &row, 1)?, get(self.database, &row, 2)?);
            found.push(at);
        }
        self.logs.know(found.iter().map(|(_, log, _)| *log));
        let mut places = vec![Vec::new(); lookups.len()];
        for (lookup, log, text) in found {
            let log = self.logs.numbers.get(&log).copied().unwrap_or(0);
            let place = Place::new(log, u32::try_from(text).unwrap_or(u32::MAX));
            if let Some(places) = usize::try_from(lookup).ok().and_then(|lookup| places.get_mut(lookup)) {
                places.push(place);
            }
        }
        places.iter_mut().for_each(|places| places.sort_unstable());
        Ok(places)
    }

    fn hit(&mut self, place: Place) -> Result<Option<Hit>, StoreError> {
        Ok(self.hits(&[place])?.pop().flatten())
    }

    fn hits(&mut self, places: &[Place]) -> Result<Vec<Option<Hit>>, StoreError> {
        let id = |place: &Place| self.logs.ids.get(place.log() as usize).copied().unwrap_or(-1);
        let logs: Vec<i64> = places.iter().map(id).collect();
        let texts: Vec<i64> = places.iter().map(|place| i64::from(place.text())).collect();
        let (since, until) = self.times.clone().map(RangeInclusive::into_inner).unzip();
        let sql = format!(
            "SELECT wanted.number, name, t.position
             FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS wanted (log, text, number)
             JOIN {0}.texts t ON t.log = wanted.log AND t.number = wanted.text
             JOIN {0}.logs ON id = wanted.log
             WHERE scope = $5 AND ($3::bigint IS NULL OR t.time BETWEEN $3 AND $4)",
            self.database.schema
        );
        let scope = self.scope.as_str();
        let params: &[(&(dyn ToSql + Sync), Type)] = &[
            (&logs, Type::INT8_ARRAY),
            (&texts, Type::INT8_ARRAY),
            (&since, Type::INT8),
            (&until, Type::INT8),
            (&scope, Type::TEXT),
        ];
        let mut hits = vec![None; places.len()];
        for row in self.rows(&sql, params)? {
            let (number, name, position): (i64, String, i64) =
                (get(self.database, &row, 0)?, get(self.database, &row, 1)?, get(self.database, &row, 2)?);
            let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            if let Some(hit) = at.and_then(|at| hits.get_mut(at)) {
                *hit = Some(Hit::new(LogName::unchecked(name), unsigned(position)));
            }
        }
        Ok(hits)
    }
}
