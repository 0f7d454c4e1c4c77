//! The output of a command: results on standard output, everything else on standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub(crate) use lookback_content::text::{number, plain};
pub(crate) use lookback_replay::prices::money;
use serde::Serialize;

use crate::failure::Failure;

// Messages contain values from outside, such as roles, identifiers, names and paths. All of them are escaped here,
// including line breaks in messages of one line. So no value can imitate a line of Lookback or control the terminal.

/// Prints an error in one line.
pub(crate) fn error(what: &dyn Display) {
    say("error", AnsiColor::Red, &plain(&what.to_string()));
}

/// Prints an error that has several lines.
pub(crate) fn error_with_lines(what: &dyn Display) {
    say("error", AnsiColor::Red, &plain_lines(&what.to_string()));
}

/// Prints a warning in one line.
pub(crate) fn warning(what: &str) {
    say("warning", AnsiColor::Yellow, &plain(what));
}

/// Prints an indented line that adds to the previous one.
pub(crate) fn note(what: &str) {
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(anstream::stderr(), "  {}", plain(what));
}

/// Prints one or more lines. Escape values with [`plain`] first if they may contain line breaks.
pub(crate) fn message(what: &str) {
    let _ = writeln!(anstream::stderr(), "{}", plain_lines(what));
}

fn say(label: &str, color: AnsiColor, what: &str) {
    let style = Style::new().bold().fg_color(Some(color.into()));
    let _ = writeln!(anstream::stderr(), "{style}{label}{style:#}: {what}");
}

/// Writes a result to standard output.
pub(crate) fn result(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    // On a terminal, the prompt must begin on a new line.
    if out.is_terminal() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes a result and a line break to standard output.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
}

/// Writes a value as a line of JSON.
pub(crate) fn json_line(value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    Ok(line(&json(value)?)?)
}

/// Returns a value as JSON on one line, without a final line break.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(Failure::Json)
}

/// Returns a table. Its columns are aligned to the right, except for those whose indices are in `left`.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    left: &[usize],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if left.contains(&index) {
            column.set_cell_alignment(CellAlignment::Left);
        } else {
            // Never wrap numbers.
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Hides columns of a table.
pub(crate) fn hide(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
}

/// Returns a table as text, without trailing spaces. On a terminal, wraps long cells to fit its width.
pub(crate) fn text_of(table: &Table) -> String {
    fitted(table, &[], width())
}

/// Returns a table as text, like [`text_of`]. If it is wider than the terminal, hides the columns in `spare` first, one
/// by one in this order.
pub(crate) fn text_without(table: &Table, spare: &[usize]) -> String {
    fitted(table, spare, width())
}

/// Returns the width of the terminal in columns. `None` if standard output is not a terminal.
fn width() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| terminal_size::terminal_size_of(out)).flatten();
    size.map(|(width, _)| usize::from(width.0))
}

fn fitted(table: &Table, spare: &[usize], width: Option<usize>) -> String {
    let mut table = table.clone();
    let is_wide =
        |table: &Table| width.is_some_and(|width| table.lines().any(|line| line.trim_end().chars().count() > width));
    for column in spare {
        if !is_wide(&table) {
            break;
        }
        hide(&mut table, &[*column]);
    }
    if let Some(width) = width
        && is_wide(&table)
    {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
        let widths = table.column_max_content_widths();
        for (column, widest) in table.column_iter_mut().zip(widths).filter(|(column, _)| column.constraint().is_none())
        {
            // Text columns wrap, but keep room for a word or two.
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(widest.saturating_add(2).min(18))));
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Writes a table to standard output, with a bold header if the terminal supports it.
pub(crate) fn rows(text: &str) -> io::Result<()> {
    let (header, rest) = text.split_once('\n').unwrap_or((text, ""));
    let style = Style::new().bold();
    let mut out = anstream::stdout().lock();
    writeln!(out, "{style}{header}{style:#}")?;
    if rest.is_empty() { Ok(()) } else { writeln!(out, "{rest}") }
}

/// Escapes each line of a text that may have several lines.
fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Quotes a word for a shell, if needed.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@=,+%".contains(c);
    if word.starts_with(|c: char| c != '-') && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns a progress bar on standard error. It is invisible if that is not a terminal.
pub(crate) fn progress(length: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns a number with its noun, such as `1 fact` or `2 facts`.
pub(crate) fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { more })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_the_width_that_there_is() {
        let words = "a rather long note of what happened at a call, in many words".to_owned();
        let rows = [["1,234".to_owned(), "5,678,901".to_owned(), words]];
        let table = table(["call", "tokens sent", "what happened"], &[2], rows);
        let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        let whole = fitted(&table, &[0], None);
        assert!(longest(&whole) > 80 && whole.lines().count() == 2);
        assert_eq!(fitted(&table, &[0], Some(200)), whole);
        let without = fitted(&table, &[0], Some(80));
        assert!(!without.contains("1,234") && without.contains("5,678,901") && longest(&without) <= 80, "{without}");
        let wrapped = fitted(&table, &[], Some(50));
        assert!(wrapped.contains("1,234") && wrapped.contains("5,678,901") && longest(&wrapped) <= 50, "{wrapped}");
        let all: String = wrapped.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(all.contains("long") && all.contains("many words"), "nothing of it is cut off: {wrapped}");
    }
}
