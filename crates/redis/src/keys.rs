//! The names of keys. All keys of a session are in the same slot of a cluster.

use std::fmt::Write;

use lookback_store::{Derived, LogName, Scope};

/// The keys of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// The hash with its length, its bytes, its times and the number of its texts.
    pub(super) log: String,
    /// The list of its records.
    pub(super) records: String,
    /// The sorted set of its checkpoints.
    pub(super) checkpoints: String,
    /// The list of its texts, in their searchable form.
    pub(super) texts: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, scope: &Scope, log: &LogName) -> Keys {
        let session = log.session();
        // A cluster chooses the slot by the text in braces.
        let mut key = format!("{prefix}{{{}|{}}}", escaped(scope.as_str()), escaped(session.as_str()));
        if log.is_derived() {
            key.push_str(&escaped(log.as_str()));
        }
        Keys {
            records: format!("{key}:records"),
            checkpoints: format!("{key}:checkpoints"),
            texts: format!("{key}:texts"),
            log: key,
        }
    }

    /// Returns the keys of a session and of all logs that are derived from it.
    pub(super) fn for_session(prefix: &str, scope: &Scope, log: &LogName) -> Vec<String> {
        let session = log.session();
        let derived = Derived::ALL.into_iter().map(|derived| session.derive(derived));
        derived.chain([session.clone()]).flat_map(|log| Keys::new(prefix, scope, &log).into_all()).collect()
    }

    pub(super) fn into_all(self) -> [String; 4] {
        [self.log, self.records, self.checkpoints, self.texts]
    }
}

/// Returns a pattern for the keys of all logs of a namespace and of those within it.
pub(super) fn pattern(prefix: &str, scope: &Scope) -> String {
    let begin = format!("{prefix}{{{}", escaped(scope.as_str()));
    let mut pattern = String::with_capacity(begin.len() + 1);
    for c in begin.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

/// Returns the key of the sorted set with the names of all logs of a namespace.
pub(super) fn names(prefix: &str, scope: &Scope) -> String {
    // A prefix may have colons, so the namespace has none.
    format!("{prefix}:names:{}", escaped(scope.as_str()).replace(':', "%3A"))
}

/// Returns the key of the sorted set with all namespaces except the store's own.
pub(super) fn scopes(prefix: &str) -> String {
    format!("{prefix}:scopes")
}

/// Returns the key of the version.
pub(super) fn version(prefix: &str) -> String {
    format!("{prefix}:version")
}

/// Returns the key that a probe writes.
pub(super) fn probe(prefix: &str) -> String {
    format!("{prefix}:probe")
}

/// Escapes the special characters of keys.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '%' | '{' | '|' | '}') {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(escaped, "%{byte:02X}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_session_have_one_tag() {
        let scope = Scope::default().for_tenant(&"a|b".parse().unwrap());
        let session: LogName = "team/{x}|%é".parse().unwrap();
        let tag = "lookback{a%7Cb%1F|team/%7Bx%7D%7C%25é}";
        assert_eq!(Keys::new("lookback", &scope, &session).log, tag);
        assert_eq!(Keys::new("lookback", &scope, &session).texts, format!("{tag}:texts"));
        let keys = Keys::for_session("lookback", &scope, &session.facts_of());
        assert_eq!(keys.len(), 16);
        assert!(keys.iter().all(|key| key.starts_with(tag)), "{keys:?}");
        assert!(keys.contains(&format!("{tag}memory:team/%7Bx%7D%7C%25é:facts:records")));
    }

    #[test]
    fn the_pattern_of_a_namespace_stands_for_nothing_else() {
        let scope = Scope::default();
        assert_eq!(pattern("a*[b]", &scope), "a\\*\\[b\\]{*");
        assert_eq!(pattern("p", &scope.for_tenant(&"acme".parse().unwrap())), "p{acme%1F*");
    }

    #[test]
    fn other_logs_have_other_keys() {
        let (root, tenant) = (Scope::default(), "a".parse().unwrap());
        let names = ["a", "a|b", "a%7Cb", "memory:a", "a:records", "a}b"];
        let mut keys = Vec::new();
        for scope in [root.for_tenant(&tenant), root.for_tenant(&tenant).for_tenant(&tenant), root] {
            for name in names {
                let name: LogName = name.parse().unwrap();
                for log in [name.facts_of(), name.summary_of(), name.shared_of(), name] {
                    keys.extend(Keys::new("p", &scope, &log).into_all());
                }
            }
            keys.push(self::names("p", &scope));
        }
        let mut distinct = keys.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
    }
}
