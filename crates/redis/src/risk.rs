//! The settings of a server that may lose acknowledged appends.

use std::fmt;

/// The reason why a server may lose an append that it has acknowledged.
///
/// A server promises to keep it only with the settings `appendonly yes` and `appendfsync always`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Risk {
    /// `appendonly` is `no`: the server does not write each change to the disk. If it stops, it loses all changes since
    /// the last snapshot.
    NotOnDisk,
    /// `appendfsync` has this value: the server writes changes to the disk later. If its machine loses power, it loses
    /// about a second with `everysec`, and more with `no`.
    SyncedLater(String),
    /// The user may not read the setting `appendfsync`.
    Unknown,
    /// `maxmemory-policy` has this value: the server deletes sessions if its memory is full.
    Evicts(String),
}

impl Risk {
    /// Finds the risks in the server's information and in its setting `appendfsync`, if that is readable. `expires` is
    /// whether sessions expire: some policies delete only those.
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
            Risk::NotOnDisk => f.write_str("set `appendonly yes`: if the server stops, it loses the newest entries"),
            Risk::SyncedLater(setting) => write!(
                f,
                "set `appendfsync always` instead of `{setting}`: if the machine loses power, the server loses the \
                 newest entries"
            ),
            Risk::Unknown => {
                f.write_str("the server may lose the newest entries: it does not report when it writes to the disk")
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
