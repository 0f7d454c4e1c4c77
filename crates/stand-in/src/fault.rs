//! The ways in which a provider fails.

use std::str::FromStr;
use std::time::Duration;

/// What the stand-in does with a request, in place of answering it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It answers as usual.
    None,
    /// It answers with this status and body.
    Status(u16, String),
    /// It asks the client to come again after so many seconds.
    Busy(u64),
    /// It ends a stream after the first words, and closes the connection.
    Cut,
    /// It answers after this time.
    Wait(Duration),
    /// It waits so long before each piece of a stream.
    Slow(Duration),
    /// It says that more will come, and sends nothing more.
    Stall,
    /// It refuses the request as too long, in its own words.
    TooLong,
    /// Its answer is not JSON.
    Malformed,
    /// Its answer is shorter than it says.
    Short,
}

impl FromStr for Fault {
    type Err = String;

    /// Reads a fault such as `ok`, `500`, `busy`, `cut`, `wait`, `slow`, `stall`, `too-long`, `malformed` or `short`.
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
