//! Tests of the help, of completions, and of what all commands have in common.

use crate::common::{LOOKBACK, Lab, example_messages, list};
use insta::assert_snapshot;

#[cfg(feature = "server")]
#[test]
fn help_teaches_with_examples() {
    let lab = Lab::new();
    let commands: [&[&str]; 34] = [
        &[],
        &["window"],
        &["check"],
        &["rules"],
        &["replay"],
        &["tune"],
        &["sessions"],
        &["sessions", "list"],
        &["sessions", "show"],
        &["sessions", "window"],
        &["sessions", "calls"],
        &["sessions", "export"],
        &["sessions", "search"],
        &["sessions", "delete"],
        &["mcp"],
        &["serve"],
        &["uncompact"],
        &["handoff"],
        &["setup"],
        &["undo"],
        &["hook"],
        &["forget"],
        &["week"],
        &["facts"],
        &["facts", "list"],
        &["facts", "add"],
        &["facts", "resolve"],
        &["facts", "forget"],
        &["facts", "history"],
        &["facts", "sheet"],
        &["facts", "export"],
        &["facts", "import"],
        &["recall"],
        &["completions"],
    ];
    let mut told = Vec::new();
    for command in commands {
        let run = lab.run(&[command, &["--help"]].concat());
        let examples = run.out().split_once("\nExample").unwrap_or_else(|| panic!("{command:?} has no examples")).1;
        // Every example fits on a line of a terminal with 80 columns, so that it can be copied.
        assert!(
            examples.lines().filter(|line| line.starts_with("  lookback")).all(|line| line.len() < 80),
            "{examples}"
        );
        assert_eq!(run.stderr, "");
        told.push(lab.snapshot(&run));
        assert_eq!(lab.run(&[command, &["-h"]].concat()).code, Some(0));
    }
    assert_snapshot!(told.join("\n"));
}

#[test]
fn the_help_names_the_prices_that_are_known() {
    let run = Lab::new().run(&["replay", "--help"]);
    let prices = lookback_replay::prices::Prices::builtin();
    for name in prices.names() {
        assert!(run.out().contains(name), "{name}");
    }
}

#[test]
fn a_dialect_by_another_name_is_told_its_own() {
    let lab = Lab::new();
    for (name, says) in [
        ("openai", "unknown dialect `openai`; did you mean openai-chat?"),
        ("claude", "did you mean anthropic?"),
        ("converse", "did you mean bedrock?"),
        ("responses", "did you mean openai-responses?"),
        ("google", "did you mean gemini?"),
        ("cohere", "Lookback cannot read Cohere's chat format yet"),
    ] {
        lab.run(&["check", "--dialect", name]).fails(2, says);
    }
}

#[test]
fn without_a_command_there_is_help_and_a_wrong_question() {
    let run = Lab::new().run(&[]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("Usage: lookback <COMMAND>"), "{}", run.stderr);
}

#[test]
fn the_version_is_the_packages() {
    for flag in ["--version", "-V"] {
        assert_eq!(Lab::new().run(&[flag]).out(), concat!("lookback ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

#[test]
fn completions_are_scripts() {
    let lab = Lab::new();
    for (shell, begins) in [("bash", "_lookback() {"), ("zsh", "#compdef lookback"), ("fish", "# Print an optspec")] {
        let run = lab.run(&["completions", shell]);
        assert!(run.out().starts_with(begins), "{}", &run.stdout[..80]);
        for word in ["window", "check", "replay", "tune", "sessions", "facts", "recall", "policy", "explain"] {
            assert!(run.stdout.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(lab.run(&["completions", "tcsh"]).code, Some(2));
    // Bash completes with the script.
    std::fs::write(lab.path("completion.bash"), &lab.run(&["completions", "bash"]).stdout).unwrap();
    let run = lab.shell("bash -c 'source completion.bash; COMP_WORDS=(lookback win); COMP_CWORD=1; _lookback lookback win lookback; echo \"${COMPREPLY[@]}\"'");
    assert_eq!(run.out().trim(), "window");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let messages = list(&example_messages());
    let short = example_messages()[..60].join("\n");
    let lab = Lab::new().with("session.jsonl", short).with("list.json", &messages);
    lab.run(&["replay", "session.jsonl", "--json", "--policy", "none"]).out();
    // A file holds the status of the program, because the status of the pipe is that of `head`.
    for command in [
        "window list.json",
        "window list.json --json --explain",
        "check list.json --fix",
        "sessions export replay/session",
        "sessions show replay/session",
        "sessions show replay/session --json",
        "sessions window replay/session",
        "completions bash",
        "replay session.jsonl --policy none --policy messages --json",
        "tune session.jsonl --policy none",
        "--help",
    ] {
        let run = lab.shell(&format!("{{ lookback {command}; echo $? > status; }} | head -n 1 | cut -c 1-20"));
        assert!(!run.stderr.contains("panicked"), "{command}: {}", run.stderr);
        assert!(!run.stderr.contains("error"), "{command}: {}", run.stderr);
        assert_eq!(run.stdout.lines().count(), 1, "{command}");
        assert_eq!(std::fs::read_to_string(lab.path("status")).unwrap(), "0\n", "{command}");
        // The reader is gone from the beginning.
        let run = lab.shell(&format!("{{ sleep 0.1; lookback {command}; echo $? > status; }} | true"));
        assert!(!run.stderr.contains("error"), "{command}: {}", run.stderr);
        assert_eq!(std::fs::read_to_string(lab.path("status")).unwrap(), "0\n", "{command}");
    }
}

#[test]
fn a_closed_pipe_does_not_change_the_answer() {
    let lab = Lab::new()
        .with("list.json", r#"[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"b"}]"#);
    let run = lab.shell("{ sleep 0.1; lookback check list.json; echo $? > status; } | true");
    assert_eq!(run.stderr, "");
    assert_eq!(std::fs::read_to_string(lab.path("status")).unwrap(), "1\n");
}

#[test]
fn a_full_disk_is_said() {
    if !std::path::Path::new("/dev/full").exists() {
        crate::common::skipped("there is no /dev/full");
        return;
    }
    let lab = Lab::new().with_example().with("list.json", list(&example_messages()[..20]));
    lab.run(&["replay", "session.jsonl", "--json", "--policy", "none"]).out();
    for command in [
        "window list.json",
        "window list.json --json --explain",
        "check list.json --json",
        "check list.json --fix",
        "replay session.jsonl --policy none --policy messages",
        "replay session.jsonl --policy none --json",
        "tune session.jsonl --policy none --json",
        "sessions list",
        "sessions list --json",
        "sessions show replay/session",
        "sessions export replay/session",
        "sessions window replay/session",
        "sessions search shell",
        "facts add --shared finding So.",
        "facts list --json",
        "facts export --shared",
        "facts sheet",
        "recall replay/session shell",
        "completions zsh",
    ] {
        let run = lab.shell(&format!("lookback {command} > /dev/full"));
        assert_eq!(run.code, Some(2), "{command}: {}", run.stderr);
        assert!(
            run.stderr.contains("error: the output could not be written: No space left"),
            "{command}: {}",
            run.stderr
        );
    }
    assert_eq!(lab.shell("lookback window list.json > /dev/null 2> /dev/full").code, Some(0));
}

#[test]
fn there_are_no_colors_without_a_terminal() {
    let lab = Lab::new().with("list.json", "[]").with("short.jsonl", example_messages()[..20].join("\n"));
    for args in [
        &["--help"][..],
        &["window", "--help"],
        &["window", "list.json", "--model", "x"],
        &["window", "missing.json"],
        &["window", "--nonesuch"],
        &["replay", "short.jsonl"],
    ] {
        for env in [&[][..], &[("NO_COLOR", "1")], &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]] {
            let run = lab.run_with(args, "", env);
            assert!(!run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'), "{args:?}: {run:?}");
        }
    }
}

#[test]
fn on_a_terminal_no_color_is_respected() {
    let lab = Lab::new();
    let on_terminal = |env: &str| {
        let line = format!("{env} script -qec '\"{LOOKBACK}\" window missing.json' /dev/null < /dev/null");
        lab.shell(&format!("command -v script > /dev/null || exit 77; TERM=xterm {line}"))
    };
    let colored = on_terminal("");
    if colored.code == Some(77) {
        crate::common::skipped("there is no `script` to make a terminal");
        return;
    }
    assert!(colored.stdout.contains('\u{1b}'), "{colored:?}");
    let plain = on_terminal("NO_COLOR=1");
    assert!(plain.stdout.contains("error: missing.json") && !plain.stdout.contains('\u{1b}'), "{plain:?}");
}
