//! `lookback sessions prune`: deletes sessions that were unused for a long time, or that are too many.

use futures_lite::future::block_on;
use lookback_engine::transcript::Millis;
use lookback_store::{Expired, Retention, Tenant, every_namespace, expired, prune};
use lookback_store::{LogName, Store};
use serde::Serialize;

use super::minute;
use crate::failure::Failure;
use crate::{json, output};

pub(super) fn run(store: &dyn Store, retention: &Retention, yes: bool, json: bool) -> Result<(), Failure> {
    let mut pruned = Vec::new();
    for (tenants, scoped) in block_on(every_namespace(store))? {
        let store = scoped.as_deref().unwrap_or(store);
        let found =
            block_on(async { if yes { prune(store, retention).await } else { expired(store, retention).await } })?;
        pruned.extend(found.into_iter().map(|session| Pruned::new(&tenants, session)));
    }
    if json {
        for session in &pruned {
            output::json_line(session)?;
        }
    } else if !pruned.is_empty() {
        let row = |session: &Pruned| {
            let names: Vec<&str> = session.tenants.iter().map(Tenant::as_str).collect();
            let [entries, bytes] = [session.entries, session.bytes].map(output::number);
            let name = output::plain(session.session.as_str());
            [name, output::plain(&names.join(" / ")), entries, bytes, minute(session.used)]
        };
        let header = ["session", "tenant", "entries", "bytes", "last used (UTC)"];
        output::line(&output::text_of(&output::table(header, &[0, 1, 4], pruned.iter().map(row))))?;
    }
    let sessions = output::counted(pruned.len() as u64, "session", "sessions");
    output::message(&match (yes, pruned.is_empty()) {
        (true, _) => format!("deleted {sessions}"),
        (false, false) => format!("{sessions} would be deleted; delete with --yes"),
        (false, true) => format!("{sessions} would be deleted"),
    });
    Ok(())
}

/// A line of `sessions prune`.
#[derive(Serialize)]
struct Pruned {
    /// The tenants, from the outermost inward. Empty for the store itself.
    tenants: Vec<Tenant>,
    session: LogName,
    entries: u64,
    bytes: u64,
    #[serde(serialize_with = "json::rfc3339")]
    used: Option<Millis>,
}

impl Pruned {
    fn new(tenants: &[Tenant], session: Expired) -> Self {
        let Expired { session, records, bytes, used, .. } = session;
        Pruned { tenants: tenants.to_vec(), session, entries: records, bytes, used }
    }
}
