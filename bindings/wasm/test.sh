#!/usr/bin/env bash
# Builds the package of the engine for browsers, and tests it.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
rustup target list --installed 2>/dev/null | grep -q '^wasm32-unknown-unknown$' || rustup target add wasm32-unknown-unknown
./build.sh "$root/target/npm-wasm"
LOOKBACK_CORPUS=$root/corpus node --test tests/*.test.mjs
