"""What readers do with the pages of a server: the overview, a growing session, other policies, facts, and changes."""

import re
import subprocess
import time
from urllib.parse import quote

import sessions
from lab import EXAMPLE, LONGEST, LOOKBACK, axe, go_to, must, rows_of
from playwright.sync_api import expect
from tests import CALLS, SESSION, loaded, median, money, must_show

ALL = []


def test(function):
    ALL.append(function)
    return function


def page_of(server, session):
    return f"{server}session?name={quote(session)}"


def names(page):
    """Returns the sessions of the overview in order."""
    # The list may still be loading.
    page.wait_for_load_state()
    return page.locator("table.sessions tbody a").all_inner_texts()


@test
def the_overview_is_sorted_filtered_and_searched(lab):
    lab.example(), lab.cut()
    page = lab.open(lab.served())
    begun = time.monotonic()
    while page.get_by_text("Figures are still being read").count():
        must(time.monotonic() - begun < LONGEST / 1000, "the figures are not read")
        page.reload()
    everyone = {f"replay/session{other}" for other in ["", "@none", "@messages"]} | {"replay/cut"}
    must(set(names(page)) >= everyone, f"{names(page)} are not all")
    page.get_by_role("link", name="cost", exact=True).click()
    expect(page.locator("th[aria-sort]")).to_have_text("cost")
    cost = {name: sum(of["cost"] for of in lab.calls(name)) for name in everyone}
    shown = [name for name in names(page) if name in cost]
    must(shown == sorted(cost, key=cost.get, reverse=True), f"{shown} are not sorted by {cost}")
    page.get_by_role("searchbox", name="name has").fill("@n")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**filter=*")
    must(names(page) == ["replay/session@none"], f"{names(page)} have the name")
    page.get_by_role("searchbox", name="words in messages and facts").fill("worse than the bug")
    page.get_by_role("button", name="Search").click()
    found = page.locator("ol.found a").first
    entry = re.search(r"entry (\d+)$", found.inner_text())[1]
    found.click()
    opened = page.locator("#rows > .row[open]")
    expect(opened.locator("summary")).to_be_focused()
    expect(opened.locator(".entry")).to_have_text(entry)
    expect(opened.locator(".body")).to_contain_text("worse than the bug")


@test
def a_served_page_shows_what_the_command_line_says(lab):
    lab.example()
    page = lab.open(page_of(lab.served(), SESSION), permissions=["clipboard-read", "clipboard-write"])
    for call in CALLS:
        go_to(page, call)
        must_show(lab, page, SESSION, call)
    for call in [38, 53]:
        go_to(page, call)
        page.get_by_role("button", name="Copy the request").click()
        expect(page.locator("#found")).to_have_text(f"the request of call {call} is copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        must(copied == f'{{"messages":{lab.sent(SESSION, call)}}}', f"the request of call {call} is another")
    cut = page.locator("#rows > .row.cleared").first
    cut.locator("summary").click()
    cut.get_by_role("button", name="Show the whole message").click()
    entry = int(cut.locator(".entry").inner_text())
    begins = lab.messages(SESSION)[entry]["content"].strip()[:60]
    expect(cut.locator(".body")).to_contain_text(begins)


@test
def what_a_server_does_not_answer_is_told_and_asked_for_again(lab):
    # The page does not contain all of this session's contents.
    lab.hostile()
    page = lab.open(page_of(lab.served(), "replay/hostile"))
    last = int(page.locator("#call").get_attribute("max"))
    refuse = lambda route: route.fulfill(status=409, body="the session has changed since the page was made\n")
    for path in ["**/part?*", "**/request?*"]:
        page.route(path, refuse)
    opened = page.locator("#rows > .row.sent").last
    opened.locator("summary").click()
    expect(opened.locator(".body")).to_have_text("the session has changed since the page was made")
    page.get_by_role("button", name="Copy the request").click()
    expect(page.locator("#found")).to_have_text("the session has changed since the page was made")
    page.get_by_role("searchbox", name="find").fill("onerror")
    expect(page.locator("#found")).to_have_text("the session has changed since the page was made")
    page.get_by_role("searchbox", name="find").fill("")
    page.unroute_all()
    go_to(page, 1)
    go_to(page, last)
    expect(opened.locator(".body > pre").first).to_be_visible()
    page.get_by_role("searchbox", name="find").fill("onerror")
    expect(page.locator("#found")).to_contain_text(re.compile("found in [1-9]"))
    # The console reports each request that was refused.
    page.faults[:] = [fault for fault in page.faults if " 409 " not in fault]


@test
def the_search_of_a_served_page_reads_whole_messages(lab):
    lab.example()
    page = lab.open(page_of(lab.served(), SESSION))
    go_to(page, 70)
    page.get_by_role("searchbox", name="find").fill("late_results")
    expect(page.locator("#found")).to_contain_text(re.compile(r"found in \d+ of \d+"))
    there = {of["entry"] for of in lab.rows(SESSION, 70)}
    wanted = {entry for entry, message in lab.messages(SESSION).items() if "late_results" in str(message).lower()}
    shown = {of["entry"] for of in rows_of(page) if of["isVisible"] and of["role"] not in ["index", "repair"]}
    must(shown == wanted & there, f"{sorted(shown ^ (wanted & there))} are wrong")


@test
def without_a_script_a_served_page_can_be_read_at_any_call(lab):
    file = lab.folder / "short.jsonl"
    file.write_text("\n".join(EXAMPLE.read_text().splitlines()[:21]))
    sessions.live(file, "short", lab.store)
    page = lab.open(page_of(lab.served(), "short"), java_script_enabled=False)
    last = int(page.locator("#call").get_attribute("max"))
    page.get_by_role("link", name="the call before").click()
    expect(page.locator("#told")).to_contain_text(f"Call {last - 1} of")
    link = page.locator("table.calls a").first
    call = int(re.search(r"call=(\d+)", link.get_attribute("href"))[1])
    link.click()
    expect(page.locator("#told")).to_contain_text(f"Call {call} of")
    opened = page.locator("#rows > .row.user").first
    opened.locator("summary").click()
    expect(opened.locator(".body")).to_contain_text(lab.messages("short")[1]["content"].strip()[:60])


@test
def a_policy_is_tried_out_and_copied(lab):
    lab.example(), lab.cut()
    page = lab.open(page_of(lab.served(), SESSION), permissions=["clipboard-read", "clipboard-write"])
    policy = page.locator("#policy")
    policy.fill("tokens:max_tokens=16000,target_tokens=8000")
    page.get_by_role("button", name="Replay the session under this policy").click()
    expect(page.locator("#what-if tbody tr")).to_have_count(2)
    page.wait_for_load_state()
    line = page.locator("#what-if tbody tr").last.inner_text()
    calls = lab.calls("replay/cut")
    for number in [sum(of["sent_tokens"] for of in calls), max(of["sent_tokens"] for of in calls)]:
        must(f"{number:,}" in line, f"{number:,} is not in {line!r}")
    must(money(sum(of["cost"] for of in calls)) in line, f"the cost is not in {line!r}")
    boxes = [picture.bounding_box() for picture in page.locator("#what-if svg.picture").all()]
    must(len(boxes) == 2 and boxes[0]["y"] == boxes[1]["y"], f"the pictures do not stand beside each other: {boxes}")
    page.get_by_text("The policy as TOML").click()
    page.get_by_role("button", name="Copy the policy").click()
    expect(page.locator("#copied")).to_have_text("copied")
    toml = page.evaluate("navigator.clipboard.readText()")
    # The copied text is a policy that the program reads and replays in the same way.
    file = lab.folder / "tried.toml"
    file.write_text(toml)
    (lab.folder / "tried.jsonl").write_text(EXAMPLE.read_text())
    lab.lookback("replay", str(lab.folder / "tried.jsonl"), "--policy", str(file))
    must(lab.calls("replay/tried") == calls, "the policy is another")
    policy.fill("tokens:max_token=1")
    page.get_by_role("button", name="Replay the session under this policy").click()
    expect(page.get_by_role("alert")).to_contain_text("max_token")
    must(policy.input_value() == "tokens:max_token=1", "what was typed is lost")


@test
def a_page_says_when_its_session_goes_on_and_can_follow_it(lab):
    lines = EXAMPLE.read_text().splitlines()
    file = lab.folder / "live.jsonl"

    def go_on(until):
        file.write_text("\n".join(lines[go_on.told : until]))
        go_on.told = until
        sessions.live(file, "live", lab.store)

    go_on.told = 0
    go_on(9)
    page = lab.open(page_of(lab.served(), "live"))
    before = int(page.locator("#call").get_attribute("max"))
    expect(page.locator("#grown")).to_be_empty()
    go_on(15)
    expect(page.locator("#grown")).to_contain_text("the session has changed")
    must(int(page.locator("#call").get_attribute("max")) == before, "the page changed unasked")
    page.get_by_role("button", name="show it as it is now").click()
    now = len(json_lines(lab, "live"))
    must(now > before, "no call was made")
    expect(page.locator("#told")).to_contain_text(f"Call {now} of {now} sent")
    page.get_by_label("follow the session").check()
    go_on(21)
    now = len(json_lines(lab, "live"))
    expect(page.locator("#told")).to_contain_text(f"Call {now} of {now} sent")
    expect(page.get_by_label("follow the session")).to_be_checked()
    # A reader who looks at an older call stays there.
    go_to(page, 2)
    go_on(27)
    later = len(json_lines(lab, "live"))
    expect(page.locator("#told")).to_contain_text(f"Call 2 of {later} sent")


def json_lines(lab, session):
    """Returns the calls of a growing session."""
    return lab.lookback("sessions", "calls", session, "--json").splitlines()[:-1]


@test
def facts_are_shown_as_they_stood_at_a_call(lab):
    lines = EXAMPLE.read_text().splitlines()
    file = lab.folder / "facts.jsonl"
    for part, says in [(lines[:9], "It listens on port 5050."), (lines[9:15], "It listens on port 6060."), (lines[15:21], None)]:
        file.write_text("\n".join(part))
        sessions.live(file, "facts", lab.store)
        if says:
            lab.lookback("facts", "add", "--session", "facts", "finding", says)
    page = lab.open(page_of(lab.served(), "facts"))
    old = page.locator("#facts tbody tr", has_text="5050").last
    new = page.locator("#facts tbody tr", has_text="6060").first
    first, second = int(old.get_attribute("data-from")), int(new.get_attribute("data-from"))
    must(1 < first < second, f"the facts came at {first} and {second}")
    must(int(old.get_attribute("data-until")) == second, "the one did not end when the other came")
    for call, known in [(first - 1, []), (first, ["5050"]), (second - 1, ["5050"]), (second, ["6060"])]:
        go_to(page, call)
        expect(page.locator("#known")).to_have_text(f"{len(known)} of 2 were known at call {call}.")
        shown = page.locator("#facts tbody tr:not(.gone)").all_inner_texts()
        must(all(of in "".join(shown) for of in known) and len(shown) == len(known), f"call {call} shows {shown}")


@test
def a_change_is_asked_for_twice(lab):
    file = lab.folder / "changed.jsonl"
    sessions.write(file, [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}])
    sessions.live(file, "changed", lab.store)
    for kind, says in [("decision", "The store is SQLite."), ("blocker", "The tests are red.")]:
        lab.lookback("facts", "add", "--session", "changed", kind, says)
    facts = lambda: len(lab.lookback("facts", "list", "--session", "changed", "--json").splitlines())
    page = lab.open(page_of(lab.served(), "changed"))
    must(page.get_by_role("link", name=re.compile("forget|resolve|Delete")).count() == 0, "anybody may change facts")
    page = lab.open(page_of(lab.served("--edit"), "changed"))
    row = page.locator("#facts tbody tr", has_text="SQLite").first
    row.get_by_role("link", name="forget…").click()
    expect(page.locator("blockquote")).to_have_text("The store is SQLite.")
    page.get_by_role("link", name="Change nothing").click()
    must(facts() == 2, "a fact is gone unasked")
    row.get_by_role("link", name="forget…").click()
    page.get_by_label("why").fill("it is Postgres")
    page.get_by_role("button", name="Forget the fact").click()
    expect(row.get_by_text("forgot it")).to_have_count(1)
    must(facts() == 1, "the fact is still there")
    blocker = page.locator("#facts tbody tr", has_text="red").first
    blocker.get_by_role("link", name="resolve…").click()
    page.get_by_label("what resolved it").fill("they are green")
    page.get_by_role("button", name="Resolve the blocker").click()
    expect(page.locator("#facts tbody tr.gone", has_text="red")).to_have_count(1)
    must(facts() == 0, "the blocker is still there")
    page.get_by_role("link", name="Delete this session…").click()
    expect(page.locator("main")).to_contain_text("This cannot be undone.")
    page.get_by_role("button", name="Delete the session").click()
    expect(page.get_by_role("heading", name="All sessions")).to_be_visible()
    must("changed" not in names(page), "the session is still there")


@test
def the_pages_of_a_server_are_accessible(lab):
    lab.example()
    server = lab.served("--edit")
    for address in [server, f"{server}?words=cache", page_of(server, SESSION), f"{page_of(server, SESSION)}&policy=none",
                    f"{server}edit?name={quote(SESSION)}&change=delete"]:
        for looks in [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"width": 390, "height": 844}]:
            page = lab.open(address, **looks)
            serious = [line for impact, line in axe(page) if impact in ["serious", "critical"]]
            must(not serious, f"{address}, {looks}: {serious}")


@test
def without_a_token_nobody_looks_and_with_it_a_browser_keeps_it(lab):
    lab.example()
    server = subprocess.Popen(
        [LOOKBACK, "inspect", lab.store, "--http", "127.0.0.1:0", "--token-env", "SECRET"],
        stderr=subprocess.PIPE, text=True, env={"SECRET": "a-token-that-nobody-guesses"},
    )
    lab.servers.append(server)
    address = server.stderr.readline().split()[1].split("?")[0]
    page = lab.open(f"{address}?token=a-token-that-nobody-guesses")
    must("token" not in page.url, f"the address is {page.url}")
    page.get_by_role("link", name=SESSION, exact=True).click()
    expect(page.locator("#told")).to_contain_text("Call 78 of 78 sent")
    must(page.request.get(address).status == 200 and page.request.get(address, headers={"cookie": ""}).status == 401, "")


@test
def ten_thousand_messages_are_served_quickly(lab):
    lab.large()
    page, loads, ready = loaded(lab, page_of(lab.served(), "large"))
    must_show(lab, page, "large", 5000)
    must(len(rows_of(page)) > 10_000, "rows are missing")
    # The search also reads contents that the page does not contain.
    texts = {entry: str(message.get("content") or "") for entry, message in lab.messages("large").items()}
    longest = max(texts, key=lambda entry: len(texts[entry]))
    page.get_by_role("searchbox", name="find").fill(" ".join(texts[longest][-60:].split()[1:]))
    expect(page.locator("#found")).to_contain_text(re.compile("found in [1-9]"))
    must(any(of["entry"] == longest and of["isVisible"] for of in rows_of(page)), f"entry {longest} was not found")
    return f"load {loads[0]:.0f} ms, and {median(loads):.0f} ms when the server has read it; ready after {median(ready):.0f} ms"
