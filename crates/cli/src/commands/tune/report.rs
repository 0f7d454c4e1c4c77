//! The output of a comparison of policies: the front, the recommendation, and how sure it is.

use crate::exit::ExitCode;

use lookback_presets as presets;
use lookback_replay::prices::Price;
use lookback_replay::replay::Report;
use serde::Serialize;

use super::Candidate;
use super::choice::{self, Bounds, FEWEST, SAMPLES, Sureness};
use crate::atomic_file::AtomicFile;
use crate::commands::causes::causes;
use crate::commands::front::front;
use crate::failure::Failure;
use crate::output;

/// The totals of all policies over the same recordings. The first is the default.
pub(super) struct Comparison {
    totals: Vec<Report>,
    /// Whether each policy is on the Pareto front.
    on_front: Vec<bool>,
}

impl Comparison {
    pub(super) fn new(candidates: &[Candidate], rows: &[Vec<Report>], cut_short: bool) -> Comparison {
        let total = |(index, candidate): (usize, &Candidate)| {
            let mut total = Report::new("total", candidate.label.as_str());
            rows.iter().filter_map(|row| row.get(index)).for_each(|report| total.add(report));
            total.cut_short = cut_short;
            total
        };
        let totals: Vec<Report> = candidates.iter().enumerate().map(total).collect();
        let on_front = front(&totals.iter().map(figures).collect::<Vec<_>>());
        Comparison { totals, on_front }
    }

    /// Returns the cost with recalls relative to that of the default. `None` if the default costs nothing.
    fn times(&self, total: &Report) -> Option<f64> {
        let usual = self.totals.first().map(Report::cost_with_recalls).filter(|cost| *cost > 0.0)?;
        Some(total.cost_with_recalls() / usual)
    }
}

/// Returns the figures for the comparison of policies.
fn figures(total: &Report) -> [f64; 4] {
    let missed = total.missed();
    [total.cost_with_recalls(), missed.identifiers, missed.spans, missed.calls]
}

/// A policy as a line of JSON.
#[derive(Serialize)]
struct PolicyLine<'a> {
    #[serde(flatten)]
    total: &'a Report,
    on_front: bool,
}

/// Writes all policies as JSON, or those on the front and the default as a table.
pub(super) fn policies(comparison: &Comparison, json: bool, price: &Price) -> Result<(), Failure> {
    let mut policies = comparison.totals.iter().zip(comparison.on_front.iter().copied());
    if json {
        return policies.try_for_each(|(total, on_front)| output::json_line(&PolicyLine { total, on_front }));
    }
    let mut shown: Vec<_> = policies.enumerate().filter(|(index, (_, on_front))| *index == 0 || *on_front).collect();
    shown.sort_by(|(_, (a, _)), (_, (b, _))| a.cost_with_recalls().total_cmp(&b.cost_with_recalls()));
    // If nothing has to leave the window, policies do not differ. One row is enough for policies with the same figures.
    shown.dedup_by(|(_, (later, _)), (_, (earlier, _))| figures(later) == figures(earlier));
    let row = |(index, (total, on_front)): &(usize, (&Report, bool))| {
        let missed = total.missed();
        let note = match (index, on_front) {
            (0, true) => "the default",
            (0, false) => "the default, not on the front",
            _ => "",
        };
        [
            output::plain(&total.policy),
            percent(missed.identifiers),
            percent(missed.spans),
            percent(missed.calls),
            causes(total),
            output::money(total.cost),
            output::money(total.cost_with_recalls()),
            comparison.times(total).map_or("-".to_owned(), |times| format!("{times:.2}")),
            note.to_owned(),
        ]
    };
    let header = ["policy", "missed", "spans", "calls missing", "causes", "cost", "with recalls", "times", ""];
    output::rows(&output::text_without(&output::table(header, &[0, 4, 8], shown.iter().map(row)), &[5, 3, 4, 6]))?;
    let [name, date, source] = [&price.name, &price.date, &price.source].map(|text| output::plain(text));
    output::line(&format!("\nInput at the prices `{name}` of {date} ({source})."))?;
    output::message(LEGEND);
    Ok(())
}

const LEGEND: &str = "
missed: reused identifiers that the window no longer contained; spans: the same for copied passages
calls missing: calls that missed either; causes: how the missed texts had left the window
with recalls: the cost, if each of those calls searches the log for the missed texts and reads them again
times: the cost with recalls, relative to the default";

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// The recommendation as a line of JSON.
#[derive(Serialize)]
struct RecommendationLine<'a> {
    /// The policy as text. `None` if no policy is within the bounds.
    recommended: Option<&'a str>,
    recordings: usize,
    times: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    better: Option<f64>,
}

/// Writes the recommendation, how sure it is, and the policy. Returns the exit code: 1 if no policy is within the
/// bounds.
pub(super) fn recommendation(
    comparison: &Comparison,
    candidates: &[Candidate],
    rows: &[Vec<Report>],
    bounds: &Bounds,
    file: Option<AtomicFile>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let chosen = choice::cheapest(&comparison.totals, bounds);
    let found = chosen.and_then(|index| Some((index, candidates.get(index)?, comparison.totals.get(index)?)));
    let sureness = chosen.filter(|index| *index > 0).and_then(|index| choice::sureness(rows, index, bounds));
    if json {
        output::json_line(&RecommendationLine {
            recommended: found.map(|(_, candidate, _)| candidate.label.as_str()),
            recordings: rows.len(),
            times: found.and_then(|(_, _, total)| comparison.times(total)),
            low: sureness.as_ref().map(|sureness| sureness.low),
            high: sureness.as_ref().map(|sureness| sureness.high),
            better: sureness.as_ref().map(|sureness| sureness.better),
        })?;
    }
    let Some((index, candidate, total)) = found else {
        if !json {
            output::line("\nNo policy is within these bounds. The table shows the policies to choose from.")?;
        }
        return Ok(ExitCode::from(1));
    };
    let times = comparison.times(total).unwrap_or(1.0);
    let mut said = said(index, &candidate.label, times, bounds, rows.len(), sureness.as_ref());
    said.extend(warning(total));
    let toml = toml(candidate, &said)?;
    if !json {
        output::line(&format!("\n{}", said.join("\n")))?;
    }
    match file {
        Some(file) => file.finish(&toml)?,
        None if !json => output::result(&format!("\n{toml}"))?,
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a sentence each about the recommended policy, the reason, and how sure it is.
fn said(
    index: usize,
    label: &str,
    times: f64,
    bounds: &Bounds,
    recordings: usize,
    sureness: Option<&Sureness>,
) -> Vec<String> {
    let within = if bounds.are_usual() { "misses no more than the default" } else { "keeps to the bounds" };
    if index == 0 {
        return vec![format!("Recommended: the default. No other policy here costs less and {within}.")];
    }
    let label = output::plain(label);
    let mut said = vec![
        format!("Recommended: {label}"),
        format!("With recalls it costs {times:.2} times what the default costs, and it {within}."),
    ];
    let recordings = output::counted(recordings as u64, "recording", "recordings");
    said.push(match sureness {
        Some(Sureness { low, high, better }) => format!(
            "In 95 % of {} samples of the {recordings} it costs {low:.2} to {high:.2} times as much; it is better in \
             {:.0} % of them.",
            output::number(u64::from(SAMPLES)),
            100.0 * better
        ),
        None => format!("{recordings} cannot show how sure this is; at least {FEWEST} are needed."),
    });
    said
}

/// The share of missed spans from which on a recommendation has a warning.
const MANY_SPANS: f64 = 0.08;
/// The share of missed identifiers from which on a recommendation has a warning.
const MANY_IDENTIFIERS: f64 = 0.01;

/// Returns a warning if the windows of a policy miss much.
fn warning(total: &Report) -> Option<String> {
    let missed = total.missed();
    let (part, share, bound) = if missed.spans >= MANY_SPANS {
        ("copied spans", missed.spans, "--spans 5")
    } else if missed.identifiers >= MANY_IDENTIFIERS {
        ("identifiers", missed.identifiers, "--missed 0.5")
    } else {
        return None;
    };
    Some(format!(
        "Its windows miss {} of the {part} ({}). Use {bound} to get a policy that misses less.",
        percent(share),
        causes(total)
    ))
}

/// Returns the policy as a TOML file that begins with the recommendation as a comment.
fn toml(candidate: &Candidate, said: &[String]) -> Result<String, Failure> {
    let Candidate { label, policy } = candidate;
    let fault = |fault| Failure::Policy { policy: label.clone(), fault };
    let policy = presets::to_toml(policy).map_err(fault)?;
    let comments: String = said.iter().map(|line| format!("# {line}\n")).collect();
    Ok(format!("# Written by `lookback tune` {}.\n{comments}\n{policy}", env!("CARGO_PKG_VERSION")))
}
