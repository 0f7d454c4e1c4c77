//! Reads a memory: all facts, some of them, or a fact sheet.

use std::collections::BTreeSet;

use lookback_tokens::TokenCounter;

use super::entry::FactEntry;
use super::fact::{Fact, FactId, Speaker, Statement};
use super::log::read;
use super::sheet::{Sheet, SheetOptions, sheet};
use super::{Memory, MemoryError};
use lookback_store::Record;
use lookback_store::search::{Query, Texts};

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
        Ok(self.caught_up().await?.facts(id.scope).get(id).cloned())
    }

    /// Returns the statement with this identifier, even if the fact is no longer current.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn statement(&self, id: FactId) -> Result<Option<Statement>, MemoryError> {
        let end = id.position.saturating_add(1);
        let entries = read(&*self.store, &self.log(id.scope), id.position..end).await?;
        Ok(entries.into_iter().find_map(|entry| if let FactEntry::Stated(said) = entry { Some(said) } else { None }))
    }

    /// Returns the current facts that match a query: at most `most`, the best first, and of equally good ones the
    /// newest (see [`search`](lookback_store::search)). The words may be in the text, in `about`, in the tags, or in
    /// the name of the kind. A limit on time applies to the last statement or confirmation of a fact. A limit on
    /// speakers applies to the role of its source: `user`, `assistant` or `tool`.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn search(&self, query: impl Into<Query>, most: usize) -> Result<Vec<Fact>, MemoryError> {
        let query = query.into();
        let mut facts = self.facts().await?;
        // Of equally good texts, those of earlier logs come first. So the newest fact is the first log.
        facts.reverse();
        facts.sort_by_key(|fact| std::cmp::Reverse(fact.said));
        let role = |by: &Speaker| match by {
            Speaker::Person => "user",
            Speaker::Model => "assistant",
            Speaker::Tool(_) => "tool",
        };
        let mut texts = Texts::for_query(&query);
        let mut phrased = Vec::with_capacity(facts.len());
        for (number, fact) in (0..).zip(&facts) {
            let Statement { text, about, tags, kind, .. } = &fact.statement;
            let said: Vec<&str> =
                [text].into_iter().chain(about).chain(tags).map(String::as_str).chain([kind.name()]).collect();
            let said = said.join("\n");
            phrased.push(query.has_phrases(&said));
            // Facts have no neighbors, so each is a log of its own.
            texts.add(number, 0, &Record::new("").text(said).time(fact.said).role(role(&fact.statement.source.by)));
        }
        let found = texts.search(None, &query, usize::MAX).into_iter().map(|(number, _)| number as usize);
        let found = found.filter(|number| phrased.get(*number).copied().unwrap_or_default()).take(most);
        Ok(found.filter_map(|number| facts.get(number).cloned()).collect())
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
