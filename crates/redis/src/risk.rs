//! What the settings of a server can lose.

use std::fmt;

/// Why a server may lose an append that it has acknowledged.
///
/// A server promises to keep it only with the settings `appendonly yes` and `appendfsync always`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Risk {
    /// It does not write each change to the disk: `appendonly` is `no`. If it ends, what came after the last snapshot is
    /// lost.
    NotOnDisk,
    /// It writes changes to the disk later: `appendfsync` is this. If its machine loses power, about a second is lost
    /// with `everysec`, and more with `no`.
    SyncedLater(String),
    /// The user may not ask when it writes changes to the disk.
    Unknown,
    /// If its memory is full, it deletes sessions by this policy (`maxmemory-policy`).
    Evicts(String),
}

impl Risk {
    /// Finds them in what the server says of itself, and in its setting `appendfsync`, if that may be read. `expires` is
    /// whether sessions expire: some policies delete nothing else.
    pub(super) fn all(info: &str, synced: Option<&str>, expires: bool) -> Vec<Risk> {
        let says =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
        let mut risks = Vec::new();
        match (says("aof_enabled"), synced) {
            ("1", Some("always")) => {}
            ("1", Some(synced)) => risks.push(Risk::SyncedLater(synced.to_owned())),
            ("0", _) => risks.push(Risk::NotOnDisk),
            (_, _) => risks.push(Risk::Unknown),
        }
        let policy = says("maxmemory_policy");
        let is_for_all = policy.starts_with("allkeys-");
        if !matches!(says("maxmemory"), "" | "0") && (is_for_all || expires && policy.starts_with("volatile-")) {
            risks.push(Risk::Evicts(policy.to_owned()));
        }
        risks
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Risk::NotOnDisk => f.write_str("set `appendonly yes`: if the server ends, it loses what came last"),
            Risk::SyncedLater(setting) => write!(
                f,
                "set `appendfsync always` instead of `{setting}`: if the machine loses power, the server loses what \
                 came last"
            ),
            Risk::Unknown => {
                f.write_str("the server may lose what came last: it does not say when it writes to the disk")
            }
            Risk::Evicts(policy) => write!(
                f,
                "set `maxmemory-policy noeviction` instead of `{policy}`: if the memory is full, the server deletes \
                 sessions"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_keeps_all_has_no_risk() {
        let info = |aof: u8, maxmemory: u32, policy: &str| {
            format!("aof_enabled:{aof}\r\nmaxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n")
        };
        let policy = || "allkeys-lru".to_owned();
        for (info, synced, expected) in [
            (info(1, 0, "noeviction"), Some("always"), vec![]),
            (info(1, 0, "allkeys-lru"), Some("always"), vec![]),
            (info(1, 9, "allkeys-lru"), Some("always"), vec![Risk::Evicts(policy())]),
            (info(1, 9, "noeviction"), Some("everysec"), vec![Risk::SyncedLater("everysec".to_owned())]),
            (info(1, 0, "noeviction"), None, vec![Risk::Unknown]),
            (info(0, 9, "allkeys-lru"), None, vec![Risk::NotOnDisk, Risk::Evicts(policy())]),
            (String::new(), None, vec![Risk::Unknown]),
        ] {
            assert_eq!(Risk::all(&info, synced, false), expected, "{info}");
        }
        let volatile = info(1, 9, "volatile-ttl");
        assert_eq!(Risk::all(&volatile, Some("always"), false), []);
        assert_eq!(Risk::all(&volatile, Some("always"), true), [Risk::Evicts("volatile-ttl".to_owned())]);
    }
}
