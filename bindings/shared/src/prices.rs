//! Prices by name, by model and by file.

use std::path::Path;

use lookback_replay::prices::{Price, Prices};
use serde_json::{Map, json};

use crate::Failure;

/// Returns a price: by its name such as `anthropic-5m`, by the name of a model, or the first one in a TOML file.
///
/// # Errors
/// Returns an error if there is no such price, or if the file cannot be read.
pub fn price(name: &str) -> Result<Price, Failure> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let unread = |error| Failure::decode("price", format_args!("cannot read {name}: {error}"));
        let prices = Prices::from_toml(&std::fs::read_to_string(name).map_err(unread)?)?;
        let first = prices.names().next().and_then(|name| prices.find(name));
        return first.cloned().ok_or_else(|| Failure::decode("price", format_args!("{name} has no prices")));
    }
    let prices = Prices::builtin();
    prices.find(name).cloned().ok_or_else(|| {
        let known = prices.names().collect::<Vec<_>>().join(", ");
        Failure::decode("price", format_args!("there is no price `{name}`; there are {known}"))
    })
}

/// Returns all built-in prices as a JSON object by name.
pub fn prices() -> String {
    let prices = Prices::builtin();
    let named = prices.names().filter_map(|name| Some((name.to_owned(), json!(prices.find(name)?))));
    json!(named.collect::<Map<_, _>>()).to_string()
}
