#!/usr/bin/env bash
# Builds the package of the engine for browsers into a folder: `lookback.wasm`, which estimates tokens, and
# `lookback-exact.wasm`, which counts them.
#
#   bindings/wasm/build.sh FOLDER
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")"
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/wasm
mkdir -p "$out"
for kind in "lookback" "lookback-exact --features exact"; do
    read -r name features <<<"$kind"
    # shellcheck disable=SC2086
    cargo build --quiet --locked --profile wasm --target wasm32-unknown-unknown --target-dir "$target" $features
    cp "$target/wasm32-unknown-unknown/wasm/lookback_wasm.wasm" "$out/$name.wasm"
done
cp package/* ../../LICENSE-* "$out"
