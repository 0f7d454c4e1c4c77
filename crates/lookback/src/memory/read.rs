//! Reading what a memory knows: all facts, some of them, or a fact sheet.

use std::collections::BTreeSet;

use lookback_core::tokens::TokenCounter;

use super::entry::FactEntry;
use super::fact::{Fact, FactId, Statement};
use super::log::read;
use super::sheet::{Sheet, SheetOptions, sheet};
use super::{Memory, MemoryError};
use crate::store::{folded, query_words, words};

impl Memory {
    /// Returns the current facts: the session's, then the shared ones, each in the order in which they were stated.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn facts(&self) -> Result<Vec<Fact>, MemoryError> {
        let known = self.caught_up().await?;
        let shared = known.shared.iter().filter(|fact| known.session.over(fact.id).is_none());
        Ok(known.session.iter().chain(shared).cloned().collect())
    }

    /// Returns the identifiers of the current facts, both the session's and the shared ones.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn ids(&self) -> Result<BTreeSet<FactId>, MemoryError> {
        let known = self.caught_up().await?;
        let shared = known.shared.iter().map(|fact| fact.id).filter(|id| known.session.over(*id).is_none());
        Ok(known.session.iter().map(|fact| fact.id).chain(shared).collect())
    }

    /// Returns a fact, or `None` if it is not current.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn get(&self, id: FactId) -> Result<Option<Fact>, MemoryError> {
        Ok(self.caught_up().await?.of(id.scope).get(id).cloned())
    }

    /// Returns what was stated under an identifier, even if the fact is no longer current.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn stated(&self, id: FactId) -> Result<Option<Statement>, MemoryError> {
        let end = id.position.saturating_add(1);
        let entries = read(&*self.store, &self.log(id.scope), id.position..end).await?;
        Ok(entries.into_iter().find_map(|entry| if let FactEntry::Stated(said) = entry { Some(said) } else { None }))
    }

    /// Returns the current facts that contain every word of a query, newest first, at most `most`. The words may be in
    /// the text, in what the fact is about, in its tags, or the name of its kind.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<Fact>, MemoryError> {
        let wanted = query_words(query);
        let holds = |fact: &Fact| {
            let statement = &fact.statement;
            let texts = [&statement.text].into_iter().chain(&statement.about).chain(&statement.tags);
            let said: Vec<String> = texts.flat_map(|text| words(text)).chain([folded(statement.kind.name())]).collect();
            wanted.iter().all(|word| said.contains(word))
        };
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut found: Vec<Fact> = self.facts().await?.into_iter().filter(holds).collect();
        // Of facts with the same time, the later one comes first, too.
        found.reverse();
        found.sort_by_key(|fact| std::cmp::Reverse(fact.said));
        found.truncate(most);
        Ok(found)
    }

    /// Returns the fact sheet (see [`sheet`]).
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn sheet(&self, options: &SheetOptions, counter: &dyn TokenCounter) -> Result<Sheet, MemoryError> {
        let known = self.caught_up().await?;
        Ok(sheet(&[&known.session, &known.shared], options, counter))
    }
}
