//! The choice of recordings: files, or the logs of agents on this machine.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use lookback_engine::transcript::Millis;

use super::place;

/// The recordings to read.
#[derive(Debug, ClapArgs)]
pub(crate) struct LogsArgs {
    /// Recordings, or folders of recordings; `-` reads standard input. Without any, the logs of agents on this machine
    #[arg(value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    /// Only conversations with a message in this time, such as 7d, or since this date, such as 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Millis>,
    /// Only logs of this agent, such as codex; may be repeated
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(crate) agent: Vec<&'static str>,
    /// Only conversations in this folder or below it
    #[arg(long, value_name = "FOLDER", value_parser = place())]
    pub(crate) project: Option<PathBuf>,
}

impl LogsArgs {
    /// Returns whether conversations are chosen by their time, agent or project.
    pub(crate) fn has_choice(&self) -> bool {
        self.since.is_some() || !self.agent.is_empty() || self.project.is_some()
    }
}

/// Parses a span of time before now, or a date.
fn since(text: &str) -> Result<Millis, String> {
    super::sessions::ago(text)
        .or_else(|_| date(text))
        .map_err(|_| "use a time such as 7d, 12h or 2026-11-01".to_owned())
}

fn date(text: &str) -> Result<Millis, jiff::Error> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let date: jiff::civil::Date = text.parse()?;
    Ok(date.to_zoned(jiff::tz::TimeZone::system())?.timestamp().as_millisecond())
}

/// Finds an agent by its name, or by the beginning of it: `claude` is `Claude Code`.
pub(super) fn agent(text: &str) -> Result<&'static str, String> {
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let wanted = plain(text);
    let found: Vec<_> = lookback_recordings::agents().filter(|name| plain(name).starts_with(&wanted)).collect();
    match found.as_slice() {
        [only] => Ok(only),
        _ => {
            found.iter().copied().find(|name| plain(name) == wanted).ok_or_else(|| {
                format!("the agents are {}", lookback_recordings::agents().collect::<Vec<_>>().join(", "))
            })
        }
    }
}
