//! The identity of the process that makes a summary, so that others on the same machine can check whether it still
//! runs.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The claims that this process works on.
static AT_WORK: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A machine name for this process alone. It is used if the system gives no information about processes.
static ALONE: OnceLock<String> = OnceLock::new();

/// A process that makes a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Maker {
    /// The scope of the process number: a boot of a machine, and one of its containers.
    machine: String,
    process: u32,
    /// The start time of the process, in the system's own unit. Another process may get the same number later.
    begun: u64,
}

/// Whether the maker of a summary still works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Here,
    Gone,
    /// The maker is on another machine, or the system does not report its processes.
    Unknown,
}

/// The state of a process, as the system reports it.
enum ProcessState {
    Runs {
        begun: u64,
    },
    Gone,
    /// The system does not report it.
    Unknown,
}

impl Maker {
    /// Returns this process.
    pub(super) fn here() -> Maker {
        let process = std::process::id();
        match (machine(), process_state(process)) {
            (Some(machine), ProcessState::Runs { begun }) => Maker { machine, process, begun },
            _ => Maker {
                machine: ALONE.get_or_init(|| format!("{process:x}-{:x}", moment())).clone(),
                process,
                begun: 0,
            },
        }
    }

    /// Returns whether the maker still works on this claim.
    pub(super) fn presence(&self, claim: &str) -> Presence {
        let here = Maker::here();
        if *self == here {
            return if at_work().contains(claim) { Presence::Here } else { Presence::Gone };
        }
        if self.machine != here.machine {
            return Presence::Unknown;
        }
        match process_state(self.process) {
            ProcessState::Runs { begun } if begun == self.begun => Presence::Here,
            ProcessState::Runs { .. } | ProcessState::Gone => Presence::Gone,
            ProcessState::Unknown => Presence::Unknown,
        }
    }
}

/// The work of this process on a claim. It ends when this is dropped, also if the job is dropped before its end.
pub(super) struct ActiveClaim(String);

impl ActiveClaim {
    pub(super) fn on(claim: &str) -> ActiveClaim {
        at_work().insert(claim.to_owned());
        ActiveClaim(claim.to_owned())
    }
}

impl Drop for ActiveClaim {
    fn drop(&mut self) {
        at_work().remove(&self.0);
    }
}

fn at_work() -> MutexGuard<'static, BTreeSet<String>> {
    AT_WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an identifier of the boot and the process namespace, from Linux's `/proc`; `None` on other systems.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let numbers = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), numbers.display()))
}

fn process_state(process: u32) -> ProcessState {
    match std::fs::read(format!("/proc/{process}/stat")) {
        Ok(stat) => running(&String::from_utf8_lossy(&stat)),
        // If the system hides other users' processes, it also hides process 1. Then a missing process may still run.
        Err(error) if error.kind() == ErrorKind::NotFound && std::fs::read("/proc/1/stat").is_ok() => {
            ProcessState::Gone
        }
        Err(_) => ProcessState::Unknown,
    }
}

/// Reads the contents of `/proc/PROCESS/stat`: the number, the name in brackets, the state, and further numbers.
fn running(stat: &str) -> ProcessState {
    /// The index of the start time among the fields after the state.
    const BEGUN: usize = 18;
    // The name may contain spaces and brackets.
    let Some((_, rest)) = stat.rsplit_once(')') else { return ProcessState::Unknown };
    let mut fields = rest.split_whitespace();
    match (fields.next(), fields.nth(BEGUN).map(str::parse::<u64>)) {
        // The process has ended, but its parent has not waited for it.
        (Some("Z" | "X" | "x"), _) => ProcessState::Gone,
        (Some(_), Some(Ok(begun))) => ProcessState::Runs { begun },
        _ => ProcessState::Unknown,
    }
}

fn moment() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_is_here_until_it_is_dropped() {
        let work = ActiveClaim::on("a claim of this test");
        assert_eq!(Maker::here().presence("a claim of this test"), Presence::Here);
        assert_eq!(Maker::here().presence("another"), Presence::Gone);
        drop(work);
        assert_eq!(Maker::here().presence("a claim of this test"), Presence::Gone);
    }

    #[test]
    fn a_process_of_another_machine_is_not_known() {
        let other = Maker { machine: "another".to_owned(), ..Maker::here() };
        assert_eq!(other.presence("a"), Presence::Unknown);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_of_this_machine_is_known_and_so_is_whether_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let ProcessState::Runs { begun } = process_state(child.id()) else { panic!("it runs") };
        let maker = Maker { process: child.id(), begun, ..Maker::here() };
        assert_eq!(maker.presence("a"), Presence::Here);
        let other = Maker { begun: begun + 1, ..maker.clone() };
        assert_eq!(other.presence("a"), Presence::Gone, "another process has its number");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(maker.presence("a"), Presence::Gone);
    }

    #[test]
    fn the_name_of_a_process_may_have_brackets() {
        let stat = |name: &str, state: &str| {
            format!(
                "7 ({name}) {state} 1 7 7 0 -1 4194304 90 0 0 0 1 2 3 4 20 0 1 0 4711 1000 20 18446744073709551615\n"
            )
        };
        assert!(matches!(running(&stat("a (b) 1 2) c", "S")), ProcessState::Runs { begun: 4711 }));
        assert!(matches!(running(&stat("a", "Z")), ProcessState::Gone));
        assert!(matches!(running("7 (a"), ProcessState::Unknown));
    }
}
