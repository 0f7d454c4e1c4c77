//! Values that conform to a JSON schema, for tool arguments and structured answers.

use serde_json::{Map, Value, json};

use crate::model::Call;

/// A tool that a request declares.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The namespace of the tool, if it has one.
    pub(crate) namespace: Option<String>,
    schema: Value,
}

/// Returns all tools of a request in any dialect.
pub(crate) fn tools(declared: &Value) -> Vec<Tool> {
    match declared {
        Value::Array(all) => all.iter().flat_map(tools).collect(),
        Value::Object(tool) => {
            let within =
                ["functionDeclarations", "function_declarations", "tools"].iter().filter_map(|key| tool.get(*key));
            let mut found: Vec<Tool> = within.flat_map(tools).collect();
            let namespace = tool.get("name").and_then(Value::as_str).map(str::to_owned);
            found.iter_mut().for_each(|tool| tool.namespace.clone_from(&namespace));
            let tool = tool.get("function").and_then(Value::as_object).unwrap_or(tool);
            let schemas = ["parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"];
            let schema = schemas.iter().find_map(|key| tool.get(*key));
            if let (Some(name), Some(schema)) = (tool.get("name").and_then(Value::as_str), schema) {
                found.push(Tool { name: name.to_owned(), namespace: None, schema: schema.clone() });
            }
            found
        }
        _ => Vec::new(),
    }
}

impl Tool {
    /// Returns arguments that make the tool run a shell command. `None` if the tool runs no commands.
    pub(crate) fn running(&self, command: &str) -> Option<Value> {
        let properties = self.schema.get("properties")?.as_object()?;
        let key = ["command", "cmd"].into_iter().find(|key| properties.contains_key(*key))?;
        let is_list = kind(properties.get(key)?) == "array";
        let mut arguments = self.required();
        arguments.insert(key.to_owned(), if is_list { json!(["bash", "-lc", command]) } else { json!(command) });
        Some(Value::Object(arguments))
    }

    /// Returns a call of the tool.
    pub(crate) fn called(&self, id: String, arguments: Value) -> Call {
        Call { id, name: self.name.clone(), namespace: self.namespace.clone(), arguments }
    }

    fn required(&self) -> Map<String, Value> {
        match instance(&self.schema) {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

fn kind(schema: &Value) -> String {
    let kind = schema.get("type");
    let kind = kind.and_then(|kind| kind.as_str().or_else(|| kind.as_array()?.first()?.as_str()));
    kind.unwrap_or_default().to_lowercase()
}

/// Returns a minimal value that conforms to a schema.
pub(crate) fn instance(schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return first.clone();
    }
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    match kind(schema).as_str() {
        "array" => json!([]),
        "boolean" => json!(false),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "string" => json!("step"),
        "null" => Value::Null,
        _ => {
            let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let member = |name: &Value| {
                let name = name.as_str()?;
                Some((name.to_owned(), instance(schema.get("properties")?.get(name)?)))
            };
            Value::Object(names.filter_map(member).collect())
        }
    }
}
