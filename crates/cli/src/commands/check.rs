//! `lookback check`: checks whether a provider would accept a conversation.

use crate::exit::ExitCode;
use std::collections::HashMap;

use lookback_engine::Engine;
use lookback_session::Error;
use lookback_summarize::calls;

use lookback_wire::dialect::{Finding, Severity};
use serde::Serialize;

use crate::args::CheckArgs;
use crate::changes::{Change, by_message, changes};
use crate::failure::Failure;
use crate::findings::Line;
use crate::input::Document;
use crate::{input, output};

/// A conversation that was checked.
struct Checked<'a> {
    document: &'a Document,
    /// The findings. After a repair, those that remain.
    findings: Vec<Finding>,
    fix: Option<Fix>,
}

/// The repair of a conversation.
struct Fix {
    /// The findings that the repair removed.
    fixed: Vec<Finding>,
    /// The changes, joined for each message.
    changes: Vec<Change>,
    /// The repaired conversation.
    text: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    valid: bool,
    dialect: &'static str,
    findings: Vec<Line<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<Vec<Mended<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [Change]>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let documents = Document::read_all(&args.file, args.dialect.name.0)?.into_iter();
    let documents: Vec<Document> =
        documents.map(|document| document.bound_for(&args.target, args.model.as_deref())).collect();
    let several = documents.len() > 1;
    let mut valid = true;
    let mut written = Ok(());
    for document in &documents {
        let checked = if args.fix { repair(document)? } else { check(document) };
        valid &= checked.is_valid();
        let name = if several { document.id.as_deref() } else { None };
        // The exit code needs every document, even if nobody reads the output any more.
        written = written.and_then(|()| checked.write(name, args.json));
    }
    Failure::code_after(written, u8::from(!valid))
}

fn check(document: &Document) -> Checked<'_> {
    let request = &document.request;
    Checked { document, findings: request.dialect().check(request), fix: None }
}

/// Repairs a conversation, so that the provider accepts it.
fn repair(document: &Document) -> Result<Checked<'_>, Failure> {
    let request = &document.request;
    let dialect = request.dialect();
    let mut engine = Engine::new(input::repair_only(dialect));
    let result = calls::run_request_once(&mut engine, request, &mut |_| None, &mut |_| {}).map_err(Error::from)?;
    let view = engine.view();
    let messages = view.encode(engine.target().clone()).map_err(Error::from)?;
    let findings = dialect.check(&document.sent(&messages, engine.target())?);
    let fix = Fix {
        fixed: fixed(dialect.check(request), &findings),
        changes: by_message(&changes(&result.entries, view, engine.target())),
        text: document.in_file(&messages).into_owned(),
    };
    Ok(Checked { document, findings, fix: Some(fix) })
}

/// Returns the findings that were repaired. Messages may have moved, so two findings are equal if their rule, problem
/// and identifier are.
fn fixed(found: Vec<Finding>, left: &[Finding]) -> Vec<Finding> {
    let mut open: HashMap<(&str, String, String), usize> = HashMap::new();
    for finding in left {
        *open.entry(key(finding)).or_default() += 1;
    }
    let is_fixed = |finding: &Finding| match open.get_mut(&key(finding)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    found.into_iter().filter(is_fixed).collect()
}

fn key(finding: &Finding) -> (&'static str, String, String) {
    let id = finding.problem.call_id().unwrap_or_default();
    (finding.rule, finding.problem.kind(), id.to_owned())
}

impl Checked<'_> {
    fn is_valid(&self) -> bool {
        !self.findings.iter().any(|finding| finding.severity == Severity::Refused)
    }

    /// Writes the findings to standard output, or, with --fix, the repaired conversation there and the findings to
    /// standard error. If there is a name, every line begins with it.
    fn write(&self, name: Option<&str>, json: bool) -> Result<(), Failure> {
        let lines = if json { vec![self.json()?] } else { self.lines(name) };
        let Some(fix) = &self.fix else {
            return lines.iter().try_for_each(|line| Ok(output::line(line)?));
        };
        lines.iter().for_each(|line| output::message(line));
        Ok(output::result(&fix.text)?)
    }

    fn json(&self) -> Result<String, Failure> {
        let answer = Answer {
            id: self.document.id.as_deref(),
            valid: self.is_valid(),
            dialect: self.document.request.dialect().name(),
            findings: self.findings.iter().map(Line::from_finding).collect(),
            fixed: self.fix.as_ref().map(|fix| fix.fixed.iter().map(Mended::from_finding).collect()),
            changes: self.fix.as_ref().map(|fix| fix.changes.as_slice()),
        };
        output::json(&answer)
    }

    /// Returns a line for each finding. After a repair: the repaired findings, the changes, and the findings that
    /// remain.
    fn lines(&self, name: Option<&str>) -> Vec<String> {
        let (before, still) = match &self.fix {
            Some(fix) => (Some(fix), "still wrong: "),
            None => (None, ""),
        };
        let fixed = before.into_iter().flat_map(|fix| &fix.fixed).map(|finding| Mended::from_finding(finding).text());
        let changes = before.into_iter().flat_map(|fix| &fix.changes).map(Change::to_string);
        let findings = self.findings.iter().map(|finding| format!("{still}{}", Line::from_finding(finding).text()));
        let name = name.map(|name| format!("{}: ", output::plain(name))).unwrap_or_default();
        fixed.chain(changes).chain(findings).map(|line| format!("{name}{line}")).collect()
    }
}

/// A repaired finding, without its severity and advice.
#[derive(Serialize)]
struct Mended<'a> {
    rule: &'a str,
    path: &'a str,
    problem: &'a lookback_wire::dialect::Problem,
    message: String,
}

impl<'a> Mended<'a> {
    fn from_finding(finding: &'a Finding) -> Mended<'a> {
        let Finding { rule, path, problem, .. } = finding;
        let message = problem.to_string();
        let wrong = message.split_once("; ").map_or(message.as_str(), |(wrong, _)| wrong).to_owned();
        Mended { rule, path, problem, message: wrong }
    }

    fn text(&self) -> String {
        let place = if self.path.is_empty() { "request" } else { self.path };
        format!("repaired: {place}: {}: {}", self.rule, self.message)
    }
}
