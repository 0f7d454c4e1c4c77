//! Prints `docs/reference/five-windows.md`:
//! `cargo run --release -p lookback-compat --example five_windows > docs/reference/five-windows.md`.

#![allow(clippy::print_stdout, reason = "it writes to standard output")]

mod page;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", page::page()?);
    Ok(())
}
