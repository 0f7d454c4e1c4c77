//! The agents that can be set up, and the pieces that their files get.

use std::path::Path;

use lookback_recordings::Home;
use serde_json::{Value, json};

use super::Edit;
use super::piece::Piece;
use crate::output;

/// The agents. Add a line for each.
pub(crate) const ALL: &[&dyn Agent] = &[&ClaudeCode, &Codex, &GeminiCli, &Opencode, &Pi, &QwenCode];

/// An agent that can be set up.
pub(crate) trait Agent: Sync {
    /// Its name, as people write it.
    fn name(&self) -> &'static str;

    /// Its name on the command line, and that of its hooks.
    fn slug(&self) -> &'static str;

    /// The program that people start.
    fn program(&self) -> &'static str;

    /// What a person has to do before it works.
    fn advice(&self) -> Option<&'static str> {
        None
    }

    /// Returns the files that it reads, with the pieces for them.
    #[allow(private_interfaces, reason = "only this folder makes edits")]
    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit>;
}

/// Returns the command of a hook. Without the program, it does nothing, and succeeds.
fn command(program: &Path, slug: &str) -> String {
    let program = output::quoted(&program.display().to_string());
    format!("command -v {program} >/dev/null && {program} hook {slug} || true")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the pieces for hooks in a table by event, as most agents have it.
fn hooks(program: &Path, slug: &str, events: &[&str]) -> Vec<Piece> {
    let value = json!({"hooks": [{"type": "command", "command": command(program, slug)}]});
    let piece = |event: &&str| Piece::Element { path: names(&["hooks", event]), value: value.clone() };
    events.iter().map(piece).collect()
}

fn server(program: &Path) -> Value {
    json!({"command": program, "args": ["mcp", "--project"]})
}

fn member(path: &str, value: Value) -> Piece {
    Piece::Member { path: names(&[path]), name: "lookback".to_owned(), value }
}

/// Returns a plugin that starts the program at this place.
fn plugin(text: &str, program: &Path) -> Piece {
    let program = Value::from(program.display().to_string());
    Piece::Whole { text: text.replacen("const PROGRAM = 'lookback'", &format!("const PROGRAM = {program}"), 1) }
}

struct ClaudeCode;

impl Agent for ClaudeCode {
    fn name(&self) -> &'static str {
        "Claude Code"
    }

    fn slug(&self) -> &'static str {
        "claude-code"
    }

    fn program(&self) -> &'static str {
        "claude"
    }

    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit> {
        let events = ["PostToolUse", "UserPromptSubmit", "SessionStart", "PreCompact", "Stop", "SessionEnd"];
        let path = home.below("CLAUDE_CONFIG_DIR", ".claude", "settings.json");
        let settings = Edit { path, pieces: hooks(program, self.slug(), &events) };
        let path = home.below("CLAUDE_CONFIG_DIR", "", ".claude.json");
        let servers = Edit { path, pieces: vec![member("mcpServers", server(program))] };
        vec![settings, servers]
    }
}

struct Codex;

impl Agent for Codex {
    fn name(&self) -> &'static str {
        "Codex"
    }

    fn slug(&self) -> &'static str {
        "codex"
    }

    fn program(&self) -> &'static str {
        "codex"
    }

    fn advice(&self) -> Option<&'static str> {
        Some("start it, type /hooks, and trust those of Lookback")
    }

    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit> {
        let events = ["PostToolUse", "SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"];
        let below = |file: &str| home.below("CODEX_HOME", ".codex", file);
        let table = Piece::Table { path: names(&["mcp_servers", "lookback"]), value: server(program) };
        vec![
            Edit { path: below("hooks.json"), pieces: hooks(program, self.slug(), &events) },
            Edit { path: below("config.toml"), pieces: vec![table] },
        ]
    }
}

struct GeminiCli;

impl Agent for GeminiCli {
    fn name(&self) -> &'static str {
        "Gemini CLI"
    }

    fn slug(&self) -> &'static str {
        "gemini-cli"
    }

    fn program(&self) -> &'static str {
        "gemini"
    }

    fn advice(&self) -> Option<&'static str> {
        Some("it runs hooks in folders that you trust")
    }

    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit> {
        let events = ["AfterTool", "SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"];
        let mut pieces = hooks(program, self.slug(), &events);
        pieces.push(member("mcpServers", server(program)));
        vec![Edit { path: home.join(".gemini/settings.json"), pieces }]
    }
}

struct QwenCode;

impl Agent for QwenCode {
    fn name(&self) -> &'static str {
        "Qwen Code"
    }

    fn slug(&self) -> &'static str {
        "qwen-code"
    }

    fn program(&self) -> &'static str {
        "qwen"
    }

    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit> {
        let events = ["PostToolUse", "UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "SessionEnd"];
        let mut pieces = hooks(program, self.slug(), &events);
        pieces.push(member("mcpServers", server(program)));
        vec![Edit { path: home.join(".qwen/settings.json"), pieces }]
    }
}

struct Opencode;

impl Agent for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn slug(&self) -> &'static str {
        "opencode"
    }

    fn program(&self) -> &'static str {
        "opencode"
    }

    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit> {
        let below = |file: &str| home.below("XDG_CONFIG_HOME", ".config", &format!("opencode/{file}"));
        let files = ["opencode.jsonc", "opencode.json", "config.json"].map(below);
        let path = files.iter().find(|file| file.exists()).cloned().unwrap_or_else(|| below("opencode.json"));
        let server = json!({"type": "local", "command": [program, "mcp", "--project"], "enabled": true});
        let text = include_str!("../../plugins/opencode/lookback.js");
        vec![
            Edit { path: below("plugins/lookback.js"), pieces: vec![plugin(text, program)] },
            Edit { path, pieces: vec![member("mcp", server)] },
        ]
    }
}

struct Pi;

impl Agent for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn slug(&self) -> &'static str {
        "pi"
    }

    fn program(&self) -> &'static str {
        "pi"
    }

    fn edits(&self, home: &Home, program: &Path) -> Vec<Edit> {
        let path = home.below("PI_CODING_AGENT_DIR", ".pi/agent", "extensions/lookback.js");
        let text = include_str!("../../plugins/pi/lookback.js");
        vec![Edit { path, pieces: vec![plugin(text, program)] }]
    }
}
