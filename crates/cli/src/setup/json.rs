//! Adds to JSON files, perhaps with comments, and takes out again. Everything else keeps its bytes.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use super::fault::Fault;

/// Parses a file. An empty one has no members.
fn parse(text: &str) -> Result<CstRootNode, Fault> {
    let options = ParseOptions { allow_missing_commas: false, ..ParseOptions::default() };
    let invalid = |error: String| Fault::Invalid { format: "JSON", error };
    let root = CstRootNode::parse(text, &options).map_err(|error| invalid(error.to_string()))?;
    if root.value().is_some() && root.object_value().is_none() {
        return Err(invalid("it has no object".to_owned()));
    }
    Ok(root)
}

fn form(path: &[String]) -> Fault {
    Fault::Form { path: path.join(".") }
}

/// Returns the object at a path, and makes those that are missing.
fn object(root: &CstRootNode, path: &[String]) -> Result<CstObject, Fault> {
    let mut object = root.object_value_or_create().ok_or_else(|| form(&[]))?;
    for (depth, name) in path.iter().enumerate() {
        let inner = object.object_value_or_create(name);
        object = inner.ok_or_else(|| form(path.get(..=depth).unwrap_or(path)))?;
    }
    Ok(object)
}

/// Returns the object at a path, if it is there.
fn existing(root: &CstRootNode, path: &[String]) -> Option<CstObject> {
    path.iter().try_fold(root.object_value()?, |object, name| object.object_value(name))
}

/// Removes objects at a path that have become empty, from the inside.
fn prune(root: &CstRootNode, path: &[String]) {
    for depth in (1..=path.len()).rev() {
        let (Some(above), Some(name)) = (path.get(..depth - 1), path.get(depth - 1)) else { return };
        let Some(property) = existing(root, above).and_then(|object| object.get(name)) else { return };
        let is_empty = property.object_value().is_some_and(|object| object.properties().is_empty())
            || property.array_value().is_some_and(|list| list.elements().is_empty());
        if !is_empty {
            return;
        }
        property.remove();
    }
}

pub(super) fn add_member(text: &str, path: &[String], name: &str, value: &Value) -> Result<String, Fault> {
    let root = parse(text)?;
    let object = object(&root, path)?;
    match object.get(name) {
        None => drop(object.append(name, input(value))),
        Some(there) if there.to_serde_value().as_ref() == Some(value) => {}
        Some(_) => return Err(Fault::Taken { path: [path, &[name.to_owned()]].concat().join(".") }),
    }
    Ok(written(&root))
}

pub(super) fn remove_member(text: &str, path: &[String], name: &str, value: &Value) -> Result<String, Fault> {
    let root = parse(text)?;
    let member = existing(&root, path).and_then(|object| object.get(name));
    if let Some(member) = member.filter(|member| member.to_serde_value().as_ref() == Some(value)) {
        member.remove();
        prune(&root, path);
    }
    Ok(root.to_string())
}

pub(super) fn add_element(text: &str, path: &[String], value: &Value) -> Result<String, Fault> {
    let root = parse(text)?;
    let Some((name, above)) = path.split_last() else { return Err(form(path)) };
    let list = object(&root, above)?.array_value_or_create(name).ok_or_else(|| form(path))?;
    let is_there = list.elements().iter().any(|element| element.to_serde_value().as_ref() == Some(value));
    if !is_there {
        list.ensure_multiline();
        list.append(input(value));
    }
    Ok(written(&root))
}

pub(super) fn remove_element(text: &str, path: &[String], value: &Value) -> Result<String, Fault> {
    let root = parse(text)?;
    let Some((name, above)) = path.split_last() else { return Err(form(path)) };
    let list = existing(&root, above).and_then(|object| object.array_value(name));
    let elements = list.map(|list| list.elements()).unwrap_or_default();
    if let Some(own) = elements.into_iter().find(|element| element.to_serde_value().as_ref() == Some(value)) {
        own.remove();
        prune(&root, path);
    }
    Ok(root.to_string())
}

/// Returns the text of a file. A new one ends with a line break.
fn written(root: &CstRootNode) -> String {
    let text = root.to_string();
    if text.ends_with('}') && !text.contains('\n') || text.is_empty() { format!("{text}\n") } else { text }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    const FILES: [&str; 7] = [
        "",
        "{}",
        "{\n}\n",
        "{\n  // mine\n  \"model\": \"opus\", /* why */\n  \"hooks\": {\n    \"Stop\": [\n      { \"a\": 1 } // first\n    ]\n  },\n}\n",
        "{\"hooks\":{\"Stop\":[{\"a\":1}]},\"b\":[1,2,{}]}",
        "{\r\n\t\"z\": 1.50,\r\n\t\"hooks\": {}\r\n}\r\n",
        "{\n    \"mcpServers\": { \"other\": { \"command\": \"x\" } }\n}",
    ];

    #[test]
    fn what_is_added_is_there_once_and_the_rest_stays() {
        let (hooks, servers) = (path(&["hooks", "Stop"]), path(&["mcpServers"]));
        let (element, server) = (json!({"hooks": [{"type": "command"}]}), json!({"command": "lookback"}));
        for text in FILES {
            let with = add_element(text, &hooks, &element).unwrap();
            let with = add_member(&with, &servers, "lookback", &server).unwrap();
            let again = add_member(&add_element(&with, &hooks, &element).unwrap(), &servers, "lookback", &server);
            assert_eq!(again.unwrap(), with, "a second time changes nothing");
            let value = parse(&with).unwrap().to_serde_value().unwrap();
            assert_eq!(value["mcpServers"]["lookback"], server, "{with}");
            assert!(value["hooks"]["Stop"].as_array().unwrap().contains(&element), "{with}");
            for kept in ["// mine", "/* why */", "// first", "1.50", "\r\n\t\"z\""] {
                assert_eq!(with.contains(kept), text.contains(kept), "{kept:?} in {with:?}");
            }
            let without = remove_member(&with, &servers, "lookback", &server).unwrap();
            let without = remove_element(&without, &hooks, &element).unwrap();
            let own = |text: &str| parse(text).unwrap().to_serde_value().unwrap_or(json!({}));
            let pruned = |mut value: Value| {
                for name in ["hooks", "mcpServers"] {
                    let is_empty = value.get(name).is_some_and(|inner| inner == &json!({}));
                    if is_empty {
                        value.as_object_mut().unwrap().remove(name);
                    }
                }
                value
            };
            assert_eq!(pruned(own(&without)), pruned(own(text)), "{without}");
        }
    }

    #[test]
    fn what_somebody_else_has_put_there_is_left_alone() {
        let server = json!({"command": "lookback"});
        let theirs = r#"{"mcpServers":{"lookback":{"command":"theirs"}}}"#;
        assert!(matches!(add_member(theirs, &path(&["mcpServers"]), "lookback", &server), Err(Fault::Taken { .. })));
        assert_eq!(remove_member(theirs, &path(&["mcpServers"]), "lookback", &server).unwrap(), theirs);
        for broken in ["{", "[]", "7", "{\"hooks\": [}", "{\"a\":1}}", "\u{0}"] {
            assert!(add_member(broken, &path(&["mcpServers"]), "lookback", &server).is_err(), "{broken}");
        }
        for form in [r#"{"hooks":[]}"#, r#"{"hooks":{"Stop":{}}}"#, r#"{"hooks":"x"}"#] {
            assert!(matches!(add_element(form, &path(&["hooks", "Stop"]), &server), Err(Fault::Form { .. })), "{form}");
        }
    }
}
