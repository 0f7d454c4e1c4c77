//! Checks that `docs/reference/five-windows.md` matches the current output of the presets.

#[path = "../../examples/five_windows/page.rs"]
mod page;

#[test]
fn the_page_is_not_stale() {
    let page = page::page().unwrap_or_else(|fault| fault.to_string());
    let stale = "run `cargo run --release -p lookback-compat --example five_windows > docs/reference/five-windows.md`, and read what changed";
    assert!(page == include_str!("../../../../docs/reference/five-windows.md"), "{stale}\n{page}");
}
