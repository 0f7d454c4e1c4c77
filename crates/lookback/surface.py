#!/usr/bin/env python3
"""Counts the public names, and holds the facade's to the list in `surface.txt`.

    python3 crates/lookback/surface.py            # after a change: shows what is new or gone
    python3 crates/lookback/surface.py --accept   # writes the list

The list has each name of the facade, with the methods and constants behind it. The sum over the published crates counts
fields and variants, too, as the lines of `cargo public-api -sss` do, without implementations of traits. Items that are
hidden from the documentation do not count.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("surface.txt")
MOST_NAMES, MOST_AT_ROOT, MOST_WITH_METHODS, MOST_OF_SESSION, MOST_IN_ALL = 160, 25, 600, 30, 2725
NOT_PUBLISHED = {"stand-in"}


def documentation() -> dict[str, dict]:
    """The documentation of each crate, as JSON. Only rustdoc is told to do what is unstable."""
    target = ROOT / "target" / "surface"
    target.mkdir(parents=True, exist_ok=True)
    rustdoc = target / "rustdoc"
    rustdoc.write_text('#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc -Z unstable-options --output-format json "$@"\n')
    rustdoc.chmod(0o755)
    names = sorted(path.parent.name for path in ROOT.glob("crates/*/Cargo.toml") if path.parent.name not in NOT_PUBLISHED)
    packages = [name if name == "lookback" else f"lookback-{name}" for name in names]
    command = ["cargo", "doc", "--lib", "--no-deps", "--all-features", "--locked", "--quiet"]
    for package in packages:
        command += ["-p", package]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "RUSTDOC": str(rustdoc), "RUSTDOCFLAGS": ""})
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "doc"
    crates = (package.replace("-", "_") for package in packages)
    return {crate: json.loads((folder / f"{crate}.json").read_text()) for crate in crates}


class Crate:
    def __init__(self, name: str, document: dict):
        self.name, self.index, self.paths, self.root = name, document["index"], document["paths"], str(document["root"])
        self.by_path = {"::".join(path["path"]): id for id, path in self.paths.items() if path["crate_id"] == 0}

    def item(self, id) -> dict | None:
        return self.index.get(str(id))

    def methods(self, id) -> list[str]:
        """The methods and constants of a type, or what a trait asks for."""
        kind, inner = next(iter(self.item(id)["inner"].items()))
        members = list(inner["items"]) if kind == "trait" else []
        for implementation in inner.get("impls", []) if isinstance(inner, dict) else []:
            found = self.item(implementation)["inner"]["impl"]
            if found["trait"] is None:
                members += [member for member in found["items"] if self.item(member)["visibility"] == "public"]
        return sorted(self.item(member)["name"] for member in members)

    def parts(self, id) -> int:
        """The public fields and the variants of a type, and the fields of the variants."""
        kind, inner = next(iter(self.item(id)["inner"].items()))
        if kind == "struct":
            return sum(self.is_field(field) for field in fields(inner["kind"]))
        if kind == "enum":
            return sum(1 + len(named(self.item(variant)["inner"]["variant"]["kind"])) for variant in inner["variants"])
        return 0

    def is_field(self, id) -> bool:
        return id is not None and self.item(id) is not None and self.item(id)["visibility"] == "public"


def fields(kind) -> list:
    return (kind.get("plain") or {}).get("fields") or kind.get("tuple") or [] if isinstance(kind, dict) else []


def named(kind) -> list:
    return kind.get("struct", {}).get("fields", []) if isinstance(kind, dict) else []


def names(crates: dict[str, Crate], crate: Crate, module, path: str):
    """The public names of a module: path, crate, identifier, and whether the item is another crate's."""
    for id in crate.item(module)["inner"]["module"]["items"]:
        item = crate.item(id)
        if item is None or item["visibility"] != "public":
            continue
        kind, inner = next(iter(item["inner"].items()))
        if kind == "module":
            yield f"{path}::{item['name']}", crate, id, False
            yield from names(crates, crate, id, f"{path}::{item['name']}")
        elif kind != "use":
            yield f"{path}::{item['name']}", crate, id, False
        else:
            yield from used(crates, crate, inner, path)


def used(crates: dict[str, Crate], crate: Crate, use: dict, path: str):
    """The names that `pub use` brings."""
    owner, id = crate, use["id"]
    if owner.item(id) is None:
        found = owner.paths.get(str(id))
        owner = crates.get(found["path"][0]) if found else None
        id = owner.by_path.get("::".join(found["path"])) if owner else None
    here = path if use["is_glob"] else f"{path}::{use['name']}"
    if owner is None or id is None:
        yield here, None, None, True
        return
    kind = next(iter(owner.item(id)["inner"]))
    if not use["is_glob"]:
        yield here, owner, id, owner is not crate
    if kind == "module":
        yield from names(crates, owner, id, here)


def main() -> None:
    crates = {name: Crate(name, document) for name, document in documentation().items()}
    lines, found_names, root, session = [], 0, 0, 0
    facade = crates["lookback"]
    for path, owner, id, _ in sorted(names(crates, facade, facade.root, "lookback"), key=lambda name: name[0]):
        found_names += 1
        root += path.count("::") == 1
        lines.append(path)
        is_module = owner is not None and "module" in owner.item(id)["inner"]
        methods = owner.methods(id) if owner is not None and not is_module else []
        if path == "lookback::Session":
            session = len(methods)
        lines += [f"    {name}" for name in methods]
    total, each = 0, {}
    for name, crate in crates.items():
        found = 1
        for _, owner, id, is_foreign in names(crates, crate, crate.root, name):
            found += 1
            if owner is not None and not is_foreign and "module" not in owner.item(id)["inner"]:
                found += len(owner.methods(id)) + owner.parts(id)
        each[name] = found
        total += found
    text = "".join(f"{line}\n" for line in lines)
    if "--accept" in sys.argv:
        LIST.write_text(text)
    print(f"lookback: {found_names} names, {root} at the root, {len(lines)} with methods, {session} of Session")
    print(f"all published crates: {total} ({', '.join(f'{name} {found}' for name, found in each.items())})")
    known = LIST.read_text().splitlines() if LIST.exists() else []
    for line in sorted(set(lines) - set(known)):
        print(f"new: {line}")
    for line in sorted(set(known) - set(lines)):
        print(f"gone: {line}")
    limits = [
        (found_names, MOST_NAMES),
        (root, MOST_AT_ROOT),
        (len(lines), MOST_WITH_METHODS),
        (session, MOST_OF_SESSION),
        (total, MOST_IN_ALL),
    ]
    if known != lines or any(count > most for count, most in limits):
        sys.exit("too many names, or others than in surface.txt: run it with --accept, and read what changed")


main()
