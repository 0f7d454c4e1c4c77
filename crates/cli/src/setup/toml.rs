//! Adds tables to TOML files, and takes them out again. Everything else keeps its bytes.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::fault::Fault;

fn parse(text: &str) -> Result<DocumentMut, Fault> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| Fault::Invalid { format: "TOML", error: error.message().to_owned() })
}

pub(super) fn add(text: &str, path: &[String], value: &Value) -> Result<String, Fault> {
    let mut document = parse(text)?;
    let taken = || Fault::Taken { path: path.join(".") };
    let Some((name, above)) = path.split_last() else { return Err(taken()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for step in above {
        let mut inner = Table::new();
        inner.set_implicit(true);
        let inner = table.entry(step).or_insert(Item::Table(inner));
        table = inner.as_table_like_mut().ok_or_else(|| Fault::Form { path: path.join(".") })?;
    }
    if let Some(there) = table.get(name) {
        return if is_same(there, value) { Ok(text.to_owned()) } else { Err(taken()) };
    }
    let mut own = Table::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        own.insert(name, Item::Value(item(value)));
    }
    table.insert(name, Item::Table(own));
    Ok(document.to_string())
}

pub(super) fn remove(text: &str, path: &[String], value: &Value) -> Result<String, Fault> {
    let mut document = parse(text)?;
    let Some((name, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for step in above {
        let Some(inner) = table.get_mut(step).and_then(Item::as_table_like_mut) else { return Ok(text.to_owned()) };
        table = inner;
    }
    if !table.get(name).is_some_and(|there| is_same(there, value)) {
        return Ok(text.to_owned());
    }
    table.remove(name);
    Ok(document.to_string())
}

/// Returns whether a table has these members and no others.
fn is_same(there: &Item, value: &Value) -> bool {
    let (Some(table), Some(members)) = (there.as_table_like(), value.as_object()) else { return false };
    let same = |(name, value): (&String, &Value)| {
        let there = table.get(name).and_then(Item::as_value);
        there.is_some_and(|there| plain(there) == plain(&item(value)))
    };
    table.len() == members.len() && members.iter().all(same)
}

/// Returns a value without the spaces and comments around it.
fn plain(value: &toml_edit::Value) -> String {
    let mut value = value.clone();
    value.decor_mut().clear();
    if let Some(list) = value.as_array_mut() {
        list.iter_mut().for_each(|item| item.decor_mut().clear());
        list.fmt();
    }
    value.to_string()
}

fn item(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(is) => (*is).into(),
        Value::Number(number) => number.as_i64().map_or_else(|| number.as_f64().unwrap_or_default().into(), Into::into),
        Value::Array(items) => items.iter().map(item).collect::<Array>().into(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.as_str(), item(value))).collect::<InlineTable>().into()
        }
        Value::String(text) => text.as_str().into(),
        Value::Null => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_is_added_once_and_taken_out_to_the_byte() {
        let (path, value) =
            (["mcp_servers".to_owned(), "lookback".to_owned()], json!({"command": "/a b", "args": ["mcp"]}));
        for text in [
            "",
            "model = \"gpt-5\" # mine\n\n[tools]\nweb = true\n",
            "[mcp_servers.other]\ncommand = \"x\"\n\n[profiles.a]\nmodel = \"o\"\n",
        ] {
            let with = add(text, &path, &value).unwrap();
            assert_eq!(add(&with, &path, &value).unwrap(), with);
            assert!(
                with.contains("[mcp_servers.lookback]") && with.starts_with(text.lines().next().unwrap_or("")),
                "{with}"
            );
            // Somebody adds something else meanwhile.
            let edited = format!("{with}\n[later]\na = 1\n");
            let without = remove(&edited, &path, &value).unwrap();
            assert!(!without.contains("lookback") && without.contains("[later]"), "{without}");
            for line in text.lines() {
                assert!(without.contains(line), "{line} is not in {without}");
            }
        }
        let theirs = "[mcp_servers.lookback]\ncommand = \"theirs\"\n";
        assert!(matches!(add(theirs, &path, &value), Err(Fault::Taken { .. })));
        assert_eq!(remove(theirs, &path, &value).unwrap(), theirs);
        assert!(matches!(add("a = ", &path, &value), Err(Fault::Invalid { .. })));
        assert!(matches!(add("mcp_servers = 7", &path, &value), Err(Fault::Form { .. })));
    }
}
