//! `lookback week`: what agents used, and where it went.

use std::collections::BTreeMap;
use std::path::Path;

use lookback_replay::prices::{Prices, money};
use lookback_replay::week::{Cause, Compaction, Conversation, Missed, Place, Used, Week};
use lookback_store::now;

use super::replay::list::first_words;
use crate::args::WeekArgs;
use crate::atomic_file::AtomicFile;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::recordings::{self, Listed, none_chosen};
use crate::{input, output};

/// The time that is shown if nobody chose one: seven days.
const DAYS: i64 = 7;
const DAY: i64 = 86_400_000;
/// The most lines of a table on a terminal. The page has more.
const MOST: usize = 10;

pub(crate) fn run(mut args: WeekArgs) -> Result<ExitCode, Failure> {
    let forced = args.prices.as_deref().map(input::price).transpose()?;
    if let Some(page) = args.html.as_deref().filter(|page| is_other(page)) {
        return Err(Failure::Exists(page.display().to_string()));
    }
    let page = args.html.as_deref().map(AtomicFile::begin_private).transpose()?;
    let is_default = args.logs.since.is_none() && args.logs.files.is_empty();
    if is_default {
        args.logs.since = now().map(|now| now - DAYS * DAY);
    }
    let counter = input::settings(None).counter;
    let price = |model: Option<&str>| {
        forced.as_ref().or_else(|| {
            // Some agents write the provider before a slash.
            let model = model?;
            Prices::builtin().find(model).or_else(|| Prices::builtin().find(model.rsplit('/').next()?))
        })
    };
    let read = |listed: &Listed| {
        let Listed { agent, path, recording, newest, .. } = listed;
        let place = Place {
            id: recording.id.clone(),
            agent: *agent,
            project: recording.project.clone(),
            file: input::place(path),
            first_words: first_words(recording),
            newest: *newest,
        };
        Conversation::new(recording, place, args.logs.since, &*counter, price)
    };
    let all = recordings::each(&args.logs, read)?;
    let week = Week::new(all.into_iter().map(|(_, conversation)| conversation).collect());
    if week.conversations.is_empty() {
        return Err(if is_default {
            Failure::NoneChosen(" in the last 7 days; --since 30d looks further back")
        } else {
            none_chosen(&args.logs)
        });
    }
    let since = args.logs.since.and_then(|since| jiff::Timestamp::from_millisecond(since).ok());
    let since = match since {
        Some(_) if is_default => "in the last 7 days".to_owned(),
        Some(since) => format!("since {}", since.strftime("%Y-%m-%d")),
        None => "in these files".to_owned(),
    };
    if let Some(page) = page {
        page.finish(&lookback_inspector::week(&week, &since))?;
    }
    if args.json {
        output::result(&output::json(&week)?)?;
    } else {
        show(&week, &since, &args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether there is a file that is no page, such as the log of an agent.
fn is_other(path: &Path) -> bool {
    use std::io::Read;
    const PAGE: &[u8] = b"<!DOCTYPE html>";
    let mut first = [0; PAGE.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
    path.is_file() && std::fs::metadata(path).is_ok_and(|about| about.len() > 0) && (read.is_err() || first != PAGE)
}

fn show(week: &Week, since: &str, args: &WeekArgs) -> Result<(), Failure> {
    let Week { total, .. } = week;
    output::line(&format!(
        "Your agents {since}: {}{}, {} of input and {} of output, in {} and {}",
        at_least(total),
        money(total.cost),
        output::counted(total.sent(), "token", "tokens"),
        output::number(total.output),
        output::counted(week.conversations.len() as u64, "conversation", "conversations"),
        output::counted(total.calls, "model call", "model calls"),
    ))?;
    days(week)?;
    sums("Project", &week.projects)?;
    sums("Model", &week.models)?;
    sums("Agent", &week.agents)?;
    if !week.misses.is_empty() {
        let row = |(cause, missed): (&Cause, &Missed)| {
            [
                lookback_inspector::cause(*cause).to_owned(),
                output::number(missed.calls),
                output::number(missed.tokens),
                money(missed.cost),
            ]
        };
        let header = ["Cache missed after", "Calls", "Tokens", "Cost"];
        output::rows(&output::text_of(&output::table(header, &[0], week.misses.iter().map(row))))?;
    }
    results(week)?;
    compactions(week)?;
    lookback_inspector::week_notes(week).iter().for_each(|note| output::message(note));
    match &args.html {
        Some(page) => output::message(&format!("The page with every call: {}", page.display())),
        None => output::message("A page with charts and every call: --html week.html"),
    }
    Ok(())
}

/// Prints the days, unless there are too many for a terminal.
fn days(week: &Week) -> Result<(), Failure> {
    const MOST_DAYS: usize = 31;
    let known = || week.days.iter().filter(|(day, _)| !day.is_empty());
    if !(2..=MOST_DAYS).contains(&known().count()) {
        return Ok(());
    }
    let row = |(day, used): (&String, &Used)| {
        [
            day.clone(),
            output::number(used.calls),
            output::number(used.sent()),
            output::number(used.output),
            money(used.cost),
        ]
    };
    let header = ["Day (UTC)", "Calls", "Input tokens", "Output tokens", "Cost"];
    output::rows(&output::text_of(&output::table(header, &[0], known().map(row))))?;
    Ok(())
}

fn sums(name: &'static str, sums: &BTreeMap<String, Used>) -> Result<(), Failure> {
    let mut sorted: Vec<(&String, &Used)> = sums.iter().collect();
    sorted.sort_by(|(_, one), (_, other)| one.highest_first(other));
    let row = |(name, used): (&String, &Used)| {
        let name = if name.is_empty() { "unknown".to_owned() } else { output::plain(name) };
        let cost = format!("{}{}", at_least(used), money(used.cost));
        let cost = if used.unpriced_calls == used.calls { "no price".to_owned() } else { cost };
        let cached = 100.0 * share(used.cache_read, used.sent());
        let estimated = if used.estimated_calls > 0 { " (estimated)" } else { "" };
        [
            format!("{name}{estimated}"),
            output::number(used.calls),
            output::number(used.sent()),
            format!("{cached:.1} %"),
            output::number(used.output),
            output::number(used.misses),
            cost,
            money(used.saved),
        ]
    };
    let more = sorted.len().saturating_sub(MOST);
    let header = [name, "Calls", "Input tokens", "From cache", "Output tokens", "Misses", "Cost", "Window saves"];
    output::rows(&output::text_of(&output::table(header, &[0], sorted.into_iter().take(MOST).map(row))))?;
    if more > 0 {
        output::line(&format!("and {more} more"))?;
    }
    Ok(())
}

/// Returns a sign for a cost without some calls or their output, of which no price is known.
fn at_least(used: &Used) -> &'static str {
    if used.is_complete() { "" } else { "≥ " }
}

#[allow(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the end of a path, or the beginning of a command.
fn beginning(about: &str) -> String {
    const LONGEST: usize = 60;
    let line: String = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = line.chars().count();
    if count <= LONGEST {
        return output::plain(&line);
    }
    let is_path = !line.contains(' ') && line.contains('/');
    output::plain(&if is_path {
        line.chars().skip(count - LONGEST).fold("…".to_owned(), |line, c| line + &c.to_string())
    } else {
        line.chars().take(LONGEST).chain(['…']).collect()
    })
}

/// Prints the results that cost the most, and the calls that were repeated most.
fn results(week: &Week) -> Result<(), Failure> {
    let mut large: Vec<_> = week.conversations.iter().flat_map(|it| &it.results).collect();
    large.sort_by_key(|result| std::cmp::Reverse(result.tokens * result.calls.max(1)));
    if !large.is_empty() {
        let rows = large.into_iter().take(MOST).map(|result| {
            let about = beginning(&result.about);
            [output::plain(&result.tool), about, output::number(result.tokens), output::number(result.calls)]
        });
        output::rows(&output::text_of(&output::table(
            ["Large result of", "About", "Tokens", "Sent by calls"],
            &[0, 1],
            rows,
        )))?;
    }
    let mut repeats: Vec<_> = week.conversations.iter().flat_map(|it| &it.repeats).collect();
    repeats.sort_by_key(|repeat| std::cmp::Reverse(repeat.tokens));
    if !repeats.is_empty() {
        let rows = repeats.into_iter().take(MOST).map(|repeat| {
            let about = beginning(&repeat.about);
            [output::plain(&repeat.tool), about, output::number(repeat.times), output::number(repeat.tokens)]
        });
        output::rows(&output::text_of(&output::table(["Repeated", "About", "Times", "Tokens again"], &[0, 1], rows)))?;
    }
    Ok(())
}

fn compactions(week: &Week) -> Result<(), Failure> {
    let all: Vec<_> = week.conversations.iter().flat_map(|it| &it.compactions).collect();
    if all.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&Compaction) -> usize| all.iter().map(|it| of(it)).sum::<usize>() as u64;
    output::line(&format!(
        "{} by the agents dropped {}, with {} of {} and {} that the model used again. See `lookback uncompact --all`.",
        output::counted(all.len() as u64, "compaction", "compactions"),
        output::counted(sum(|it| it.dropped), "message", "messages"),
        output::number(sum(|it| it.rules.len())),
        output::counted(sum(|it| it.all_rules), "rule", "rules"),
        output::counted(sum(|it| it.names.len()), "name", "names"),
    ))?;
    Ok(())
}
