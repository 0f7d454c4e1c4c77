//! The lines of errors in the text of a configuration, for errors that involve several fields.

use toml::de::{DeTable, DeValue};

use crate::gateway::config::{Config, ConfigError, ConfigFault, line_at};

impl Config {
    /// Returns the line, from 1, of a top-level field in the text of a configuration. `None` if there is no such field.
    ///
    /// ```
    /// use lookback_server::gateway::Config;
    ///
    /// assert_eq!(Config::line_of("holdout = 0.1\npolicy = \"p.toml\"\n", "policy"), Some(2));
    /// ```
    pub fn line_of(text: &str, field: &str) -> Option<usize> {
        let table = DeTable::parse(text).ok()?;
        let (key, _) = table.get_ref().iter().find(|(key, _)| key.get_ref() == field)?;
        line_at(text, key.span().start)
    }
}

impl ConfigError {
    /// Returns the line, from 1, of the error in the text of a configuration. `None` if it is not in a single line, or
    /// if the message contains the line.
    ///
    /// ```
    /// use lookback_server::gateway::Config;
    ///
    /// let text = "upstream = [{ url = \"https://a.example\" }]\nholdout = 2.0\n";
    /// let wrong = Config::from_toml(text)?.check().unwrap_err();
    /// assert_eq!(wrong.line_in(text), Some(2));
    /// # Ok::<(), lookback_server::gateway::ConfigError>(())
    /// ```
    pub fn line_in(&self, text: &str) -> Option<usize> {
        match &self.0 {
            ConfigFault::SameUpstream(name) => line_in_tables(text, "upstream", "name", |_, it| it == name),
            ConfigFault::NeverChosen { place, .. } | ConfigFault::Itself { place, .. } => {
                line_in_tables(text, "upstream", "url", |at, _| at == *place)
            }
            ConfigFault::SameKey(name) => line_in_tables(text, "key", "name", |_, it| it == name),
            ConfigFault::OpenKey(_) => line_in_tables(text, "upstream", "key-env", |_, _| true),
            ConfigFault::Holdout(_)
            | ConfigFault::ShadowAndHoldout
            | ConfigFault::Host(_)
            | ConfigFault::Origin(_)
            | ConfigFault::NoDialect
            | ConfigFault::NoCertificate(_)
            | ConfigFault::Tls { .. } => Config::line_of(text, self.field()?),
            ConfigFault::Syntax { .. } | ConfigFault::NoUpstream => None,
        }
    }

    /// Returns the top-level field with the error, such as `upstream`. `None` if the text could not be parsed.
    pub fn field(&self) -> Option<&'static str> {
        match &self.0 {
            ConfigFault::Syntax { .. } => None,
            ConfigFault::NoUpstream
            | ConfigFault::SameUpstream(_)
            | ConfigFault::NeverChosen { .. }
            | ConfigFault::Itself { .. }
            | ConfigFault::OpenKey(_) => Some("upstream"),
            ConfigFault::Holdout(_) | ConfigFault::ShadowAndHoldout => Some("holdout"),
            ConfigFault::Host(_) => Some("hosts"),
            ConfigFault::Origin(_) => Some("origins"),
            ConfigFault::NoDialect => Some("summarizer"),
            ConfigFault::SameKey(_) => Some("key"),
            ConfigFault::NoCertificate(_) | ConfigFault::Tls { .. } => Some("tls"),
        }
    }
}

/// Returns the line of the last field with this name in a list of tables for which `is` holds. `is` gets the index of
/// the table, from 0, and the value of the field.
fn line_in_tables(text: &str, list: &str, field: &str, is: impl Fn(usize, &str) -> bool) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (_, tables) = table.get_ref().iter().find(|(key, _)| key.get_ref() == list)?;
    let DeValue::Array(tables) = tables.get_ref() else { return None };
    let key = tables.iter().enumerate().rev().find_map(|(at, table)| {
        let DeValue::Table(table) = table.get_ref() else { return None };
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == field)?;
        is(at, value.get_ref().as_str()?).then_some(key)
    })?;
    line_at(text, key.span().start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_that_no_field_tells_alone_has_a_line() {
        let line = |text: &str| Config::from_toml(text).unwrap().check().unwrap_err().line_in(text);
        let upstream = |name: &str| format!("[[upstream]]\nname = \"{name}\"\nurl = \"https://a.example\"\n");
        let twice = ["a", "ann", "a", "ann's"].map(upstream).concat();
        assert_eq!(line(&twice), Some(8), "a longer name is another name");
        let hash = "0".repeat(64);
        let key = |name: &str| format!("[[key]]\nname = \"{name}\"\nhash = \"sha256:{hash}\"\n");
        assert_eq!(
            line(&["b", "a", "ann", "a"].map(|name| if name == "b" { upstream(name) } else { key(name) }).concat()),
            Some(11)
        );
        assert_eq!(line(&format!("# A comment with key-env.\n{}key-env = \"PATH\"\n", upstream("a"))), Some(5));
        assert_eq!(line(&format!("holdout = -1\n{}", upstream("holdout"))), Some(1));
        assert_eq!(line(&format!("{}[tls]\ncertificate = \"none\"\nkey = \"none\"\n", upstream("a"))), Some(4));
        assert_eq!(line(&"[[upstream]]\nurl = \"https://a.example\"\n".repeat(2)), Some(4));
        assert_eq!(line("listen = \"127.0.0.1:1\"\n"), None);
    }
}
