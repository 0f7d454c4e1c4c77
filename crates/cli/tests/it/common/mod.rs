//! Runs the built program in a temporary folder, and inspects its output.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The program.
pub const LOOKBACK: &str = env!("CARGO_BIN_EXE_lookback");

/// Reports a skipped test. Writes around the harness, which captures the output of passing tests.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Returns the path of the example session, which has 216 messages.
pub fn example() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.jsonl")
}

/// Returns the messages of [`example`] without their times, which are not part of the provider's format.
pub fn example_messages() -> Vec<String> {
    let text = fs::read_to_string(example()).unwrap();
    let message = |line: &str| {
        let mut message: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        message.remove("time");
        serde_json::to_string(&message).unwrap()
    };
    text.lines().map(message).collect()
}

/// Returns messages as a JSON list.
pub fn list(messages: &[String]) -> String {
    format!("[{}]", messages.join(","))
}

/// A temporary folder in which the program is run.
pub struct Lab {
    folder: tempfile::TempDir,
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    command: String,
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

impl Lab {
    pub fn new() -> Lab {
        Lab { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a file.
    pub fn with(self, name: &str, contents: impl AsRef<[u8]>) -> Lab {
        fs::write(self.path(name), contents).unwrap();
        self
    }

    /// Adds the example session as `session.jsonl`.
    pub fn with_example(self) -> Lab {
        fs::copy(example(), self.path("session.jsonl")).unwrap();
        self
    }

    /// Returns a command without the environment variables of the machine, except for PATH.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.pipe(args, "")
    }

    /// Runs with standard input.
    pub fn pipe(&self, args: &[&str], stdin: impl AsRef<[u8]>) -> Run {
        self.run_with(args, stdin, &[])
    }

    /// Runs with standard input and environment variables.
    pub fn run_with(&self, args: &[&str], stdin: impl AsRef<[u8]>, env: &[(&str, &str)]) -> Run {
        let mut command = self.command(LOOKBACK);
        command.args(args).envs(env.iter().copied());
        self.finish(command, stdin.as_ref(), format!("lookback {}", args.join(" ")))
    }

    /// Runs a line of shell, in which `lookback` is the program.
    pub fn shell(&self, line: &str) -> Run {
        let mut command = self.command("sh");
        command.args(["-c", &format!("lookback() {{ \"{LOOKBACK}\" \"$@\"; }}\n{line}")]);
        self.finish(command, b"", line.to_owned())
    }

    fn finish(&self, mut command: Command, stdin: &[u8], line: String) -> Run {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || match input.write_all(stdin) {
                // A program that fails early need not read all input.
                Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("{error}"),
                _ => {}
            });
            child.wait_with_output().unwrap()
        });
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        let run =
            Run { command: line, stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() };
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        run
    }

    /// Returns the command and its output for snapshots, with a placeholder for the folder.
    pub fn snapshot(&self, run: &Run) -> String {
        let code = run.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let mut told = format!("$ {}\n", run.command);
        for (label, text) in [("standard output", &run.stdout), ("standard error", &run.stderr)] {
            if !text.is_empty() {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                let _ = write!(told, "-- {label}\n{text}{end}");
            }
        }
        let _ = writeln!(told, "-- exit code {code}");
        told.replace(&self.folder.path().display().to_string(), "[FOLDER]")
    }

    /// Runs several command lines, and returns their output for snapshots.
    pub fn all(&self, lines: &[&[&str]]) -> String {
        lines.iter().map(|args| self.snapshot(&self.run(args))).collect::<Vec<_>>().join("\n")
    }
}

impl Run {
    /// Returns standard output, and asserts that the exit code is 0.
    #[track_caller]
    pub fn out(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    /// Returns standard output as JSON lines.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asserts an exit code, an empty standard output, and a part of standard error.
    #[track_caller]
    pub fn fails(&self, code: i32, says: &str) {
        assert_eq!(self.code, Some(code), "{}: {}", self.command, self.stderr);
        assert_eq!(self.stdout, "", "{}", self.command);
        assert!(self.stderr.starts_with("error: "), "{}: {}", self.command, self.stderr);
        assert!(self.stderr.contains(says), "{}: {}", self.command, self.stderr);
    }
}
