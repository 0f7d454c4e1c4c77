//! The file of a log: each name has its own under the root.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::{Derived, LogName, Tenant};

/// The folder of the logs, under the root.
pub(super) const MEMORY: &str = "memory";
/// Its subfolder for the shared facts of workspaces.
const SHARED: &str = "shared";
/// The folder of the tenants, under the root.
pub(super) const TENANTS: &str = "tenants";
/// The most bytes of an encoded name. File systems allow 255, and an extension follows.
const LONGEST: usize = 200;
/// How many bytes of a longer name remain readable. A digest follows.
const READABLE: usize = 160;

/// The folder of the indexes, under the root.
pub(super) const INDEX: &str = "index";

/// The file of a log, and the file of its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    index: PathBuf,
    pub(super) kind: Kind,
}

/// How a file keeps its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One record for each line.
    Lines,
    /// All records in one JSON document, which may have other programs' members.
    Document,
}

/// Returns the name of a log's file in its session's folder; `None` if the log is a document. `derived` is `None` for
/// the session's own log.
fn file_of(derived: Option<Derived>) -> Option<&'static str> {
    match derived {
        None => Some("turns.jsonl"),
        Some(Derived::Facts) => Some("facts.jsonl"),
        Some(Derived::Summary) => Some("summary.jsonl"),
        Some(Derived::Shared) => None,
    }
}

/// Every kind of log.
fn kinds() -> impl Iterator<Item = Option<Derived>> {
    [None].into_iter().chain(Derived::ALL.map(Some))
}

impl Place {
    pub(super) fn for_log(root: &Path, log: &LogName) -> Place {
        let derived = log.derived();
        let (kind, of) = derived.map_or((None, log.as_str()), |(derived, of)| (Some(derived), of));
        match file_of(kind) {
            Some(file) => Place::new(root, &encoded(of, &[SHARED, "sessions"]), file, Kind::Lines),
            None => {
                let name = if of == SHARED { MEMORY.to_owned() } else { encoded(of, &[MEMORY]) };
                Place::new(root, SHARED, &(name + ".json"), Kind::Document)
            }
        }
    }

    /// Returns the place of a file, given its folder and its name, if it may be a log's.
    pub(super) fn at(root: &Path, folder: &str, file: &str) -> Option<Place> {
        match folder {
            SHARED => file.ends_with(".json").then(|| Place::new(root, folder, file, Kind::Document)),
            _ => kinds().any(|kind| file_of(kind) == Some(file)).then(|| Place::new(root, folder, file, Kind::Lines)),
        }
    }

    fn new(root: &Path, folder: &str, file: &str, kind: Kind) -> Place {
        let mut index = root.join(INDEX).join(folder).join(file).into_os_string();
        index.push(".index");
        Place { path: root.join(MEMORY).join(folder).join(file), index: index.into(), kind }
    }

    /// Returns the log of this place by its path alone; `None` if the folder's name was shortened to a digest, or if no
    /// log has this place.
    pub(super) fn log(&self, root: &Path) -> Option<LogName> {
        let (folder, file) = (self.path.parent()?.file_name()?.to_str()?, self.path.file_name()?.to_str()?);
        let log = match self.kind {
            Kind::Document => {
                let name = decoded(file.strip_suffix(".json")?)?;
                LogName::from_stored(if name == MEMORY { SHARED } else { &name })?.shared_of()
            }
            Kind::Lines => {
                let session = LogName::from_stored(&decoded(folder)?)?;
                let kind = kinds().find(|kind| file_of(*kind) == Some(file))?;
                kind.map_or(session.clone(), |derived| session.derive(derived))
            }
        };
        (Place::for_log(root, &log) == *self).then_some(log)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the index.
    pub(super) fn index(&self) -> &Path {
        &self.index
    }
}

/// Encodes a name as a valid file name: readable if possible, and different for each name.
fn encoded(name: &str, taken: &[&str]) -> String {
    // Some file systems ignore case.
    let taken = taken.iter().any(|taken| taken.eq_ignore_ascii_case(name));
    let mut whole = String::new();
    let mut readable = 0;
    let mut leading = true;
    for (index, c) in name.char_indices() {
        leading &= c == '.';
        let plain = c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if plain && !leading && !(taken && index == 0) {
            whole.push(c);
        } else {
            let mut bytes = [0; 4];
            whole.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        }
        if whole.len() <= READABLE {
            readable = whole.len();
        }
    }
    if whole.is_empty() {
        // Only a derived log can belong to the empty name. No other encoded name is a bare `%`.
        return "%".to_owned();
    }
    if whole.len() > LONGEST {
        // No other encoded name contains a `~`.
        whole.truncate(readable);
        whole.push_str(&format!("~{:032x}", xxh3_128(name.as_bytes())));
    }
    whole
}

/// Returns the folder of a tenant. The encoding is reversible, and no file system confuses two folders: they contain
/// only lower case ASCII.
pub(super) fn tenant_folder(tenant: &Tenant) -> String {
    let mut folder = String::new();
    for byte in tenant.as_str().bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_') {
            folder.push(char::from(byte));
        } else {
            folder.push_str(&format!("%{byte:02x}"));
        }
    }
    folder
}

/// Returns the tenant of a folder; `None` if it is not a tenant's.
pub(super) fn tenant_at(folder: &str) -> Option<Tenant> {
    let tenant: Tenant = decoded(folder)?.parse().ok()?;
    (tenant_folder(&tenant) == folder).then_some(tenant)
}

/// Decodes a text in which `%` precedes the two hexadecimal digits of a byte.
fn decoded(encoded: &str) -> Option<String> {
    let mut parts = encoded.split('%');
    let mut text = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        text.push(u8::from_str_radix(code, 16).ok()?);
        text.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(text).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_readable_file_name() {
        for (name, expected) in [
            ("chat-1", "chat-1"),
            ("Team_2.b", "Team_2.b"),
            ("team/agent 7", "team%2Fagent%207"),
            ("caf\u{e9}", "caf%C3%A9"),
            ("a%2Fb~", "a%252Fb%7E"),
            (".hidden", "%2Ehidden"),
            ("...a.b.", "%2E%2E%2Ea.b."),
            ("shared", "%73hared"),
            ("Shared", "%53hared"),
            ("SESSIONS", "%53ESSIONS"),
            ("sharedx", "sharedx"),
            ("", "%"),
        ] {
            assert_eq!(encoded(name, &["shared", "sessions"]), expected);
        }
    }

    #[test]
    fn long_names_are_cut_and_completed_and_stay_apart() {
        for c in ["x", "\u{1f600}"] {
            let long = |end: &str| encoded(&(c.repeat(199) + end), &[]);
            assert!(long("a").len() <= LONGEST && long("a") != long("b"));
            let name = c.repeat(250);
            let (start, digest) = encoded(&name, &[]).split_once('~').map(|(a, b)| (a.len(), b.len())).unwrap();
            assert!(start <= READABLE && digest == 32);
        }
    }
}
