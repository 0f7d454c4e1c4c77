"""Takes the pictures of the documentation: the page of the recorded session in its main states.

    .venv/bin/python crates/inspector/tests/browser/pictures.py
"""

import sys
import tempfile

from lab import POLICIES, PROJECT, SMALL, Lab, at, go_to
from playwright.sync_api import expect
from run import bring_loopback_up, can_isolate, isolated

DOCS = PROJECT / "docs" / "images"


def save(page, name):
    """Writes a picture of the visible part of the page."""
    file = DOCS / name
    page.screenshot(path=file, animations="disabled")
    print(f"{file.relative_to(PROJECT)}: {file.stat().st_size / 1000:.0f} kB")


def top(lab):
    page = lab.open(lab.example(), "#call-53")
    at(page, 53)
    save(page, "inspector.png")


def messages(lab):
    """What is missing at a call, and a message of which the model saw little."""
    page = lab.open(lab.example(), color_scheme="dark", height=800)
    go_to(page, 70)
    page.locator("#rows > .run").first.click()
    cut = page.locator("#rows > .row.cleared").first
    cut.locator("summary").click()
    expect(cut.get_by_role("button", name="Show the whole message")).to_be_visible()
    page.locator("#rows > .row.gone").nth(-8).evaluate("row => row.scrollIntoView({ block: 'start' })")
    page.mouse.move(0, 0)
    save(page, "inspector-dark.png")


def policies(lab):
    page = lab.open(lab.example(), height=1180)
    page.locator("#what-if").evaluate("section => section.scrollIntoView()")
    save(page, "inspector-policies.png")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        bring_loopback_up()
        # The first has the policy of the commands in the pages. The second has one that drops messages.
        for POLICIES[0], pictures in [("default", [top, policies]), (SMALL, [messages])]:
            with tempfile.TemporaryDirectory(prefix="lookback-pages-") as folder, Lab(folder) as lab:
                for picture in pictures:
                    picture(lab)
                lab.close_pages()
    elif can_isolate():
        sys.exit(isolated("pictures.py", []))
