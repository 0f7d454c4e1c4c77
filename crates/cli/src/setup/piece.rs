//! Pieces: what is added to a file of an agent, and taken out again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::Fault;
use super::{json, toml};

/// The mark with which some editors begin a file.
const MARK: char = '\u{feff}';

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "piece")]
pub(super) enum Piece {
    /// All of it.
    Whole { text: String },
    /// A member of an object in a JSON file, perhaps with comments. The path leads to the object.
    Member { path: Vec<String>, name: String, value: Value },
    /// An element of a list in a JSON file. The path leads to the list.
    Element { path: Vec<String>, value: Value },
    /// A table of a TOML file.
    Table { path: Vec<String>, value: Value },
}

/// Returns the text of a file with all pieces. Pieces that it has already are not added again.
pub(super) fn add_all(pieces: &[Piece], text: Option<&str>) -> Result<String, Fault> {
    if let Some(text) = text.and_then(|text| text.strip_prefix(MARK)) {
        return Ok(format!("{MARK}{}", add_all(pieces, Some(text))?));
    }
    let mut text = text.map(str::to_owned);
    for piece in pieces {
        text = Some(piece.add(text.as_deref())?);
    }
    Ok(text.unwrap_or_default())
}

/// Returns the text of a file without the pieces. What others have added stays.
pub(super) fn remove_all(pieces: &[Piece], text: &str) -> Result<String, Fault> {
    if let Some(text) = text.strip_prefix(MARK) {
        return Ok(format!("{MARK}{}", remove_all(pieces, text)?));
    }
    pieces.iter().rev().try_fold(text.to_owned(), |text, piece| piece.remove(&text))
}

impl Piece {
    fn add(&self, text: Option<&str>) -> Result<String, Fault> {
        match self {
            Piece::Whole { text: own } => match text {
                Some(text) if text != own => Err(Fault::Theirs),
                _ => Ok(own.clone()),
            },
            Piece::Member { path, name, value } => json::add_member(text.unwrap_or_default(), path, name, value),
            Piece::Element { path, value } => json::add_element(text.unwrap_or_default(), path, value),
            Piece::Table { path, value } => toml::add(text.unwrap_or_default(), path, value),
        }
    }

    fn remove(&self, text: &str) -> Result<String, Fault> {
        match self {
            // Whoever has changed it wants to keep it.
            Piece::Whole { .. } => Err(Fault::Theirs),
            Piece::Member { path, name, value } => json::remove_member(text, path, name, value),
            Piece::Element { path, value } => json::remove_element(text, path, value),
            Piece::Table { path, value } => toml::remove(text, path, value),
        }
    }
}
