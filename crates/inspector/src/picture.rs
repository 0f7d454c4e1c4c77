//! A picture of a session: each call's window as a stack of messages, with tokens read and cost below.
//!
//! Calls run from left to right. Each message is a bar from the call where it enters to the call where it leaves. Its
//! height is its tokens, and its color its treatment. All shapes of one color are one path, so that thousands of
//! messages render quickly.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lookback_content::text::number;
use lookback_engine::plan::Action;
use lookback_engine::plan::Occasion;
use lookback_replay::lost::ClientCompaction;
use lookback_replay::prices::money;
use lookback_replay::receipt::CallReceipt;
use lookback_replay::timeline::{Call, Fate, Row, RowKind, State, Timeline};
use lookback_wire::size::Measure;
use maud::{Markup, html};

use crate::numbers::short;

/// The size of the picture, in its own units.
const WIDTH: f64 = 1000.0;
/// The x-coordinate where the calls begin, right of the labels.
pub(crate) const LEFT: f64 = 52.0;
const TOP: f64 = 18.0;
const STACK: f64 = 260.0;
const STRIP: f64 = 44.0;
const COSTS: f64 = 28.0;
const GAP: f64 = 16.0;
const HEIGHT: f64 = TOP + STACK + GAP + STRIP + GAP + COSTS + 22.0;

/// The most columns. With more calls, a column represents several.
const MOST_COLUMNS: u64 = 480;
/// The least height of a bar. Lower bars are merged with adjacent bars of the same color.
const LOWEST: f64 = 0.8;

/// The treatment of a message, as a color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Color {
    Preamble,
    Kept,
    Truncated,
    Cleared,
    Repaired,
    Summary,
    Index,
    Note,
    /// Marks the end of a dropped message.
    Dropped,
    /// Marks the end of a summarized message.
    Summarized,
}

impl Color {
    fn for_state(row: &Row, state: &State) -> Color {
        match (row.kind, state.fate) {
            (RowKind::Summary, _) => Color::Summary,
            (RowKind::Index, _) => Color::Index,
            (RowKind::Note, _) => Color::Note,
            (RowKind::Mend, _) | (_, Fate::Repaired) => Color::Repaired,
            (_, Fate::Decided { action: Action::Truncate, .. }) => Color::Truncated,
            (_, Fate::Decided { action: Action::Clear, .. }) => Color::Cleared,
            _ => Color::Kept,
        }
    }

    /// Returns the color that marks the end of a message.
    fn at_end(state: &State) -> Color {
        match state.fate {
            Fate::Decided { action: Action::Summarize, .. } => Color::Summarized,
            _ => Color::Dropped,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Color::Preamble => "c-preamble",
            Color::Kept => "c-kept",
            Color::Truncated => "c-truncated",
            Color::Cleared => "c-cleared",
            Color::Repaired => "c-repaired",
            Color::Summary => "c-summary",
            Color::Index => "c-index",
            Color::Note => "c-note",
            Color::Dropped => "c-dropped",
            Color::Summarized => "c-summarized",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Color::Preamble => "system prompt and tools",
            Color::Kept => "kept",
            Color::Truncated => "truncated",
            Color::Cleared => "cleared",
            Color::Repaired => "repaired",
            Color::Summary => "summary",
            Color::Index => "index of names",
            Color::Note => "note",
            Color::Dropped => "dropped here",
            Color::Summarized => "summarized here",
        }
    }
}

/// A bar of the stack that has not been drawn yet.
#[derive(Clone, Copy)]
struct Bar {
    row: usize,
    color: Color,
    /// The column where the bar begins.
    from: u64,
    tokens: u64,
}

/// The paths of the picture, by color.
#[derive(Default)]
struct Shapes(BTreeMap<Color, String>);

impl Shapes {
    fn add(&mut self, color: Color, x: f64, y: f64, width: f64, height: f64) {
        let path = self.0.entry(color).or_default();
        // Writing to memory does not fail.
        let _ = write!(path, "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }
}

/// The columns of a picture.
#[derive(Debug, Clone, Copy)]
struct Columns {
    calls: u64,
    count: u64,
}

impl Columns {
    fn new(calls: u64) -> Columns {
        Columns { calls, count: calls.clamp(1, MOST_COLUMNS) }
    }

    /// Returns the last call of a column, whose window the column shows.
    fn call(self, column: u64) -> u64 {
        ((column + 1) * self.calls).div_ceil(self.count).min(self.calls.max(1))
    }

    fn width(self) -> f64 {
        (WIDTH - LEFT) / float(self.count)
    }

    fn x(self, column: u64) -> f64 {
        LEFT + float(column) * self.width()
    }

    /// Returns the x-coordinate of a call, which may lie within a column.
    fn x_of(self, call: u64) -> f64 {
        LEFT + (WIDTH - LEFT) * (float(call) - 1.0) / float(self.calls.max(1))
    }
}

#[allow(clippy::cast_precision_loss, reason = "a picture need not be exact")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Returns the top of the scale in tokens: the largest window or limit. Pictures that are compared share the largest.
pub(crate) fn highest(timeline: &Timeline) -> u64 {
    let windows = timeline.calls.iter().map(|call| call.window.size.tokens.max(call.preamble_tokens));
    windows.chain(limits(timeline).map(|limit| limit.limit)).max().unwrap_or(1).max(1)
}

/// Draws a session. `highest` is the number of tokens at the top of the scale.
pub(crate) fn picture(timeline: &Timeline, by_client: &[ClientCompaction], highest: u64, call: Option<u64>) -> Markup {
    let calls = timeline.calls.len() as u64;
    let columns = Columns::new(calls);
    let scale = STACK / (float(highest) * 1.04);
    let shapes = stack(timeline, columns, scale);
    let y = |tokens: u64| TOP + STACK - float(tokens) * scale;
    let (strip, costs) = (strip(&timeline.calls, columns), costs(&timeline.calls, columns));
    let step = step(highest);
    let describes = format!(
        "The window of {calls} calls. The largest has {} tokens. There are {} compactions.",
        number(highest_window(timeline)),
        timeline.compactions.len()
    );
    html! {
        svg.picture viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(describes)
            data-left=(LEFT) {
            @for tick in (0..=highest / step).map(|tick| tick * step) {
                line.grid x1=(LEFT) x2=(WIDTH) y1=(place(y(tick))) y2=(place(y(tick))) {}
                text.tick x=(LEFT - 6.0) y=(place(y(tick) + 3.0)) text-anchor="end" { (short(tick)) }
            }
            @for (color, path) in &shapes.0 { path class=(color.class()) d=(path) {} }
            @for limit in limits(timeline) {
                @let (x1, x2) = (place(columns.x_of(limit.from)), place(columns.x_of(limit.to)));
                @for (class, tokens) in [("limit", limit.limit), ("target", limit.target)] {
                    line class=(class) x1=(x1) x2=(x2) y1=(place(y(tokens))) y2=(place(y(tokens))) {}
                    @if columns.x_of(limit.to) - columns.x_of(limit.from) > 90.0 {
                        text class=(class) x=(place(columns.x_of(limit.to) - 3.0)) y=(place(y(tokens) - 3.0)) text-anchor="end" {
                            (class) " " (short(tokens))
                        }
                    }
                }
            }
            @for mark in &timeline.compactions {
                line.compaction x1=(place(columns.x_of(mark.call))) x2=(place(columns.x_of(mark.call)))
                    y1=(TOP) y2=(TOP + STACK) { title { "call " (mark.call) ": " (Occasion::compaction(mark.occasion)) } }
            }
            @for mark in by_client {
                line.by-client x1=(place(columns.x_of(mark.call))) x2=(place(columns.x_of(mark.call)))
                    y1=(TOP) y2=(TOP + STACK) { title { "call " (mark.call) ": the client has replaced " (mark.lost.messages) " messages" } }
            }
            @for call in timeline.calls.iter().filter(|call| !call.missed.is_empty()) {
                @let x = columns.x_of(call.receipt.number) + columns.width() / 2.0;
                path.missed d=(format!("M{:.1} {:.1}l4 -7h-8z", x, TOP - 3.0)) {
                    title { "call " (call.receipt.number) " used " (call.missed.len()) " names that had left" }
                }
            }
            text.tick x=(LEFT - 6.0) y=(TOP + STACK + GAP + 10.0) text-anchor="end" { "tokens" }
            @for (class, path) in &strip { path class=(class) d=(path) {} }
            text.tick x=(LEFT - 6.0) y=(TOP + STACK + GAP + STRIP + GAP + 10.0) text-anchor="end" { "cost" }
            path.cost d=(costs.0) {}
            text.tick x=(WIDTH) y=(TOP + STACK + GAP + STRIP + GAP - 3.0) text-anchor="end" { "at most " (money(costs.1)) " a call" }
            @for tick in ticks(calls) {
                text.tick x=(place(columns.x_of(tick))) y=(HEIGHT - 6.0) { (tick) }
            }
            @if let Some(call) = call {
                rect.cursor x=(place(columns.x_of(call))) y=(TOP - 12.0) width=(place(columns.width().max(1.5)))
                    height=(HEIGHT - TOP - 6.0) {}
            }
        }
    }
}

/// Renders the legend of the colors in a picture.
pub(crate) fn legend(timeline: &Timeline, has_compactions_by_client: bool) -> Markup {
    let mut colors: Vec<Color> = timeline
        .rows
        .iter()
        .flat_map(|row| row.states.iter().map(move |state| (row, state)))
        .map(|(row, state)| if state.is_shown { Color::for_state(row, state) } else { Color::at_end(state) })
        .collect();
    if timeline.preambles.iter().any(|sent| sent.size.tokens > 0) {
        colors.push(Color::Preamble);
    }
    colors.sort_unstable();
    colors.dedup();
    html! {
        ul.legend {
            @for color in colors { li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect class=(color.class()) width="10" height="10" {} } " " (color.name()) } }
            li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect.read width="10" height="10" {} } " read from the cache" }
            li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect.written width="10" height="10" {} } " written to it" }
            li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect.uncached width="10" height="10" {} } " neither" }
            @if has_compactions_by_client {
                li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { line.by-client x1="5" x2="5" y1="0" y2="10" {} } " compacted by the client" }
            }
        }
    }
}

fn highest_window(timeline: &Timeline) -> u64 {
    timeline.calls.iter().map(|call| call.window.size.tokens).max().unwrap_or(0)
}

/// An exceeded limit, in tokens of the whole window, over the calls from the previous compaction to this one.
struct Limit {
    from: u64,
    to: u64,
    limit: u64,
    target: u64,
}

/// Returns the exceeded limits. A limit of the body is raised by the tokens outside the body.
fn limits(timeline: &Timeline) -> impl Iterator<Item = Limit> {
    let before = std::iter::once(1).chain(timeline.compactions.iter().map(|mark| mark.call));
    timeline.compactions.iter().zip(before).filter_map(|(mark, from)| {
        let exceeded = mark.limit?;
        let below = match exceeded.measure {
            Measure::Tokens => 0,
            Measure::Body => mark.before.size.tokens.saturating_sub(mark.before.body),
            _ => return None,
        };
        Some(Limit { from, to: mark.call, limit: exceeded.limit + below, target: exceeded.target + below })
    })
}

/// Lays out the stacks of all columns.
fn stack(timeline: &Timeline, columns: Columns, scale: f64) -> Shapes {
    // The changes of all rows, by call.
    let mut changes: Vec<(u64, usize, &State)> = Vec::new();
    for (index, row) in timeline.rows.iter().enumerate() {
        changes.extend(row.states.iter().map(|state| (state.call, index, state)));
    }
    changes.sort_by_key(|(call, row, _)| (*call, *row));
    let mut changes = changes.into_iter().peekable();
    let mut shapes = Shapes::default();
    // The bars that began since the stack was last drawn, from the bottom up.
    let mut bars: Vec<Bar> = Vec::new();
    let mut shown: BTreeMap<usize, (Color, u64)> = BTreeMap::new();
    let mut base = 0;
    for column in 0..columns.count {
        let call = columns.call(column);
        let preamble = timeline.preamble(call).map_or(0, |sent| sent.size.tokens);
        let mut is_anew = preamble != base;
        let mut ends: Vec<(usize, Color)> = Vec::new();
        let mut added: Vec<Bar> = Vec::new();
        while let Some((_, row, state)) = changes.next_if(|(at, ..)| *at <= call) {
            if !state.is_shown {
                if shown.remove(&row).is_some() {
                    ends.push((row, Color::at_end(state)));
                    is_anew = true;
                }
                continue;
            }
            let Some(of) = timeline.rows.get(row) else { continue };
            let color = Color::for_state(of, state);
            let is_last = shown.last_key_value().is_none_or(|(last, _)| *last < row);
            is_anew |= shown.insert(row, (color, state.tokens)).is_some() || !is_last;
            added.push(Bar { row, color, from: column, tokens: state.tokens });
        }
        if is_anew && column > 0 {
            draw(&mut shapes, &bars, &ends, base, column, columns, scale);
            let anew = shown.iter().map(|(row, (color, tokens))| Bar {
                row: *row,
                color: *color,
                from: column,
                tokens: *tokens,
            });
            bars = anew.collect();
        } else {
            bars.extend(added);
        }
        base = preamble;
    }
    draw(&mut shapes, &bars, &[], base, columns.count, columns, scale);
    shapes
}

/// Draws bars up to a column, from the bottom up.
fn draw(shapes: &mut Shapes, bars: &[Bar], ends: &[(usize, Color)], base: u64, to: u64, columns: Columns, scale: f64) {
    let right = columns.x(to);
    let from = bars.iter().map(|bar| bar.from).min().unwrap_or(to);
    let mut bottom = TOP + STACK;
    if base > 0 {
        let height = float(base) * scale;
        bottom -= height;
        shapes.add(Color::Preamble, columns.x(from), bottom, right - columns.x(from), height);
    }
    let ends: BTreeMap<usize, Color> = ends.iter().copied().collect();
    let mut bars = bars.iter().peekable();
    while let Some(bar) = bars.next() {
        let end = ends.get(&bar.row).copied();
        let mut height = float(bar.tokens) * scale;
        // Merge low bars of the same color and extent.
        while height < LOWEST
            && let Some(next) = bars
                .next_if(|next| (next.color, next.from) == (bar.color, bar.from) && ends.get(&next.row).copied() == end)
        {
            height += float(next.tokens) * scale;
        }
        bottom -= height;
        let left = columns.x(bar.from);
        // Leave a small gap between bars that are high enough.
        let drawn = if height > 3.0 { height - 0.6 } else { height };
        shapes.add(bar.color, left, bottom, right - left, drawn);
        if let Some(end) = end {
            let width = (right - left).min(4.0);
            shapes.add(end, right - width, bottom, width, drawn);
        }
    }
}

/// Returns the paths of each column's tokens: read from the cache, written to it, and neither.
fn strip(calls: &[Call], columns: Columns) -> Vec<(&'static str, String)> {
    let sums = buckets(calls, columns, |call| {
        [call.cache_read_tokens, call.cache_write_tokens, call.uncached_tokens].map(float)
    });
    let most = sums.iter().map(|sum| sum.iter().sum::<f64>()).fold(1.0, f64::max);
    let mut paths = [String::new(), String::new(), String::new()];
    let width = (columns.width() - 0.3).max(0.4);
    for (column, sum) in (0..).zip(&sums) {
        let mut bottom = TOP + STACK + GAP + STRIP;
        for (path, tokens) in paths.iter_mut().zip(sum).filter(|(_, tokens)| **tokens > 0.0) {
            let height = tokens / most * STRIP;
            bottom -= height;
            let _ = write!(path, "M{:.1} {bottom:.1}h{width:.1}v{height:.1}h-{width:.1}z", columns.x(column));
        }
    }
    ["read", "written", "uncached"].into_iter().zip(paths).collect()
}

/// Returns the path of each column's cost, and the highest cost of one call.
fn costs(calls: &[Call], columns: Columns) -> (String, f64) {
    let sums = buckets(calls, columns, |call| [call.cost]);
    let most = sums.iter().map(|[cost]| *cost).fold(0.0, f64::max);
    let bottom = TOP + STACK + GAP + STRIP + GAP + COSTS;
    let mut path = String::new();
    let width = (columns.width() - 0.3).max(0.4);
    for (column, [cost]) in (0..).zip(&sums).filter(|(_, [cost])| *cost > 0.0) {
        let height = cost / most * COSTS;
        let _ = write!(path, "M{:.1} {:.1}h{width:.1}v{height:.1}h-{width:.1}z", columns.x(column), bottom - height);
    }
    // A column shows a mean of several calls, so the maximum is that of single calls.
    (path, calls.iter().map(|call| call.receipt.cost).fold(0.0, f64::max))
}

/// Returns the mean over the calls of each column.
fn buckets<const N: usize>(calls: &[Call], columns: Columns, of: impl Fn(&CallReceipt) -> [f64; N]) -> Vec<[f64; N]> {
    let mut buckets = Vec::new();
    let mut calls = calls.iter().peekable();
    for column in 0..columns.count {
        let (mut sums, mut count) = ([0.0; N], 0.0);
        while let Some(call) = calls.next_if(|call| call.receipt.number <= columns.call(column)) {
            sums.iter_mut().zip(of(&call.receipt)).for_each(|(sum, value)| *sum += value);
            count += 1.0;
        }
        buckets.push(sums.map(|sum| if count > 0.0 { sum / count } else { 0.0 }));
    }
    buckets
}

/// Returns the labeled calls: the first, and about ten at round numbers.
fn ticks(calls: u64) -> impl Iterator<Item = u64> {
    let step = step(calls.max(1) * 2 / 5).max(1);
    std::iter::once(1)
        .chain((1..).map(move |tick| tick * step).take_while(move |tick| *tick <= calls).filter(|tick| *tick > 1))
}

/// Returns a round number that fits about four times into the whole.
fn step(whole: u64) -> u64 {
    let rough = (whole / 4).max(1);
    let power = 10_u64.pow(rough.ilog10());
    let factor = rough / power;
    power
        * if factor >= 5 {
            5
        } else if factor >= 2 {
            2
        } else {
            1
        }
}

fn place(at: f64) -> String {
    format!("{at:.1}")
}
