//! A statement: a fact before it is written to a memory.

use lookback_content::Redacted;
use lookback_engine::transcript::Millis;
use serde::{Deserialize, Serialize};

use super::{Confidence, FactId, FactKind, Source, Speaker, Trust};

/// A fact before it is written to a memory: an assertion and its source.
///
/// The functions named after the six kinds ([`Statement::finding`] and so on) create a statement by a person with full
/// confidence. The other methods change one property each.
///
/// ```
/// use lookback_facts::{Confidence, Speaker, Statement, Trust};
///
/// let port = Statement::finding("It listens on port 5050.")
///     .about("the service's port")
///     .confidence(0.9)
///     .by(Speaker::Tool("read_file".into()));
/// assert_eq!(port.confidence, Confidence::new(0.9));
/// assert_eq!(port.trust(), Trust::Low);
/// ```
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statement {
    /// The kind of fact.
    pub kind: FactKind,
    /// The fact in one sentence, of 1 to [`Statement::LONGEST`] characters.
    #[debug("{:?}", Redacted(text))]
    pub text: String,
    /// What the fact is about, such as `the service's port`. The next fact of the same kind about the same thing
    /// replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug("{:?}", Redacted(about))]
    pub about: Option<String>,
    /// How certain it is.
    pub confidence: Confidence,
    /// The source.
    pub source: Source,
    /// How far it can be trusted, if that is less than the source allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// When it was stated. The memory fills in the current time if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
    /// Words by which it can be found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[debug("{:?}", Redacted(tags))]
    pub tags: Vec<String>,
    /// The facts that it replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<FactId>,
}

impl Statement {
    /// The most characters of the text.
    pub const LONGEST: usize = 2_000;
    /// The most characters of `about`, and of a tag.
    pub(crate) const LONGEST_NAME: usize = 200;
    /// The most tags, and the most facts that one statement can name in `supersedes`.
    pub(crate) const MOST: usize = 32;

    /// Creates a statement with full confidence.
    pub fn new(kind: FactKind, text: impl Into<String>, source: Source) -> Self {
        Statement {
            kind,
            text: text.into(),
            about: None,
            confidence: Confidence::CERTAIN,
            source,
            trust: None,
            time: None,
            tags: Vec::new(),
            supersedes: Vec::new(),
        }
    }

    /// Creates a correction by a person: an earlier belief was wrong, and this is true instead.
    pub fn correction(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Correction, text, Source::new(Speaker::Person))
    }

    /// Creates a constraint by a person: a rule that must hold in any case.
    pub fn constraint(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Constraint, text, Source::new(Speaker::Person))
    }

    /// Creates a blocker by a person: a problem that prevents progress until it is resolved.
    pub fn blocker(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Blocker, text, Source::new(Speaker::Person))
    }

    /// Creates a preference by a person: how someone wants things done.
    pub fn preference(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Preference, text, Source::new(Speaker::Person))
    }

    /// Creates a decision by a person.
    pub fn decision(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Decision, text, Source::new(Speaker::Person))
    }

    /// Creates a finding by a person.
    pub fn finding(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Finding, text, Source::new(Speaker::Person))
    }

    /// Sets the subject of the fact. The next fact of the same kind about the same thing replaces it.
    #[must_use]
    pub fn about(mut self, thing: impl Into<String>) -> Self {
        self.about = Some(thing.into());
        self
    }

    /// Sets how certain the fact is, from 0 to 1 (see [`Confidence::new`]).
    #[must_use]
    pub fn confidence(mut self, value: f64) -> Self {
        self.confidence = Confidence::new(value);
        self
    }

    /// Sets the speaker, and keeps the session and the message of the source.
    #[must_use]
    pub fn by(mut self, speaker: Speaker) -> Self {
        self.source.by = speaker;
        self
    }

    /// Sets when it was stated, in milliseconds since 1970. The default is the time at which a memory writes it.
    #[must_use]
    pub fn time(mut self, time: Millis) -> Self {
        self.time = Some(time);
        self
    }

    /// Adds a tag by which the fact can be found.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Adds a fact that this one replaces.
    #[must_use]
    pub fn superseding(mut self, id: FactId) -> Self {
        self.supersedes.push(id);
        self
    }

    /// Returns how far the statement can be trusted: as far as its speaker, or less if its field `trust` is lower.
    pub fn trust(&self) -> Trust {
        let worth = self.source.by.trust();
        self.trust.map_or(worth, |trust| trust.min(worth))
    }
}
