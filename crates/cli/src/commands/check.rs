//! `lookback check`: whether a provider would accept a conversation.

use std::borrow::Cow;
use std::process::ExitCode;

use lookback::dialect::{Finding, Severity};
use lookback::{Engine, Policy, Request, Settings};
use serde::Serialize;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::input::Document;
use crate::{output, words};

#[derive(Serialize)]
struct Answer<'a> {
    valid: bool,
    dialect: &'static str,
    findings: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    rule: &'a str,
    severity: Severity,
    path: &'a str,
    problem: &'a lookback::Problem,
    message: String,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let document = Document::read(&args.file, args.dialect.name.0)?;
    let request = &document.request;
    let dialect = request.dialect();
    let findings = dialect.check(request);
    let mut valid = is_valid(&findings);
    let written = if args.fix {
        let repaired = repair(&document)?;
        let again = Request::decode(&*repaired, Some(dialect));
        valid = again.is_ok_and(|again| is_valid(&dialect.check(&again)));
        tell(args, request, &findings, valid, &mut |line| {
            output::tell(line);
            Ok(())
        })?;
        output::result(&repaired).map_err(Failure::from)
    } else {
        tell(args, request, &findings, valid, &mut |line| Ok(output::line(line)?))
    };
    Failure::code_after(written, u8::from(!valid))
}

fn is_valid(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| finding.severity == Severity::Refused)
}

fn tell(
    args: &CheckArgs,
    request: &Request,
    findings: &[Finding],
    valid: bool,
    say: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let line = |finding| {
        let Finding { rule, severity, path, problem, .. }: &Finding = finding;
        Line { rule, severity: *severity, path, problem, message: words::problem(problem) }
    };
    let findings = findings.iter().map(line);
    if args.json {
        let answer = Answer { valid, dialect: request.dialect().name(), findings: findings.collect() };
        return say(&serde_json::to_string(&answer).unwrap_or_default());
    }
    for Line { rule, path, message, .. } in findings {
        let place = if path.is_empty() { "request" } else { path };
        say(&format!("{place}: {rule}: {message}"))?;
    }
    Ok(())
}

/// The same conversation as the provider accepts it.
fn repair(document: &Document) -> Result<Cow<'_, str>, Failure> {
    let request = &document.request;
    let settings = Settings { dialect: request.dialect(), policy: Policy::default(), ..Settings::default() };
    let mut engine = Engine::new(settings);
    engine.frame(request.frame());
    for message in request.messages() {
        engine.push(message.clone()).map_err(lookback::Error::from)?;
    }
    engine.window();
    let messages = engine.view().encode(request.dialect()).map_err(lookback::Error::from)?;
    Ok(document.with_messages(&messages))
}
