"""Tests of what readers do with a page. The command line's output about the same session is the truth."""

import re
from itertools import groupby

import sessions
from lab import Wrong, at, axe, go_to, must, rows_of
from playwright.sync_api import expect
from pypdf import PdfReader

ALL = []
# Calls before and after compactions, cache breaks and repairs.
CALLS = [1, 2, 37, 38, 39, 49, 53, 64, 65, 66, 73, 78]
SESSION = "replay/session"


def test(function):
    ALL.append(function)
    return function


def told(page):
    return page.locator("#told").inner_text()


def row(page, entry, role=None):
    """Returns the row of an entry. An index and the message that follows it may have the same entry."""
    rows = [of for of in rows_of(page) if of["entry"] == entry and role in (None, of["role"])]
    must(rows, f"no row has the entry {entry}")
    return page.locator(f"#{rows[0]['id']}")


def must_show(lab, page, session, call):
    """Checks that the page shows each message as the command line reports it for this call."""
    truth = {(of["entry"], of.get("kind", of["role"])): of for of in lab.rows(session, call)}
    shown = {(of["entry"], of["role"]): of for of in rows_of(page)}
    sent = {key for key, of in truth.items() if of["sent"]}
    must({key for key, of in shown.items() if of["is"] == "sent"} == sent, f"call {call} does not show what was sent")
    gone = {key for key, of in truth.items() if not of["sent"]}
    must({key for key, of in shown.items() if of["is"] == "gone"} == gone, f"call {call} does not show what is missing")
    for key, of in truth.items():
        page_says, since = shown[key], "" if of["sent"] else f" at call {of['since']}"
        wanted = (of["fate"], f"{of['fate']}{since}: {of['why']}", of["sent_tokens"] if of["sent"] else of["tokens"])
        says = (page_says["fate"], page_says["why"], page_says["tokens"])
        must(says == wanted, f"call {call}, {key}: {says} and not {wanted}")
        must(page_says["isVisible"] or not of["sent"], f"call {call} hides {key}, which was sent")
    hidden = [of["entry"] for of in shown.values() if of["is"] == "later" and of["isVisible"]]
    must(not hidden, f"call {call} shows what came later: {hidden}")
    receipt = lab.calls(session)[call - 1]
    for number in [f"Call {call} of", f"{receipt['sent_tokens']:,} tokens", f"in {receipt['messages']} messages"]:
        must(number in told(page), f"call {call}: {number} is not in {told(page)!r}")


def money(dollars):
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"


def open_all(page):
    """Opens all messages of the call, including those in runs of missing messages."""
    closed = page.locator("#rows > .run[aria-expanded=false]")
    while closed.count():
        closed.first.click()
    if page.get_by_role("button", name="Close all").count():
        page.get_by_role("button", name="Close all").click()
    page.get_by_role("button", name="Open all").click()
    expect(page.locator("#rows > .row[open]:not(:has(> .body > *))")).to_have_count(0)


def column(page, call, calls):
    """Returns whether the picture marks a call."""
    x = float(page.locator(".cursor").get_attribute("x"))
    left = float(page.locator("#picture svg").get_attribute("data-left"))
    return abs(x - (left + (1000 - left) * (call - 1) / calls)) < 0.2


@test
def a_page_shows_at_each_call_what_the_command_line_says_of_it(lab):
    page = lab.open(lab.example())
    at(page, 78)
    for call in CALLS:
        go_to(page, call)
        must_show(lab, page, SESSION, call)
        must(column(page, call, 78), f"the picture does not mark call {call}")
    page = lab.open(lab.cut())
    last = len(lab.calls("replay/cut"))
    for call in [last, last // 2, last // 3]:
        go_to(page, call)
        must_show(lab, page, "replay/cut", call)
    return f"{len(CALLS) + 3} calls"


@test
def the_slider_and_its_buttons_move_the_call(lab):
    page = lab.open(lab.example())
    page.get_by_role("button", name="‹").click()
    at(page, 77)
    page.get_by_role("button", name="‹").click(click_count=3)
    at(page, 74)
    page.get_by_role("button", name="›").click()
    at(page, 75)
    slider = page.get_by_role("slider", name="call")
    slider.focus()
    page.keyboard.press("Home")
    at(page, 1)
    page.keyboard.press("ArrowRight")
    at(page, 2)
    page.get_by_role("button", name="‹").click(click_count=3)
    at(page, 1)
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#at")).to_have_text(re.compile("^(39|40)$"))
    must_show(lab, page, SESSION, int(page.locator("#at").inner_text()))


@test
def the_buttons_for_events_stop_at_compactions_breaks_and_missed_names(lab):
    page = lab.open(lab.example())
    by_calls = {of["call"] for of in lab.calls(SESSION) if of["compacted"] or of["prefix_break"] or of["cold"]}
    forth, back = page.get_by_role("button", name="event »"), page.get_by_role("button", name="« event")
    go_to(page, 1)
    seen = []
    while True:
        before = page.locator("#at").inner_text()
        forth.click()
        page.wait_for_function("() => !waits")
        now = page.locator("#at").inner_text()
        if now == before:
            break
        must("\n" in told(page), f"nothing happened at call {now}")
        seen.append(int(now))
    must(by_calls <= set(seen), f"{seen} is not all of {by_calls}")
    names = [call for call in seen if call not in by_calls]
    for call in names:
        go_to(page, call)
        must("used names that had left" in told(page), f"nothing happened at call {call}")
    must(names, "no missed name is an event")
    go_to(page, 78)
    for call in reversed(seen):
        back.click()
        at(page, call)
    return f"{len(seen)} events"


@test
def a_compaction_by_the_client_is_an_event_with_what_it_dropped(lab):
    for looks in [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"width": 390, "height": 844}]:
        page = lab.open(lab.compacted(), **looks)
        go_to(page, 1)
        page.get_by_role("button", name="event »").click()
        at(page, 4)
        lines = " ".join(told(page).split())
        for words in [
            "the client replaced 6 messages by what begins with message 6",
            "<b>Never</b> push to main. (message 0)",
            "Shall I replace the whistle by a lamp? – Yes, a red one. (message 2)",
            "Files that it no longer saw: src/boil.rs (message 1, used later), src/lamp.rs (message 3).",
            "Numbers that it no longer saw: 5050 (message 1).",
        ]:
            must(words in lines, f"{words!r} is not in {lines!r}")
        must(page.locator("#picture line.by-client").count() == 1, "the picture does not mark it")
        expect(page.locator("table.calls")).to_contain_text("compacted by the client")
        page.locator("#told").get_by_role("link", name="message 2").click()
        expect(row(page, 2)).to_be_in_viewport()
        serious = [line for impact, line in axe(page) if impact in ["serious", "critical"]]
        must(not serious, f"{looks}: {serious}")
        wide = page.evaluate("document.documentElement.scrollWidth")
        must(wide <= looks.get("width", 1280), f"{looks}: the page is {wide} wide")


@test
def a_click_in_the_picture_moves_to_its_call(lab):
    page = lab.open(lab.example())
    picture = page.locator("#picture svg")
    for call in [1, 53, 78]:
        box, left = picture.bounding_box(), float(picture.get_attribute("data-left"))
        x = (left + (1000 - left) * (call - 0.5) / 78) / 1000 * box["width"]
        picture.click(position={"x": x, "y": box["height"] / 2})
        at(page, call)
        must(column(page, call, 78), f"the picture does not mark call {call}")
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 50, steps=5)
    page.mouse.up()
    at(page, 21)


@test
def arrow_keys_move_the_call_wherever_one_does_not_write(lab):
    page = lab.open(lab.example())
    page.keyboard.press("ArrowLeft")
    at(page, 77)
    page.locator("#rows .sent > summary").first.focus()
    page.keyboard.press("ArrowLeft")
    at(page, 76)
    page.locator("#changed").focus()
    page.keyboard.press("ArrowRight")
    at(page, 77)
    page.get_by_role("searchbox", name="find").fill("ab")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => !waits")
    at(page, 77)


@test
def the_address_names_the_call_and_leads_to_it(lab):
    page = lab.open(lab.example(), "#call-53")
    at(page, 53)
    go_to(page, 54)
    page.wait_for_url("**#call-54")
    page.evaluate("location.hash = '#call-12'")
    at(page, 12)
    page.locator("table.calls a").nth(1).click()
    at(page, 38)
    expect(page.locator("#call-title")).to_be_in_viewport()


@test
def a_run_of_missing_messages_is_one_line_and_opens(lab):
    page = lab.open(lab.example())
    go_to(page, 70)
    runs = [len(list(run)) for sent, run in groupby(lab.rows(SESSION, 70), lambda of: of["sent"]) if not sent]
    # A single message is a line by itself.
    alone = runs.count(1)
    bars = page.locator("#rows > .run")
    counts = [int(re.match(r"(\d+) messages are missing here", text)[1]) for text in bars.all_inner_texts()]
    must(counts == [run for run in runs if run > 1], f"{counts} are missing, and not {runs}")
    gone = lambda: sum(of["is"] == "gone" and of["isVisible"] for of in rows_of(page))
    must(gone() == alone, f"{gone()} missing messages are shown unasked, and not {alone}")
    bar = bars.first
    expect(bar).to_have_attribute("aria-expanded", "false")
    bar.click()
    expect(bar).to_have_attribute("aria-expanded", "true")
    must(gone() == alone + counts[0], f"{gone()} are shown, and not {alone + counts[0]}")
    # The run stays open at other calls, and can be closed.
    go_to(page, 71)
    must(gone() > alone, "the run closed by itself")
    bar.focus()
    page.keyboard.press("Enter")
    must(gone() == alone, "the run does not close")


@test
def a_message_opens_with_its_whole_text_and_with_what_was_sent_of_it(lab):
    page = lab.open(lab.example())
    truth = lab.rows(SESSION, 53)
    whole = {entry: text_of(message) for entry, message in lab.messages(SESSION).items()}
    kinds = set()
    for of in truth:
        if of.get("kind") or of["fate"] in kinds or not whole.get(of["entry"]):
            continue
        go_to(page, 53)
        opened = row(page, of["entry"])
        if not opened.is_visible():
            # It is in a closed run of missing messages.
            continue
        kinds.add(of["fate"])
        opened.locator("summary").click()
        expect(opened.locator(".why")).to_contain_text(of["why"])
        body = opened.locator(".body")
        begins, is_cut = whole[of["entry"]].strip()[:60], of["fate"] in ["cleared", "truncated"]
        if is_cut:
            expect(opened.get_by_role("button", name="Show the whole message")).to_be_visible()
            must(whole[of["entry"]] not in body.inner_text(), f"entry {of['entry']} is not cut")
            opened.get_by_role("button", name="Show the whole message").click()
            expect(opened.get_by_role("button", name="Show it as it was sent")).to_be_focused()
        expect(body).to_contain_text(begins)
        if body.get_by_role("button", name="Show all").count():
            body.get_by_role("button", name="Show all").click()
        must(squeezed(whole[of["entry"]]) in squeezed(body.inner_text()), f"entry {of['entry']} is not whole")
        if is_cut:
            opened.get_by_role("button", name="Show it as it was sent").click()
            expect(opened.get_by_role("button", name="Show the whole message")).to_be_focused()
            must(whole[of["entry"]] not in body.inner_text(), f"entry {of['entry']} is not cut again")
    must({"kept", "cleared", "truncated"} <= kinds, f"only {kinds} were opened")
    # An open message changes with the slider.
    before = {of["entry"]: of["fate"] for of in lab.rows(SESSION, 37)}
    cleared = next(of["entry"] for of in truth if of["fate"] == "cleared" and before.get(of["entry"]) == "kept")
    go_to(page, 37)
    expect(row(page, cleared).locator(".body > button")).to_have_count(0)
    body = row(page, cleared).locator(".body").text_content()
    must(squeezed(whole[cleared]) in squeezed(body), "it was whole at call 37")
    return ", ".join(sorted(kinds))


def text_of(message):
    """Returns the text of a message, if it is a single string."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


def squeezed(text):
    return "".join(text.split())


@test
def links_lead_from_calls_to_results_and_back(lab):
    page = lab.open(lab.example())
    go_to(page, 30)
    call = page.locator("#rows > .row.assistant.sent", has=page.locator(".call")).first
    call.locator("summary").click()
    call.get_by_role("link", name="to its result").first.click()
    result = page.locator("#rows > .row.tool[open]").first
    expect(result).to_be_in_viewport()
    expect(result.locator("summary")).to_be_focused()
    result.get_by_role("link", name="to its call").click()
    expect(call.locator("summary")).to_be_focused()
    # Goes to a result that comes later, which is shown nevertheless.
    go_to(page, 2)
    last = page.locator("#rows > .row.assistant.sent", has=page.locator(".call")).last
    last.locator("summary").click()
    go_to(page, 1)
    expect(last).to_be_hidden()
    page.evaluate("location.hash = '#r5'")
    expect(page.locator("#r5")).to_be_in_viewport()
    expect(page.locator("#r5 .why")).to_contain_text("comes at call")
    go_to(page, 2)
    go_to(page, 1)
    expect(page.locator("#r5")).to_be_hidden()


@test
def links_lead_to_where_a_missed_name_stood(lab):
    page = lab.open(lab.example())
    go_to(page, 1)
    for _ in range(20):
        page.get_by_role("button", name="event »").click()
        page.wait_for_function("() => !waits")
        if page.locator("#told .bad a").count():
            break
    link = page.locator("#told .bad a").first
    entry = int(link.inner_text().split()[-1])
    link.click()
    stood = row(page, entry)
    expect(stood).to_be_visible()
    expect(stood).to_be_in_viewport()
    expect(stood.locator("summary")).to_be_focused()
    name = page.locator("#told .bad code").first.inner_text()
    expect(stood.locator(".body")).to_contain_text(name)
    must(name in str(lab.messages(SESSION)[entry]), f"entry {entry} does not have {name}")
    return name


@test
def what_is_missing_can_be_hidden(lab):
    page = lab.open(lab.example())
    go_to(page, 70)
    expect(page.locator("#rows > .run").first).to_be_visible()
    page.get_by_label("what is missing").uncheck()
    visible = {of["is"] for of in rows_of(page) if of["isVisible"]}
    must(visible == {"sent"}, f"{visible} are shown")
    expect(page.locator("#rows > .run").first).to_be_hidden()
    page.get_by_label("what is missing").check()
    expect(page.locator("#rows > .run").first).to_be_visible()


@test
def what_differs_from_the_call_before_can_be_singled_out(lab):
    page = lab.open(lab.example())
    page.get_by_label("only what differs").check()
    for call in [2, 38, 49, 53, 65, 73]:
        go_to(page, call)
        wanted = {(of["entry"], of.get("kind", of["role"])) for of in lab.differences(SESSION, call - 1, call)}
        shown = {(of["entry"], of["role"]) for of in rows_of(page) if of["isVisible"]}
        must(shown == wanted, f"call {call}: {sorted(shown ^ wanted)} are wrong")
    page.get_by_label("only what differs").uncheck()
    must_show(lab, page, SESSION, 73)


@test
def the_search_finds_words_in_messages_also_in_those_that_are_missing(lab):
    page = lab.open(lab.example())
    go_to(page, 70)
    find, found = page.get_by_role("searchbox", name="find"), page.locator("#found")
    find.fill("late_results")
    expect(found).to_contain_text(re.compile(r"found in \d+ of \d+"))
    wanted = {entry for entry, message in lab.messages(SESSION).items() if "late_results" in str(message).lower()}
    shown = {of["entry"] for of in rows_of(page) if of["isVisible"] and of["role"] not in ["index", "repair"]}
    sent = {of["entry"] for of in lab.rows(SESSION, 70)}
    must(shown == wanted & sent, f"{sorted(shown ^ (wanted & sent))} are wrong")
    must(any(of["is"] == "gone" and of["isVisible"] for of in rows_of(page)), "no missing message was found")
    # An additional word finds fewer messages, and a number finds one.
    find.fill("late_results zzzz")
    expect(found).to_contain_text("found in 0 of")
    find.fill("#20")
    expect(found).to_contain_text("found in 1 of")
    must([of["entry"] for of in rows_of(page) if of["isVisible"]] == [20], "another message was found")
    find.fill("")
    expect(found).to_be_empty()
    expect(page.locator("#rows > .run").first).to_be_visible()


@test
def the_request_is_copied_byte_for_byte(lab):
    page = lab.open(lab.example(), permissions=["clipboard-read", "clipboard-write"])
    for call in [1, 38, 53, 78]:
        go_to(page, call)
        page.get_by_role("button", name="Copy the request").click()
        expect(page.locator("#found")).to_have_text(f"the request of call {call} is copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        must(copied == f'{{"messages":{lab.sent(SESSION, call)}}}', f"the request of call {call} is another")


@test
def without_permission_the_page_says_that_nothing_was_copied(lab):
    page = lab.open(lab.example())
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')) }")
    page.get_by_role("button", name="Copy the request").click()
    expect(page.locator("#found")).to_contain_text("does not allow it")


@test
def the_other_policies_stand_in_a_table_with_their_figures(lab):
    page = lab.open(lab.example())
    lines = page.locator("#what-if tbody tr").all_inner_texts()
    must(len(lines) == 3, f"{lines} are not three policies")
    for line, name in zip(lines, [SESSION, f"{SESSION}@none", f"{SESSION}@messages"]):
        calls = lab.calls(name)
        for number in [sum(of["sent_tokens"] for of in calls), max(of["sent_tokens"] for of in calls)]:
            must(f"{number:,}" in line, f"{number:,} is not in {line!r}")
        cost = sum(of["cost"] for of in calls)
        must(money(cost) in line, f"the cost {cost} is not in {line!r}")
        must(str(sum(of["compacted"] for of in calls)) in line.split(), f"the compactions are not in {line!r}")
    must(page.locator("#what-if svg").count() >= 2, "the other policies have no pictures")


@test
def all_that_is_shown_opens_and_closes_at_once(lab):
    page = lab.open(lab.example())
    go_to(page, 70)
    page.get_by_role("button", name="Open all").click()
    shown = sum(of["isVisible"] for of in rows_of(page))
    must(shown >= sum(of["sent"] for of in lab.rows(SESSION, 70)), "not all that was sent is shown")
    must(page.locator("#rows > .row[open]").count() == shown, "not all that is shown is open")
    page.get_by_role("button", name="Close all").click()
    expect(page.locator("#rows > .row[open]")).to_have_count(0)


@test
def without_a_script_the_page_can_be_read(lab):
    page = lab.open(lab.example(), java_script_enabled=False)
    expect(page.locator("#told")).to_contain_text("Call 78 of 78 sent")
    for control in [".slider", ".tools"]:
        expect(page.locator(control)).to_be_hidden()
    for of in lab.rows(SESSION, 78):
        shown = page.locator("#rows > .row", has=page.locator(f".entry:text-is('{of['entry']}')"))
        must(any(one.is_visible() for one in shown.all()), f"entry {of['entry']} is hidden")
    whole = lab.messages(SESSION)
    opened = page.locator("#rows > .row.user").first
    opened.locator("summary").click()
    must(squeezed(text_of(whole[1])) in squeezed(opened.inner_text()), "the first message cannot be read")
    gone = page.locator("#rows > .row.gone").first
    gone.locator("summary").click()
    expect(gone.locator(".why")).to_be_visible()
    expect(gone.locator(".body")).to_be_visible()
    expect(page.locator("#what-if table")).to_be_visible()


@test
def without_contents_a_page_has_sizes_and_reasons(lab):
    page = lab.open(lab.example("--no-contents"))
    for call in [38, 53, 78]:
        go_to(page, call)
        must_show(lab, page, SESSION, call)
    expect(page.get_by_role("button", name="Copy the request")).to_have_count(0)
    page.locator("#rows > .sent > summary").first.click()
    expect(page.locator("#rows > .sent .why").first).to_be_visible()


@test
def a_session_without_calls_has_a_page(lab):
    page = lab.open(lab.unused())
    expect(page.locator("#told")).to_contain_text("No call was made yet.")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="event »").click()


@test
def a_printed_page_has_all_messages_and_reasons(lab):
    page = lab.open(lab.example())
    go_to(page, 70)
    file = lab.folder / "printed.pdf"
    page.pdf(path=file, format="A4")
    text = squeezed("".join(sheet.extract_text() for sheet in PdfReader(file).pages))
    for of in lab.rows(SESSION, 70):
        if of["fate"] != "kept":
            since = "" if of["sent"] else f" at call {of['since']}"
            must(squeezed(f"{of['fate']}{since}: {of['why']}") in text, f"the reason of {of['entry']} is not printed")
    for entry in [of["entry"] for of in lab.rows(SESSION, 70)]:
        must(re.search(rf"{entry}(system|user|assistant|tool|index|repair)", text), f"entry {entry} is not printed")
    for part in ["Call 70 of 78 sent", "What another policy would have done", "All calls", "Made by Lookback"]:
        must(squeezed(part) in text, f"{part} is not printed")
    few = len(PdfReader(file).pages)
    # Open messages are printed completely.
    open_all(page)
    page.pdf(path=file, format="A4")
    text = squeezed("".join(sheet.extract_text() for sheet in PdfReader(file).pages))
    whole = lab.messages(SESSION)
    kept = [of["entry"] for of in lab.rows(SESSION, 70) if of["fate"] == "kept" and not of.get("kind")]
    for entry in kept:
        # The text that a PDF's page yields is not in reading order.
        lost = [word for word in text_of(whole[entry]).split() if word not in text]
        must(not lost, f"of entry {entry}, {lost} are not printed")
    return f"{few} pages, {len(PdfReader(file).pages)} with contents"


@test
def a_week_opens_down_to_the_call(lab):
    page = lab.open(lab.week())
    conversation = page.locator("details.conversation").first
    conversation.locator("summary").click()
    calls = conversation.locator("summary .tokens").first.inner_text()
    expect(conversation.locator("tbody tr")).to_have_count(int(calls.split()[0]))
    # A line of a table leads to the call behind its message.
    page.locator("section[aria-labelledby=compactions] tbody a").first.click()
    marked = page.locator("details.conversation[open] tr.this")
    expect(marked).to_have_count(1)
    expect(marked).to_be_in_viewport()
    for looks in [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"width": 390, "height": 844}]:
        page = lab.open(lab.week(), **looks)
        page.locator("details.conversation > summary").first.click()
        wide = page.evaluate("document.documentElement.scrollWidth")
        must(wide <= looks.get("width", 1280), f"{looks}: the page is {wide} wide")
        serious = [line for impact, line in axe(page) if impact in ["serious", "critical"]]
        must(not serious, f"{looks}: {serious}")


@test
def light_and_dark_follow_the_system(lab):
    colors = []
    for scheme in ["light", "dark"]:
        page = lab.open(lab.example(), color_scheme=scheme)
        colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    must(colors == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"], f"the colors are {colors}")


@test
def a_small_screen_does_not_scroll_sideways(lab):
    for width in [390, 320, 768]:
        page = lab.open(lab.example(), width=width, height=844, has_touch=True)
        for call in [78, 65, 53]:
            go_to(page, call)
            page.locator("#rows > .sent > summary").nth(5).click()
            wide = page.evaluate("document.documentElement.scrollWidth")
            must(wide <= width, f"at call {call} the page is {wide} wide on a screen of {width}")
    page = lab.open(lab.hostile(), width=390, height=844)
    open_all(page)
    wide = page.evaluate("document.documentElement.scrollWidth")
    must(wide <= 390, f"a hostile session is {wide} wide on a screen of 390")


@test
def the_checks_of_accessibility_find_nothing_serious(lab):
    lesser = set()
    for looks in [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"width": 390, "height": 844}]:
        page = lab.open(lab.example(), **looks)
        go_to(page, 67)
        page.locator("#rows > .run").first.click()
        for of in [".sent.kept", ".sent.cleared", ".sent.truncated", ".gone"]:
            page.locator(f"#rows > {of} > summary").first.click()
        expect(page.locator("#rows > .row[open]:not(:has(> .body > *))")).to_have_count(0)
        for found in [axe(page), axe_of_search(page)]:
            serious = [line for impact, line in found if impact in ["serious", "critical"]]
            must(not serious, f"{looks}: {serious}")
            lesser |= {line.split(":")[0] for _, line in found}
    return f"lesser: {', '.join(sorted(lesser)) or 'none'}"


def axe_of_search(page):
    page.get_by_role("searchbox", name="find").fill("view")
    expect(page.locator("#found")).to_contain_text("found in")
    return axe(page)


@test
def a_hostile_session_is_text_that_runs_and_loads_nothing(lab):
    page = lab.open(lab.hostile())
    must(page.title().endswith(" - Lookback"), f"the title is {page.title()}")
    last = page.locator("#call").get_attribute("max")
    for call in [last, "20", "1", last]:
        go_to(page, call)
        open_all(page)
    page.get_by_role("button", name=re.compile("^Show all 5,")).click()
    texts = page.locator("#rows > .row > .body").all_text_contents()
    for text in sessions.HOSTILE + list(sessions.UNSEEN.values()) + sessions.BROKEN:
        must(any(text in body for body in texts), f"{text} is not shown as it is")
    must(max(len(text) for text in texts) > sessions.LONG_LINE, "the long line is not whole")
    for unseen in "\u202e\u2066\u200b\x1b\0":
        must(not any(unseen in text for text in texts), f"{unseen!r} is not written out")
    must(page.evaluate("window.ran === undefined"), "something ran")
    own = page.evaluate("[...document.scripts].filter(one => !one.type.startsWith('application/')).length")
    must(own == 1, f"the page has {own} scripts")
    for element in ["iframe", "link", "base", "form", "object", "embed", "#rows svg", "meta[http-equiv=refresh]"]:
        must(page.locator(element).count() == 0, f"a message became {element}")
    links = page.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    must(all(link.startswith("#") for link in links), f"links lead elsewhere: {links}")
    # Only the picture whose bytes are in the log is shown.
    pictures = page.locator("img")
    expect(pictures).to_have_count(1)
    pictures.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('img').naturalWidth === 8")
    find = page.get_by_role("searchbox", name="find")
    find.fill("<iframe")
    expect(page.locator("#found")).to_contain_text(re.compile("found in [1-9]"))


FRAMES = """async calls => {
    const slider = document.querySelector('#call')
    const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))
    const times = []
    for (const call of calls) {
        slider.value = call
        const begun = performance.now()
        slider.dispatchEvent(new Event('input'))
        await frame()
        times.push(performance.now() - begun)
    }
    const idle = performance.now()
    await frame()
    return [...times, performance.now() - idle]
}"""
WORK = """calls => calls.map(call => {
    const begun = performance.now()
    show(call)
    document.body.offsetHeight
    return performance.now() - begun
})"""


# The times at which a page has loaded, and at which it has all rows and the slider moves.
LOADED = """async () => {
    while (document.querySelector('.slider').hidden) await new Promise(done => setTimeout(done, 1))
    return [performance.getEntriesByType('navigation')[0].loadEventEnd, performance.now()]
}"""


def loaded(lab, address):
    """Opens a page several times. Returns it, and each time at which it had loaded and at which it was ready."""
    times = []
    for _ in range(5):
        lab.close_pages()
        page = lab.open(address)
        times.append(page.evaluate(LOADED))
    return page, *zip(*times)


@test
def ten_thousand_messages_load_and_move_quickly(lab):
    file = lab.large()
    page, loads, ready = loaded(lab, file)
    steps, jumps = [5000 - at for at in range(1, 60)], [1 + at * 811 % 5000 for at in range(60)]
    *frames, idle = page.evaluate(FRAMES, steps)
    works, far = page.evaluate(WORK, steps), page.evaluate(WORK, jumps)
    for call in [1, 2500, 5000]:
        go_to(page, call)
        must_show(lab, page, "large", call)
    page.get_by_role("searchbox", name="find").fill("task 77:")
    expect(page.locator("#found")).to_contain_text(re.compile("found in [1-9]"))
    size = file.stat().st_size
    said = (
        f"load {median(loads):.0f} ms, ready after {median(ready):.0f} ms; a call further {median(works):.1f} ms, "
        f"until it is painted {median(frames):.0f} ms, of which two frames take {idle:.0f} ms; "
        f"a call far away {median(far):.1f} ms; {size / 1e6:.1f} MB"
    )
    if size >= 15e6:
        raise Wrong(f"the file is too large: {said}")
    return said


def median(numbers):
    return sorted(numbers)[len(numbers) // 2]
