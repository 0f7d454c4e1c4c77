//! The windows of five other systems as presets, with those systems' own options and defaults.

use lookback_engine::policy::{Keep, Limits, Pace, Policy, Stage, Start, Summarize, SystemRule, Tokens};
use lookback_tokens::cut::Truncation;
use lookback_wire::message::Role;
use lookback_wire::size::Measure;

/// Returns `AgentLIB`'s window: the newest turns that fit a number of tokens. It keeps 50 turns and 4,000 tokens unless
/// told otherwise.
///
/// `AgentLIB` does not store system messages. Here they come before the window, and they count in tokens only.
///
/// ```
/// use lookback_engine::Policy;
/// use lookback_presets as presets;
///
/// let policy: Policy = presets::turn_window().max_turns(20).into();
/// assert_eq!(policy, presets::named("turn-window:max_turns=20")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn turn_window() -> TurnWindow {
    TurnWindow { max_turns: 50, max_tokens: 4_000 }
}

/// The preset `turn-window`, made by [`turn_window`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a preset does nothing until it becomes a policy"]
pub struct TurnWindow {
    max_turns: u64,
    max_tokens: u64,
}

impl TurnWindow {
    /// Sets the most turns, from 1.
    pub fn max_turns(self, max_turns: u64) -> Self {
        TurnWindow { max_turns, ..self }
    }

    /// Sets the most tokens, from 1.
    pub fn max_tokens(self, max_tokens: u64) -> Self {
        TurnWindow { max_tokens, ..self }
    }
}

impl From<TurnWindow> for Policy {
    fn from(preset: TurnWindow) -> Policy {
        let tokens = Some(Tokens::Count(preset.max_tokens));
        let limits = Limits { turns: Some(preset.max_turns), tokens, ..Limits::default() };
        Policy { limits, keep: Keep { task: false, ..Keep::default() }, ..Policy::unlimited() }
    }
}

/// Returns Crux's window: the newest messages behind a running summary. It keeps 20 messages and a summary of at most
/// 1,000 tokens unless told otherwise.
///
/// Crux asks its model for a new summary at every message once the window is full. Here a summary takes in several
/// messages at a time (see [`RollingSummary::batch`]).
///
/// ```
/// use lookback_engine::Policy;
/// use lookback_presets as presets;
///
/// let policy: Policy = presets::rolling_summary().window_size(40).into();
/// assert_eq!(policy, presets::named("rolling-summary:window_size=40")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn rolling_summary() -> RollingSummary {
    RollingSummary { window_size: 20, summary_budget: 1_000, summary_role: Role::System, batch: None }
}

/// The preset `rolling-summary`, made by [`rolling_summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a preset does nothing until it becomes a policy"]
pub struct RollingSummary {
    window_size: u64,
    summary_budget: u64,
    summary_role: Role,
    batch: Option<u64>,
}

impl RollingSummary {
    /// Sets how many messages stay behind the summary, from 1.
    pub fn window_size(self, window_size: u64) -> Self {
        RollingSummary { window_size, ..self }
    }

    /// Sets the most tokens of the summary, from 1.
    pub fn summary_budget(self, summary_budget: u64) -> Self {
        RollingSummary { summary_budget, ..self }
    }

    /// Sets the role of the summary's message.
    pub fn summary_role(self, summary_role: Role) -> Self {
        RollingSummary { summary_role, ..self }
    }

    /// Sets how many messages a summary takes in at a time, from 1. The default is a quarter of the window.
    pub fn batch(self, batch: u64) -> Self {
        RollingSummary { batch: Some(batch), ..self }
    }
}

impl From<RollingSummary> for Policy {
    fn from(preset: RollingSummary) -> Policy {
        let RollingSummary { window_size, summary_budget: budget, summary_role: role, batch } = preset;
        let batch = batch.unwrap_or_else(|| rolling_batch(window_size));
        let summary = Summarize { budget, role, wording: "{summary}".to_owned() };
        Policy {
            limits: Limits::messages(window_size.saturating_add(batch.saturating_sub(1))),
            target: Some(Limits::messages(window_size)),
            keep: Keep { task: false, ..Keep::default() },
            system: SystemRule { counted: false, ..SystemRule::default() },
            stages: vec![Stage::Summarize(summary)],
            ..Policy::unlimited()
        }
    }
}

/// Returns how many messages a running summary takes in at a time by default. `compat::crux` gives the reason.
pub fn rolling_batch(window_size: u64) -> u64 {
    (window_size / 4).max(1)
}

/// Returns the window of KB Labs' agents: the newest rounds, in which older tool results are cleared and long ones
/// truncated. It keeps 10 rounds, and 8,000 characters of each tool result, unless told otherwise.
///
/// ```
/// use lookback_engine::Policy;
/// use lookback_presets as presets;
///
/// let policy: Policy = presets::two_tier().sliding_window_size(5).into();
/// assert_eq!(policy, presets::named("two-tier:sliding_window_size=5")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn two_tier() -> TwoTier {
    TwoTier { sliding_window_size: 10, target_rounds: None, max_output_length: 8_000, enable_compaction: false }
}

/// The preset `two-tier`, made by [`two_tier`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a preset does nothing until it becomes a policy"]
pub struct TwoTier {
    sliding_window_size: u64,
    target_rounds: Option<u64>,
    max_output_length: u64,
    enable_compaction: bool,
}

impl TwoTier {
    /// Sets how many rounds stay, from 1.
    pub fn sliding_window_size(self, sliding_window_size: u64) -> Self {
        TwoTier { sliding_window_size, ..self }
    }

    /// Sets how many rounds stay when the window is cut, from 1. By default it slides, as the original does: it is cut at
    /// each call, and the provider's cache never matches.
    pub fn target_rounds(self, target_rounds: u64) -> Self {
        TwoTier { target_rounds: Some(target_rounds), ..self }
    }

    /// Sets how many characters stay of each text of a tool result, from its beginning.
    pub fn max_output_length(self, max_output_length: u64) -> Self {
        TwoTier { max_output_length, ..self }
    }

    /// Sets whether older rounds are merged into a running summary. By default they are dropped.
    pub fn enable_compaction(self, enable_compaction: bool) -> Self {
        TwoTier { enable_compaction, ..self }
    }
}

impl From<TwoTier> for Policy {
    fn from(preset: TwoTier) -> Policy {
        let TwoTier { sliding_window_size: rounds, target_rounds, max_output_length: length, enable_compaction } =
            preset;
        let last = if enable_compaction {
            let wording = "[Compacted summary of earlier iterations]\n\n{summary}".to_owned();
            Stage::Summarize(Summarize { budget: 800, role: Role::System, wording })
        } else {
            Stage::Drop
        };
        let marker = format!(
            "\n\n[TRUNCATED: {{cut}} more characters are not shown, since tool output is cut at {length} characters. If what you \
             need may be among them, ask more narrowly, or for a smaller range.]"
        );
        Policy {
            limits: Limits::of(Measure::Rounds, rounds),
            target: target_rounds.map(|rounds| Limits::of(Measure::Rounds, rounds)),
            // The first message is kept because it is the task in a run of KB Labs' agents; the current task is kept in
            // any case. System messages are kept wherever they are.
            keep: Keep { first: 1, system: true, ..Keep::default() },
            arrival: Some(Truncation { head: length, marker: Some(marker), ..Truncation::default() }),
            stages: vec![Stage::ClearResults { except_newest: 3, marker: None }, last],
            ..Policy::unlimited()
        }
    }
}

/// Returns `LangChain4j`'s window: the newest messages, at most `max_messages` (from 1), with at most one system
/// message.
///
/// ```
/// use lookback_engine::Policy;
/// use lookback_presets as presets;
///
/// let policy: Policy = presets::message_window(20).into();
/// assert_eq!(policy, presets::named("message-window:max_messages=20")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn message_window(max_messages: u64) -> MessageWindow {
    MessageWindow { max_messages, always_keep_system_message_first: false }
}

/// The preset `message-window`, made by [`message_window`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a preset does nothing until it becomes a policy"]
pub struct MessageWindow {
    max_messages: u64,
    always_keep_system_message_first: bool,
}

impl MessageWindow {
    /// Sets whether the system message is always the first. By default it stays where it arrived.
    pub fn always_keep_system_message_first(self, always_keep_system_message_first: bool) -> Self {
        MessageWindow { always_keep_system_message_first, ..self }
    }
}

impl From<MessageWindow> for Policy {
    fn from(preset: MessageWindow) -> Policy {
        Policy {
            limits: Limits::messages(preset.max_messages),
            keep: Keep { task: false, ..Keep::default() },
            system: SystemRule { one: true, first: preset.always_keep_system_message_first, counted: true },
            ..Policy::unlimited()
        }
    }
}

/// Returns Strands' window: the newest messages, which begin with a person's. It keeps 40 messages, and checks its
/// limits between turns, unless told otherwise.
///
/// ```
/// use lookback_engine::{Pace, Policy};
/// use lookback_presets as presets;
///
/// let policy: Policy = presets::managed_window().window_size(20).per_turn(Pace::Calls(3)).into();
/// assert_eq!(policy, presets::named("managed-window:window_size=20,per_turn=3")?);
/// # Ok::<(), presets::PolicyError>(())
/// ```
pub fn managed_window() -> ManagedWindow {
    ManagedWindow { window_size: 40, should_truncate_results: true, per_turn: Pace::Turn, proactive_compression: None }
}

/// The preset `managed-window`, made by [`managed_window`].
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a preset does nothing until it becomes a policy"]
pub struct ManagedWindow {
    window_size: u64,
    should_truncate_results: bool,
    per_turn: Pace,
    proactive_compression: Option<f64>,
}

impl ManagedWindow {
    /// Sets the most messages. With 0, a call sees only the current turn.
    pub fn window_size(self, window_size: u64) -> Self {
        ManagedWindow { window_size, ..self }
    }

    /// Sets whether an overflow truncates tool results before it drops messages. By default it does.
    pub fn should_truncate_results(self, should_truncate_results: bool) -> Self {
        ManagedWindow { should_truncate_results, ..self }
    }

    /// Sets at which calls the limits are checked. Strands writes `true` for [`Pace::Call`], `false` for
    /// [`Pace::Turn`], and a number for [`Pace::Calls`].
    pub fn per_turn(self, pace: Pace) -> Self {
        ManagedWindow { per_turn: pace, ..self }
    }

    /// Sets the share of the model's context window, above 0 and at most 1, that a window may fill. It is checked
    /// before every call, whatever [`ManagedWindow::per_turn`] says. Strands writes `true` for 0.7.
    pub fn proactive_compression(self, share: f64) -> Self {
        ManagedWindow { proactive_compression: Some(share), ..self }
    }
}

impl From<ManagedWindow> for Policy {
    fn from(preset: ManagedWindow) -> Policy {
        let limits = match preset.window_size {
            // Strands empties such a window when a turn is done, so a call sees the turn that it is in.
            0 => Limits { turns: Some(1), ..Limits::default() },
            size => Limits::messages(size),
        };
        let marker = "...\n\n... [truncated: {cut} chars removed] ...\n\n...".to_owned();
        let to = Truncation { head: 200, tail: 200, marker: Some(marker), ..Truncation::default() };
        let shorten = [Stage::TruncateResults { to, except_newest: 0 }, Stage::ClearMedia { except_newest: 0 }];
        let truncates = preset.should_truncate_results;
        Policy {
            limits: Limits { tokens: preset.proactive_compression.map(Tokens::Share), ..limits },
            system: SystemRule { counted: false, ..SystemRule::default() },
            start: Start::User,
            overflow: shorten.into_iter().filter(|_| truncates).chain([Stage::Drop]).collect(),
            pace: preset.per_turn,
            ..Policy::unlimited()
        }
    }
}
