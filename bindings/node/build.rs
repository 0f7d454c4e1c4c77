//! Links the library as a Node addon.

fn main() {
    napi_build::setup();
}
