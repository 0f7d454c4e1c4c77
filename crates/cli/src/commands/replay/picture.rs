//! An SVG picture that compares what policies cost and miss, in three plots and a table.
//!
//! A policy has the same number, color and shape everywhere. In each plot, its mark is filled if the policy is on the
//! Pareto front of that plot. So a policy that misses few identifiers but many spans is filled in one and hollow in
//! another.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use lookback_replay::replay::Report;

use crate::commands::front::front;
use crate::output;

const WIDTH: f64 = 960.0;
/// The height of the title above the plots.
const TOP: f64 = 64.0;
/// The size of a plot, within its axes.
const PLOT: (f64, f64) = (250.0, 210.0);
/// The distance between the left edges of two plots.
const STRIDE: f64 = 318.0;
/// The distance from the left edge of the picture to the first plot.
const LEFT: f64 = 48.0;
/// The height of a row of the table.
const ROW: f64 = 20.0;
/// The right edges of the table's columns of numbers.
const COLUMNS: [(f64, &str); 5] =
    [(600.0, "cost"), (700.0, "with recalls"), (780.0, "identifiers"), (860.0, "spans"), (940.0, "calls")];
/// The width of the table's column of policies.
const POLICY_WIDTH: f64 = 490.0;
const TITLES: [&str; 3] = ["missed identifiers, %", "missed spans, %", "calls that missed either, %"];

/// The number of colors of marks. The next shape repeats the colors.
const COLORS: usize = 8;
const SHAPES: [&str; 4] =
    ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z", "M-4.5-4.5h9v9h-9z", "M0-5.5L5.5 4.5H-5.5z", "M0-6.5L6.5 0L0 6.5L-6.5 0z"];

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#24292f}
.title{font-size:15px;font-weight:600}
.head{font-weight:600}
.end{text-anchor:end}
.middle{text-anchor:middle}
.paper{fill:#fff}
.grid{stroke:#d8dee4}
.front{fill:none;stroke:#57606a;stroke-dasharray:4 3}
.leader{stroke:#8c959f}
.number{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:3px}
.mark{stroke:currentColor;stroke-width:1.8}
.on{fill:currentColor}
.off{fill:#fff}
.c0{color:#0969b3}.c1{color:#c2510c}.c2{color:#0b7d5c}.c3{color:#b4478f}
.c4{color:#8a6a00}.c5{color:#2790c4}.c6{color:#6e4fc4}.c7{color:#5c6670}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.paper,.off{fill:#0d1117}
.grid{stroke:#30363d}
.front{stroke:#9198a1}
.leader{stroke:#6e7681}
.number{stroke:#0d1117}
.on{fill:currentColor}
.c0{color:#58a6ff}.c1{color:#ff9b55}.c2{color:#3fcf9c}.c3{color:#f29ad2}
.c4{color:#e3c04a}.c5{color:#8ad4ff}.c6{color:#b9a2ff}.c7{color:#b6bec8}
}";

/// A policy in the picture.
struct Entry<'a> {
    /// The number of the policy, from 1, in the order of the command line.
    number: usize,
    label: &'a str,
    /// The cost relative to that of the first policy, without and with recalls.
    times: f64,
    with_recalls: f64,
    /// Missed identifiers, spans and calls, in percent.
    missed: [f64; 3],
}

/// Returns the picture as a self-contained SVG document.
pub(super) fn svg(totals: &[(&str, &Report)]) -> String {
    let entries = entries(totals);
    let first = totals.first().map_or("", |&(label, _)| label);
    let bottom = TOP + PLOT.1 + 92.0;
    let height = entries.iter().fold(bottom + ROW + 12.0, |height, _| height + ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>What policies cost, and what they miss</title>\n<style>\n{STYLE}\n</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    text(&mut svg, "title", (16.0, 26.0), "What policies cost, and what they miss");
    let costs = format!("cost with recalls, relative to the cost of 1 ({})", fitting(first, 420.0));
    for (index, title) in TITLES.iter().enumerate() {
        let left = (0..index).fold(LEFT, |left, _| left + STRIDE);
        let points: Vec<[f64; 2]> = entries.iter().filter_map(|entry| entry.point(index)).collect();
        text(&mut svg, "head", (left, TOP - 12.0), title);
        plot(&mut svg, (left, TOP), &entries, &points);
    }
    text(&mut svg, "middle", (WIDTH / 2.0, TOP + PLOT.1 + 38.0), &costs);
    let note = "Filled: no other policy costs at most as much and misses at most as much of what the plot shows.";
    text(&mut svg, "middle", (WIDTH / 2.0, TOP + PLOT.1 + 58.0), note);
    table(&mut svg, bottom, &entries);
    svg.push_str("</svg>\n");
    svg
}

fn entries<'a>(totals: &[(&'a str, &Report)]) -> Vec<Entry<'a>> {
    let base = totals.first().map_or(0.0, |(_, report)| report.cost);
    let times = |cost: f64| if base > 0.0 { cost / base } else { 0.0 };
    let entry = |(index, &(label, report)): (usize, &(&'a str, &Report))| {
        let missed = report.missed();
        Entry {
            number: index + 1,
            label,
            times: times(report.cost),
            with_recalls: times(report.cost_with_recalls()),
            missed: [missed.identifiers, missed.spans, missed.calls].map(|share| 100.0 * share),
        }
    };
    totals.iter().enumerate().map(entry).collect()
}

impl Entry<'_> {
    /// Returns its point in the plot with this index.
    fn point(&self, plot: usize) -> Option<[f64; 2]> {
        Some([self.with_recalls, *self.missed.get(plot)?])
    }

    /// Draws the policy's mark, with its label and figures as a tooltip.
    fn mark(&self, svg: &mut String, (x, y): (f64, f64), is_filled: bool) {
        let index = self.number - 1;
        let color = index % COLORS;
        let shape = SHAPES.get(index / COLORS % SHAPES.len()).copied().unwrap_or_default();
        let filled = if is_filled { "on" } else { "off" };
        let [identifiers, spans, calls] = self.missed;
        let figures = format!(
            "{}: {}: {:.2} with recalls; missed: {identifiers:.1} % of identifiers, {spans:.1} % of spans, in {calls:.1} \
             % of calls",
            self.number, self.label, self.with_recalls
        );
        let _ = writeln!(
            svg,
            "<g class=\"mark c{color} {filled}\" transform=\"translate({x:.1} {y:.1})\"><title>{}</title>\
             <path d=\"{shape}\"/></g>",
            escaped(&figures)
        );
    }
}

/// Draws one plot at an upper left corner: axes, the front, the marks and their numbers.
fn plot(svg: &mut String, (left, top): (f64, f64), entries: &[Entry<'_>], points: &[[f64; 2]]) {
    let (right, bottom) = (left + PLOT.0, top + PLOT.1);
    let costs = Axis::over(points.iter().map(|[cost, _]| *cost), (left, right));
    let missed = Axis::over(points.iter().map(|[_, missed]| *missed).chain([0.0]), (bottom, top));
    for tick in costs.ticks() {
        let x = costs.at(tick);
        line(svg, "grid", (x, top), (x, bottom));
        text(svg, "middle", (x, bottom + 16.0), &costs.written(tick));
    }
    for tick in missed.ticks() {
        let y = missed.at(tick);
        line(svg, "grid", (left, y), (right, y));
        text(svg, "end", (left - 6.0, y + 4.0), &missed.written(tick));
    }
    let on_front = front(points);
    let mut corners: Vec<(f64, f64)> =
        points.iter().zip(&on_front).filter(|(_, on)| **on).map(|([x, y], _)| (costs.at(*x), missed.at(*y))).collect();
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    step_line(svg, &corners, (right, top));
    let places: Vec<(f64, f64)> = points.iter().map(|[cost, share]| (costs.at(*cost), missed.at(*share))).collect();
    let numbers: Vec<String> = entries.iter().map(|entry| entry.number.to_string()).collect();
    let labels = labels(&places, &numbers, &Area { left, top, right, bottom });
    for (place, label) in places.iter().zip(&labels) {
        if let Some(label) = label.as_ref().filter(|label| label.is_away) {
            line(svg, "leader", *place, label.center);
        }
    }
    for ((entry, place), on) in entries.iter().zip(&places).zip(&on_front) {
        entry.mark(svg, *place, *on);
    }
    for (number, label) in numbers.iter().zip(&labels) {
        if let Some(label) = label {
            text(svg, "number middle", (label.center.0, label.center.1 + 4.0), number);
        }
    }
}

/// Draws the front, from the upper edge of the plot to its right edge. For every policy beyond it, one on it costs at
/// most as much and misses at most as much.
fn step_line(svg: &mut String, corners: &[(f64, f64)], (right, top): (f64, f64)) {
    let Some((x, _)) = corners.first() else { return };
    let mut path = format!("M{x:.1} {top:.1}");
    for (x, y) in corners {
        let _ = write!(path, "H{x:.1}V{y:.1}");
    }
    let _ = writeln!(svg, "<path class=\"front\" d=\"{path}H{right:.1}\"/>");
}

/// Draws the table of the policies' numbers, names and figures.
fn table(svg: &mut String, top: f64, entries: &[Entry<'_>]) {
    text(svg, "head", (48.0, top), "policy");
    for (right, name) in COLUMNS {
        text(svg, "head end", (right, top), name);
    }
    let mut y = top;
    for entry in entries {
        y += ROW;
        entry.mark(svg, (20.0, y - 4.0), true);
        text(svg, "end", (42.0, y), &entry.number.to_string());
        text(svg, "", (48.0, y), &fitting(entry.label, POLICY_WIDTH));
        let [identifiers, spans, calls] = entry.missed.map(|share| format!("{share:.1} %"));
        let figures = [format!("{:.2}", entry.times), format!("{:.2}", entry.with_recalls), identifiers, spans, calls];
        for ((right, _), figure) in COLUMNS.iter().zip(figures) {
            text(svg, "end", (*right, y), &figure);
        }
    }
}

/// An axis between two round numbers.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
    /// The coordinates of its ends in the picture.
    ends: (f64, f64),
}

impl Axis {
    /// Returns an axis that covers all values.
    fn over(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Axis {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 0.0) };
        // A single value gets an axis that extends beyond it.
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = round_step(high - low);
        Axis { low: (low / step).floor() * step, high: (high / step).ceil() * step, step, ends }
    }

    /// Returns the coordinate of a value in the picture.
    fn at(&self, value: f64) -> f64 {
        let (from, to) = self.ends;
        from + (value - self.low) / (self.high - self.low) * (to - from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (low, step, last) = (self.low, self.step, self.high + self.step / 2.0);
        (0..20).map(move |tick| low + f64::from(tick) * step).take_while(move |tick| *tick < last)
    }

    /// Returns a tick as text, with enough decimals to differ from the next tick.
    fn written(&self, tick: f64) -> String {
        let is_whole = |scale: &f64| ((self.step * scale).round() - self.step * scale).abs() < 1e-6;
        let decimals = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5].iter().position(is_whole).unwrap_or(6);
        format!("{tick:.decimals$}")
    }
}

/// Returns a step that gives an axis about five ticks: 1, 2 or 5 times a power of ten.
fn round_step(span: f64) -> f64 {
    let rough = span / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| rough <= factor * power * 1.000_001).unwrap_or(10.0);
    factor * power
}

/// A rectangle of the picture.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn around((x, y): (f64, f64), width: f64, height: f64) -> Area {
        Area { left: x - width / 2.0, top: y - height / 2.0, right: x + width / 2.0, bottom: y + height / 2.0 }
    }

    fn overlaps(&self, other: &Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(&self, other: &Area) -> bool {
        self.left >= other.left && self.right <= other.right && self.top >= other.top && self.bottom <= other.bottom
    }
}

/// The label of a mark: its number.
struct Label {
    center: (f64, f64),
    /// Whether it is far from its mark, so that a line must connect them.
    is_away: bool,
}

/// Places each number where it covers neither a mark nor another number: at the first free place on circles around its
/// mark. `None` if there is no free place; then only the table shows the number.
fn labels(places: &[(f64, f64)], numbers: &[String], within: &Area) -> Vec<Option<Label>> {
    const DIRECTIONS: i32 = 16;
    const CIRCLES: i32 = 12;
    let mut taken: Vec<Area> = places.iter().map(|place| Area::around(*place, 13.0, 13.0)).collect();
    let label = |((x, y), number): (&(f64, f64), &String)| {
        let width = number.chars().fold(2.0, |width, _| width + 7.0);
        let candidates = (0..CIRCLES).flat_map(|circle| (0..DIRECTIONS).map(move |direction| (circle, direction)));
        for (circle, direction) in candidates {
            let radius = 14.0 + 9.0 * f64::from(circle);
            let angle = TAU * f64::from(direction) / f64::from(DIRECTIONS);
            let center = (x + radius * angle.cos(), y - radius * angle.sin());
            let area = Area::around(center, width, 12.0);
            if area.is_within(within) && !taken.iter().any(|other| other.overlaps(&area)) {
                taken.push(area);
                return Some(Label { center, is_away: circle > 0 });
            }
        }
        None
    };
    places.iter().zip(numbers).map(label).collect()
}

fn text(svg: &mut String, class: &str, (x, y): (f64, f64), content: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(content));
}

fn line(svg: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

/// Returns the beginning of a text that fits a width, based on a cautious estimate of the widths of characters.
fn fitting(text: &str, width: f64) -> String {
    let mut left = width;
    let text = output::plain(text);
    for (at, c) in text.char_indices() {
        left -= if c.is_ascii() { 7.0 } else { 14.0 };
        if left < 0.0 {
            return format!("{}...", text.get(..at).unwrap_or_default());
        }
    }
    text
}

/// Escapes a text for XML. Replaces characters that XML does not allow by their escapes in messages, or by U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in output::plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cost: f64, identifiers: u64, spans: u64) -> Report {
        let mut report = Report::new("total", "policy");
        (report.calls, report.cost, report.recall_cost) = (100, cost, cost / 100.0);
        (report.reused_identifiers, report.missed_identifiers) = (100, identifiers);
        (report.copied_spans, report.missed_spans, report.missed_calls) = (100, spans, identifiers.max(spans));
        report
    }

    /// Returns the names of all elements. Panics unless each is closed by its own name and all quotes are paired.
    fn elements(svg: &str) -> Vec<String> {
        let (mut open, mut names) = (Vec::new(), Vec::new());
        let mut rest = svg;
        while let Some((text, after)) = rest.split_once('<') {
            assert!(!text.contains('>'), "{text}");
            assert!(text.split('&').skip(1).all(|entity| entity.contains(';')), "{text}");
            let (tag, after) = after.split_once('>').unwrap();
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let name = tag.split([' ', '/']).next().unwrap().to_owned();
            if !tag.ends_with('/') {
                open.push(name.clone());
            }
            names.push(name);
        }
        assert!(open.is_empty() && rest.trim().is_empty());
        names
    }

    #[test]
    fn a_policy_is_filled_where_it_is_on_the_front() {
        // The second misses fewer identifiers than the third and costs less, but it misses far more spans.
        let (none, names, both) = (report(4.0, 0, 0), report(1.0, 2, 60), report(2.0, 3, 5));
        let svg = svg(&[("none", &none), ("names", &names), ("both", &both)]);
        assert_eq!(elements(&svg).iter().filter(|name| *name == "g").count(), 3 * 3 + 3, "three plots and the table");
        let marks = |color: &str| {
            let classes = svg.split("class=\"mark ").skip(1).filter(|mark| mark.starts_with(color));
            classes.map(|mark| mark.split([' ', '"']).nth(1).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(marks("c0"), ["on", "on", "on", "on"]);
        assert_eq!(marks("c1"), ["on", "on", "on", "on"], "it is the cheapest");
        assert_eq!(marks("c2"), ["off", "on", "on", "on"], "another has more names for less, but fewer contents");
        assert!(svg.contains("prefers-color-scheme:dark") && !svg.contains("<script") && !svg.contains("url("));
    }

    #[test]
    fn hostile_labels_are_text() {
        let one = report(1.0, 1, 1);
        let label = "</title><script>alert(\"1\")</script>&amp;\u{0}\u{1b}[31m\u{ffff}\u{202e}";
        let svg = svg(&[(label, &one), ("x".repeat(5_000).as_str(), &one)]);
        let names = elements(&svg);
        assert!(!names.contains(&"script".to_owned()), "{names:?}");
        assert!(svg.contains("&lt;script&gt;") && svg.contains("&amp;amp;") && svg.contains("\\u001b[31m\u{fffd}"));
        assert!(!svg.contains(['\u{0}', '\u{1b}', '\u{202e}']));
        let longest = svg.lines().filter(|line| line.starts_with("<text")).map(str::len).max().unwrap();
        assert!(longest < 300, "{longest}");
    }

    #[test]
    fn an_axis_has_round_ticks_and_all_values() {
        let ticks = |values: &[f64]| {
            let axis = Axis::over(values.iter().copied(), (0.0, 100.0));
            assert!(values.iter().all(|value| (-1e-6..=100.000_001).contains(&axis.at(*value))), "{values:?}");
            axis.ticks().map(|tick| axis.written(tick)).collect::<Vec<_>>()
        };
        assert_eq!(ticks(&[0.31, 1.0]), ["0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(ticks(&[0.0, 13.7]), ["0", "5", "10", "15"]);
        assert_eq!(ticks(&[0.0, 0.07]), ["0.00", "0.02", "0.04", "0.06", "0.08"]);
        assert_eq!(ticks(&[0.0]), ["0.0", "0.5", "1.0"]);
        assert_eq!(ticks(&[]), ["0.0", "0.5", "1.0"]);
        for value in [1e-12, 0.5, 1.0, 7.0, 1e12] {
            assert!((2..=7).contains(&ticks(&[value]).len()), "{value}");
            assert!((2..=7).contains(&ticks(&[0.0, value]).len()), "{value}");
        }
    }

    #[test]
    fn numbers_cover_neither_marks_nor_each_other() {
        let within = Area { left: 0.0, top: 0.0, right: 250.0, bottom: 210.0 };
        // 24 marks crowded into a corner.
        let places: Vec<(f64, f64)> = (0..24).map(|at| (f64::from(at / 8) * 3.0, f64::from(at % 8))).collect();
        let numbers: Vec<String> = (1..=24).map(|number: i32| number.to_string()).collect();
        let labels = labels(&places, &numbers, &within);
        let areas: Vec<Area> = labels.iter().flatten().map(|label| Area::around(label.center, 9.0, 12.0)).collect();
        assert!(areas.len() >= 12, "{}", areas.len());
        for (index, area) in areas.iter().enumerate() {
            assert!(area.is_within(&within));
            assert!(!areas.iter().skip(index + 1).any(|other| other.overlaps(area)));
            assert!(!places.iter().any(|place| Area::around(*place, 13.0, 13.0).overlaps(area)));
        }
        assert!(labels.first().unwrap().is_some());
    }
}
