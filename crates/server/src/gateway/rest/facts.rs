//! Facts in the REST API.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use lookback_facts as memory;
use lookback_facts::{Confidence, FactId, FactKind, Judgment, Memory, Scope, Source, Speaker, Statement, Trust};
use lookback_store::{LogName, Store};
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::fault::{Fault, Faults};
use super::sessions::{Name, Named, called};
use super::time::rfc3339;
use crate::gateway::admission::Admission;
use crate::gateway::admission::caller::workspace;

/// The session name under which shared facts are read.
const NOBODY: &str = "lookback";

/// The identifier of a fact: `f12` belongs to a session, and `s3` is shared.
#[derive(Deserialize, ToSchema)]
#[schema(as = FactId, example = "f12", pattern = "^[fs](0|[1-9][0-9]{0,18})$")]
pub(super) struct Id(String);

/// Facts.
#[derive(Serialize, ToSchema)]
pub(super) struct Facts {
    facts: Vec<Fact>,
}

/// A current fact.
#[derive(Serialize, ToSchema)]
pub(super) struct Fact {
    /// Its identifier: `f12` belongs to a session, and `s3` is shared.
    id: String,
    /// Its kind.
    #[schema(value_type = Kind)]
    kind: FactKind,
    /// The fact as a sentence.
    text: String,
    /// Its subject.
    about: Option<String>,
    /// The highest confidence of all its statements, from 0 to 1.
    confidence: f64,
    /// The highest trust of all its statements.
    #[schema(value_type = Level)]
    trust: Trust,
    /// The first speaker.
    by: By,
    /// The name of the tool, if a tool stated it.
    tool: Option<String>,
    /// The session in which it was stated.
    session: Option<String>,
    /// The entry of that session's log.
    entry: Option<u64>,
    /// How often it was confirmed.
    confirmations: u64,
    /// Another fact about the same subject, if neither may replace the other.
    disputes: Option<String>,
    tags: Vec<String>,
    /// When it was last stated.
    #[schema(format = DateTime)]
    said: Option<String>,
}

/// The speaker of a fact.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    Person,
    Model,
    Tool,
}

/// A word to find facts by.
#[derive(Deserialize, ToSchema)]
#[schema(max_length = 200, pattern = r"\S")]
pub(super) struct Tag(String);

/// A fact to be written, stated by a person.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    /// Its kind.
    #[schema(value_type = Kind)]
    kind: FactKind,
    /// The fact as a sentence.
    #[schema(max_length = 2000, pattern = r"\S")]
    text: String,
    /// Its subject. Two facts about the same subject replace or dispute each other.
    #[schema(max_length = 200, pattern = r"\S")]
    about: Option<String>,
    /// The confidence, from 0 to 1.
    #[schema(minimum = 0, maximum = 1, default = 1)]
    confidence: Option<f64>,
    #[serde(default)]
    #[schema(max_items = 32)]
    tags: Vec<Tag>,
    /// The facts that it replaces.
    #[serde(default)]
    #[schema(max_items = 32)]
    supersedes: Vec<Id>,
    /// Whether all sessions share it. The default depends on the kind: constraints and preferences are shared.
    shared: Option<bool>,
}

/// The result of writing a fact.
#[derive(Serialize, ToSchema)]
pub(super) struct Stated {
    /// Its identifier, or that of the existing fact with the same content.
    id: String,
    /// Whether it is new. Otherwise an existing fact with the same content was confirmed.
    new: bool,
    /// The facts that it replaced.
    supersedes: Vec<String>,
    /// A fact that it contradicts but may not replace.
    disputes: Option<String>,
}

/// A fact.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfFact {
    /// The name of a session that knows it.
    session: Name,
    /// Its identifier.
    fact: Id,
}

/// The reason for forgetting a fact.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Why {
    /// The reason, for its history.
    #[param(max_length = 2000)]
    why: Option<String>,
}

/// The resolution of a blocker.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolution {
    /// What resolved it, as a sentence.
    #[schema(max_length = 2000, pattern = r"\S")]
    with: String,
}

/// List the facts of a session
///
/// Includes facts that it shares with others: with all sessions of a tenant, or, without tenants, of an account.
#[utoipa::path(get, path = "/sessions/{session}/facts", tag = "facts",
    params(Named),
    responses(
        (status = 200, description = "The facts", body = Facts), Faults,
    ))]
pub(super) async fn of_session(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
) -> Result<Json<Facts>, Fault> {
    let facts = memory(&admission, &named?.session).await?.facts().await?;
    Ok(Json(Facts { facts: facts.into_iter().map(Fact::from).collect() }))
}

/// List shared facts
///
/// Lists those of the tenant, or, without tenants, those that belong to no account.
#[utoipa::path(get, path = "/facts", tag = "facts", responses(
    (status = 200, description = "The facts that all sessions share", body = Facts), Faults,
))]
pub(super) async fn shared(Extension(admission): Extension<Admission>) -> Result<Json<Facts>, Fault> {
    let mut facts = open(&admission, admission.store()?, &NOBODY.parse()?).await?.facts().await?;
    facts.retain(|fact| fact.id.scope == Scope::Shared);
    Ok(Json(Facts { facts: facts.into_iter().map(Fact::from).collect() }))
}

/// Write a fact
#[utoipa::path(post, path = "/sessions/{session}/facts", tag = "facts", request_body = New,
    params(Named),
    responses(
        (status = 201, description = "The result of writing the fact", body = Stated), Faults,
    ))]
pub(super) async fn state(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
    new: Result<Json<New>, JsonRejection>,
) -> Result<(StatusCode, Json<Stated>), Fault> {
    let (Path(named), Json(New { kind, text, about, confidence, tags, supersedes, shared })) = (named?, new?);
    let mut statement = Statement::new(kind, text, person());
    if let Some(confidence) = confidence {
        if !(0.0..=1.0).contains(&confidence) {
            return Err(Fault::new(StatusCode::BAD_REQUEST, "`confidence` is from 0 to 1"));
        }
        statement.confidence = Confidence::new(confidence);
    }
    statement.about = about;
    statement.tags = tags.into_iter().map(|Tag(tag)| tag).collect();
    statement.supersedes = supersedes.iter().map(|Id(id)| id.parse()).collect::<Result<_, _>>()?;
    let scope = match shared {
        Some(true) => Scope::Shared,
        Some(false) => Scope::Session,
        None => statement.kind.default_scope(),
    };
    let memory::Stated { id, judgment, .. } = memory(&admission, &named.session).await?.state(scope, statement).await?;
    let mut stated = Stated { id: id.to_string(), new: false, supersedes: Vec::new(), disputes: None };
    if let Judgment::New { supersedes, disputes } = judgment {
        stated.new = true;
        stated.supersedes = supersedes.iter().map(FactId::to_string).collect();
        stated.disputes = disputes.map(|id| id.to_string());
    }
    Ok((StatusCode::CREATED, Json(stated)))
}

/// Show a fact
#[utoipa::path(get, path = "/sessions/{session}/facts/{fact}", tag = "facts",
    params(OfFact),
    responses(
        (status = 200, description = "The fact", body = Fact), Faults,
    ))]
pub(super) async fn show(
    Extension(admission): Extension<Admission>,
    of: Result<Path<OfFact>, PathRejection>,
) -> Result<Json<Fact>, Fault> {
    let Path(OfFact { session, fact }) = of?;
    let fact = memory(&admission, &session).await?.get(fact.0.parse()?).await?;
    Ok(Json(fact.map(Fact::from).ok_or_else(|| Fault::missing("such fact"))?))
}

/// Forget a fact
///
/// Removes it from all fact sheets. Its history stays readable.
#[utoipa::path(delete, path = "/sessions/{session}/facts/{fact}", tag = "facts",
    params(OfFact, Why),
    responses(
        (status = 204, description = "The fact is forgotten"), Faults,
    ))]
pub(super) async fn forget(
    Extension(admission): Extension<Admission>,
    of: Result<Path<OfFact>, PathRejection>,
    why: Result<Query<Why>, QueryRejection>,
) -> Result<StatusCode, Fault> {
    let (Path(OfFact { session, fact }), Query(Why { why })) = (of?, why?);
    let (memory, id) = (memory(&admission, &session).await?, fact.0.parse()?);
    match why {
        Some(why) => memory.forget_because(id, &why, person()).await?,
        None => memory.forget(id, person()).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Resolve a blocker
#[utoipa::path(post, path = "/sessions/{session}/facts/{fact}/resolve", tag = "facts", request_body = Resolution,
    params(OfFact),
    responses(
        (status = 204, description = "The blocker is resolved"), Faults,
    ))]
pub(super) async fn resolve(
    Extension(admission): Extension<Admission>,
    of: Result<Path<OfFact>, PathRejection>,
    resolution: Result<Json<Resolution>, JsonRejection>,
) -> Result<StatusCode, Fault> {
    let (Path(OfFact { session, fact }), Json(Resolution { with })) = (of?, resolution?);
    memory(&admission, &session).await?.resolve(fact.0.parse()?, &with, person()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn memory(admission: &Admission, Name(session): &Name) -> Result<Memory, Fault> {
    let (store, name): (_, LogName) = (admission.store()?, session.parse()?);
    // A session that has only facts is found by its exact name.
    let has_facts = store.head(&name.facts_of(), None).await?.is_some();
    let name = if has_facts { name } else { called(admission, &*store, &name).await?.unwrap_or(name) };
    open(admission, store, &name).await
}

async fn open(admission: &Admission, store: Arc<dyn Store>, name: &LogName) -> Result<Memory, Fault> {
    let workspace = workspace(admission.caller.tenant.as_ref(), name);
    Ok(Memory::open_in(store, name.as_str(), workspace).await?)
}

fn person() -> Source {
    Source::new(Speaker::Person)
}

impl From<memory::Fact> for Fact {
    fn from(fact: memory::Fact) -> Fact {
        let memory::Fact { id, statement, confidence, trust, confirmations, disputes, said, .. } = fact;
        let Source { by, session, message, .. } = statement.source;
        let (by, tool) = match by {
            Speaker::Person => (By::Person, None),
            Speaker::Tool(name) => (By::Tool, Some(name)),
            // Speakers of other kinds are not persons, and have no names.
            _ => (By::Model, None),
        };
        Fact {
            id: id.to_string(),
            kind: statement.kind,
            text: statement.text,
            about: statement.about,
            confidence: confidence.value(),
            trust,
            by,
            tool,
            session,
            entry: message,
            confirmations,
            disputes: disputes.map(|id| id.to_string()),
            tags: statement.tags,
            said: rfc3339(said),
        }
    }
}

/// The kind of a fact.
pub(super) struct Kind;

impl ToSchema for Kind {}

impl PartialSchema for Kind {
    fn schema() -> RefOr<Schema> {
        one_of(
            FactKind::ALL,
            "The kind of a fact: a correction of something that was believed, a constraint that must always hold, a \
             blocker that prevents progress until it is resolved, a preference, a decision, or a finding.",
        )
    }
}

/// The degree of trust in a fact.
pub(super) struct Level;

impl ToSchema for Level {
    fn name() -> Cow<'static, str> {
        "Trust".into()
    }
}

impl PartialSchema for Level {
    fn schema() -> RefOr<Schema> {
        one_of(Trust::ALL, "The degree of trust in a fact.")
    }
}

/// Returns the schema of a text that is one of these names.
fn one_of(names: impl IntoIterator<Item = impl ToString>, about: &str) -> RefOr<Schema> {
    let names = names.into_iter().map(|name| name.to_string());
    Object::builder()
        .schema_type(Type::String)
        .description(Some(about))
        .enum_values(Some(names.collect::<Vec<_>>()))
        .into()
}
