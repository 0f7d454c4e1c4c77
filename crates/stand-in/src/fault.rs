//! The ways in which a provider can fail.

use std::str::FromStr;
use std::time::Duration;

/// How the stand-in treats a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It answers as usual.
    None,
    /// It answers with this status and body.
    Status(u16, String),
    /// It asks the client to retry after this many seconds.
    Busy(u64),
    /// It closes the connection after the first words of a stream.
    Cut,
    /// It waits this long before it answers.
    Wait(Duration),
    /// It waits this long before each piece of a stream.
    Slow(Duration),
    /// It begins an answer, and then sends nothing more.
    Stall,
    /// It refuses the request as too long, in the provider's words.
    TooLong,
    /// Its answer is not JSON.
    Malformed,
    /// Its answer is shorter than its `content-length`.
    Short,
}

impl FromStr for Fault {
    type Err = String;

    /// Parses `ok`, `busy`, `cut`, `wait`, `slow`, `stall`, `too-long`, `malformed`, `short` or a status such as `500`.
    fn from_str(text: &str) -> Result<Fault, String> {
        Ok(match text {
            "ok" => Fault::None,
            "busy" => Fault::Busy(1),
            "cut" => Fault::Cut,
            "wait" => Fault::Wait(Duration::from_secs(2)),
            "slow" => Fault::Slow(Duration::from_millis(50)),
            "stall" => Fault::Stall,
            "too-long" => Fault::TooLong,
            "malformed" => Fault::Malformed,
            "short" => Fault::Short,
            other => {
                let status = other.parse().map_err(|_| format!("{other} is no fault"))?;
                let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded","code":"server_error"}}"#;
                Fault::Status(status, body.to_owned())
            }
        })
    }
}
