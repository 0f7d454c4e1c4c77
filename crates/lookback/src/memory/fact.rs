//! A fact: what is known, how certain it is, and who said so.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use lookback_core::transcript::{Millis, Position};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kinds of facts, in the order in which a fact sheet shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FactKind {
    /// Something that was believed is wrong, and this is true instead.
    Correction,
    /// Something that must hold in any case.
    Constraint,
    /// Something that prevents progress, until it is resolved.
    Blocker,
    /// How someone wants things done.
    Preference,
    /// Something that was decided.
    Decision,
    /// Something that was found out.
    Finding,
}

impl FactKind {
    /// All kinds, in the order of a fact sheet.
    pub const ALL: [FactKind; 6] = [
        FactKind::Correction,
        FactKind::Constraint,
        FactKind::Blocker,
        FactKind::Preference,
        FactKind::Decision,
        FactKind::Finding,
    ];

    /// Returns whether facts of this kind are protected: a fact sheet leaves out everything else before it leaves out
    /// one of them.
    pub fn is_protected(self) -> bool {
        match self {
            FactKind::Correction | FactKind::Constraint | FactKind::Blocker => true,
            FactKind::Preference | FactKind::Decision | FactKind::Finding => false,
        }
    }

    /// Returns the scope that facts of this kind have unless you choose another: preferences and constraints are shared
    /// with the workspace, all others belong to the session.
    pub fn usual_scope(self) -> Scope {
        match self {
            FactKind::Preference | FactKind::Constraint => Scope::Shared,
            FactKind::Correction | FactKind::Blocker | FactKind::Decision | FactKind::Finding => Scope::Session,
        }
    }

    /// Returns the name, such as `finding`.
    pub fn name(self) -> &'static str {
        match self {
            FactKind::Correction => "correction",
            FactKind::Constraint => "constraint",
            FactKind::Blocker => "blocker",
            FactKind::Preference => "preference",
            FactKind::Decision => "decision",
            FactKind::Finding => "finding",
        }
    }

    /// Returns the index in [`FactKind::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FactKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        FactKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownKind { name: name.to_owned() })
    }
}

/// The error for an unknown kind of fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of fact `{name}`; use correction, constraint, blocker, preference, decision or finding")]
pub struct UnknownKind {
    /// The name that was given.
    pub name: String,
}

/// Who knows a fact: one session, or all sessions of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// One session.
    Session,
    /// All sessions of a workspace.
    Shared,
}

/// The permanent identifier of a fact: `f12` was stated by entry 12 of the session's facts, `s3` by entry 3 of the
/// workspace's.
///
/// ```
/// use lookback::memory::{FactId, Scope};
///
/// let id: FactId = "f12".parse()?;
/// assert_eq!(id, FactId { scope: Scope::Session, position: 12 });
/// assert_eq!(id.to_string(), "f12");
/// # Ok::<(), lookback::memory::BadFactId>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactId {
    /// Which facts it belongs to.
    pub scope: Scope,
    /// The entry that stated the fact.
    pub position: Position,
}

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.scope {
            Scope::Session => 'f',
            Scope::Shared => 's',
        };
        write!(f, "{letter}{}", self.position)
    }
}

/// The error for a text that is not a fact's identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a fact's identifier, which looks like `f12`, or `s3` for a shared fact")]
pub struct BadFactId {
    /// The text that was given.
    pub given: String,
}

impl FromStr for FactId {
    type Err = BadFactId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scope = match text.as_bytes().first() {
            Some(b'f') => Scope::Session,
            Some(b's') => Scope::Shared,
            _ => return Err(BadFactId { given: text.to_owned() }),
        };
        let digits = text.get(1..).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let position = digits.and_then(|digits| digits.parse().ok());
        position.map(|position| FactId { scope, position }).ok_or_else(|| BadFactId { given: text.to_owned() })
    }
}

impl Serialize for FactId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FactId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How certain a fact is, from 0 (a guess) to 1.
///
/// ```
/// use lookback::memory::Confidence;
///
/// assert_eq!(Confidence::new(0.9).value(), 0.9);
/// assert_eq!(Confidence::new(7.0), Confidence::CERTAIN);
/// assert_eq!(Confidence::new(f64::NAN).value(), 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Confidence(f64);

impl Confidence {
    /// Full certainty: 1.
    pub const CERTAIN: Confidence = Confidence(1.0);

    /// Creates a confidence. Values outside 0 to 1 are clamped, and NaN becomes 0.
    pub fn new(value: f64) -> Self {
        Confidence(if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) })
    }

    /// Creates a confidence from a value that is known to be between 0 and 1.
    pub(super) const fn of(value: f64) -> Self {
        Confidence(value)
    }

    /// Returns the value, between 0 and 1.
    pub fn value(self) -> f64 {
        self.0
    }

    pub(super) fn max(self, other: Self) -> Self {
        Confidence(self.0.max(other.0))
    }
}

impl Eq for Confidence {}

impl PartialOrd for Confidence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Confidence {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Confidence::new)
    }
}

/// How far a fact can be trusted. A fact never has more trust than its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trust {
    /// A tool said it. What a tool reads can be written by anyone.
    Low,
    /// The model said it.
    Medium,
    /// A person said it.
    High,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trust::Low => "low",
            Trust::Medium => "medium",
            Trust::High => "high",
        })
    }
}

/// Who states something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Speaker {
    /// A person, or the application on behalf of one.
    Person,
    /// The model.
    Model,
    /// A tool, with its name.
    Tool(String),
}

impl Speaker {
    /// Returns the most trust that a statement by this speaker can have.
    pub fn trust(&self) -> Trust {
        match self {
            Speaker::Person => Trust::High,
            Speaker::Model => Trust::Medium,
            Speaker::Tool(_) => Trust::Low,
        }
    }
}

/// Where a statement comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// Who said it.
    pub by: Speaker,
    /// The session in which it was said, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The message of that session, as a position in its log, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Position>,
}

impl Source {
    /// Creates a source of which only the speaker is known.
    pub fn of(by: Speaker) -> Self {
        Source { by, session: None, message: None }
    }
}

/// A fact before it is written to a memory: what someone says, and who says it.
///
/// The functions named after the six kinds ([`Statement::finding`] and so on) create a certain statement by a person.
/// The methods that follow change one thing each.
///
/// ```
/// use lookback::memory::{Confidence, Speaker, Statement, Trust};
///
/// let port = Statement::finding("It listens on port 5050.")
///     .about("the service's port")
///     .confidence(0.9)
///     .by(Speaker::Tool("read_file".into()));
/// assert_eq!(port.confidence, Confidence::new(0.9));
/// assert_eq!(port.trust(), Trust::Low);
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statement {
    /// The kind of fact.
    pub kind: FactKind,
    /// The fact in one sentence, of 1 to [`Statement::LONGEST`] characters.
    pub text: String,
    /// What the fact is about, such as `the service's port`. The next fact of the same kind about the same thing
    /// replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// How certain it is.
    pub confidence: Confidence,
    /// Where it comes from.
    pub source: Source,
    /// How far it can be trusted, if that is less than the source allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// When it was stated. The memory fills in the current time if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The facts that it replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<FactId>,
}

impl Statement {
    /// The most characters of the text.
    pub const LONGEST: usize = 2_000;
    /// The most characters of `about`, and of a tag.
    pub const LONGEST_NAME: usize = 200;
    /// The most tags, and the most facts that one statement can name in `supersedes`.
    pub const MOST: usize = 32;

    /// Creates a statement with full certainty.
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

    /// Creates a correction by a person: something that was believed is wrong, and this is true instead.
    pub fn correction(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Correction, text, Source::of(Speaker::Person))
    }

    /// Creates a constraint by a person: something that must hold in any case.
    pub fn constraint(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Constraint, text, Source::of(Speaker::Person))
    }

    /// Creates a blocker by a person: something that prevents progress until it is resolved.
    pub fn blocker(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Blocker, text, Source::of(Speaker::Person))
    }

    /// Creates a preference by a person: how someone wants things done.
    pub fn preference(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Preference, text, Source::of(Speaker::Person))
    }

    /// Creates a decision by a person.
    pub fn decision(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Decision, text, Source::of(Speaker::Person))
    }

    /// Creates a finding by a person: something that was found out.
    pub fn finding(text: impl Into<String>) -> Self {
        Statement::new(FactKind::Finding, text, Source::of(Speaker::Person))
    }

    /// Sets what the fact is about. The next fact of the same kind about the same thing replaces it.
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

    /// Sets who says it. The session and the message of the source stay.
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

    /// Adds a tag to find the fact by.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Names a fact that this one replaces.
    #[must_use]
    pub fn superseding(mut self, id: FactId) -> Self {
        self.supersedes.push(id);
        self
    }

    /// Returns how far the statement can be trusted: as far as its source, or less if its field `trust` is lower.
    pub fn trust(&self) -> Trust {
        let worth = self.source.by.trust();
        self.trust.map_or(worth, |trust| trust.min(worth))
    }
}

/// A fact that is known now: nothing has superseded, resolved or forgotten it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fact {
    /// The identifier.
    pub id: FactId,
    /// The first statement of it.
    pub statement: Statement,
    /// The highest confidence of all who said it.
    pub confidence: Confidence,
    /// The highest trust of all who said it.
    pub trust: Trust,
    /// How often it was said again.
    pub confirmations: u64,
    /// Another current fact about the same thing, if neither may replace the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disputes: Option<FactId>,
    /// When it was last said, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Millis>,
}
