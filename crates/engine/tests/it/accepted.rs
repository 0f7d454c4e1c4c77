//! Checks real requests that providers accepted or refused, if `LOOKBACK_REQUESTS` names a gzipped file of JSON lines.

#![allow(clippy::disallowed_methods, reason = "a test may read files and the environment")]

use std::path::PathBuf;

use lookback_engine::{Engine, Settings, policy::Policy};
use lookback_wire::dialect::Severity;
use lookback_wire::{
    dialect::{Dialect, RawRequest, Request},
    message::Role,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    dialect: Dialect,
    /// The path of the URL.
    path: String,
    /// The status of the response.
    status: u16,
    body: String,
}

/// Returns the accepted requests, each with its number in the file.
fn accepted() -> Option<Vec<(usize, Line)>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/requests.jsonl.gz");
    let path = std::env::var_os("LOOKBACK_REQUESTS").map_or_else(beside, PathBuf::from);
    let Ok(file) = std::fs::File::open(&path) else {
        crate::common::skipped("there are no requests (LOOKBACK_REQUESTS names none)");
        return None;
    };
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    let lines = text.lines().enumerate().map(|(number, line)| (number, serde_json::from_str::<Line>(line).unwrap()));
    Some(lines.filter(|(_, line)| line.status == 200).collect())
}

/// Returns the body that a conversation sends after it received this one call by call.
fn window(request: &Request, body: &str) -> String {
    let dialect = request.dialect();
    let mut engine = Engine::new(Settings::default().dialect(dialect).policy(Policy::unlimited()));
    engine.set_target(request.target());
    engine.set_preamble(request.preamble());
    let mut before = None;
    for message in request.messages() {
        if message.role() == Role::Assistant && before.is_some_and(|before| before != Role::Assistant) {
            engine.window();
        }
        before = Some(message.role());
        engine.push(message.clone()).unwrap();
    }
    engine.window();
    let sent = engine.view().encode(engine.target().clone()).unwrap();
    RawRequest::read(body, Some(dialect)).unwrap().change().messages(&sent).write()
}

#[test]
fn an_accepted_request_breaks_no_rule_and_is_sent_as_it_came() {
    for (number, Line { dialect, path, body, .. }) in accepted().into_iter().flatten() {
        let request = Request::decode(body.as_bytes(), Some(dialect)).unwrap();
        let found = dialect.check(&request);
        assert!(found.iter().all(|finding| finding.severity == Severity::Degraded), "{number}: {found:?}");
        assert!(window(&request, &body) == body, "{number} is changed: {}", window(&request, &body));
        // With a known target, there are no warnings, either.
        let request = request.with_path(&path);
        assert_eq!(dialect.check(&request), [], "{number}");
        assert!(window(&request, &body) == body, "{number} is changed: {}", window(&request, &body));
    }
}
