"""Artificial sessions: one whose messages try to be more than text, and a very long one."""

import base64
import json
import os
import random
import struct
import subprocess
import zlib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[4]


def write(file, messages):
    file.write_text("".join(json.dumps(message) + "\n" for message in messages))


def png(size=8):
    """Returns a small picture."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    lines = b"".join(b"\0" + b"\x40\x80\xc0" * size for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


HOSTILE = [
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 2</script>",
    "<img src=x onerror='window.ran = 3'>",
    "\"><svg onload='window.ran = 4'>",
    "<!--<script>",
    "<iframe src='javascript:parent.ran = 5'></iframe>",
    "<a href='javascript:window.ran = 6'>a link</a> [another](javascript:window.ran=7)",
    "<style>body { display: none }</style><link rel=stylesheet href=http://127.0.0.1:9/style.css>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'><base href=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><input autofocus onfocus='window.ran = 8'></form>",
    "![a picture](http://127.0.0.1:9/pixel.png)",
    "&lt;b&gt; &amp;amp; &#60;script&#62;",
    "${window.ran = 9} {{window.ran = 10}} <%= window.ran %>",
]
# Invisible characters, and how the page shows them.
UNSEEN = {
    "\u202egnp.exe\u202c": "\\u{202e}gnp.exe\\u{202c}",
    "\u2066isolated\u2069 \u200b \ufeff": "\\u{2066}isolated\\u{2069} \\u{200b} \\u{feff}",
    "\x1b[31mred\x1b[0m": "\\u{1b}[31mred\\u{1b}[0m",
    "\x1b]8;;http://127.0.0.1:9/\x07link": "\\u{1b}]8;;http://127.0.0.1:9/\\u{7}link",
    "a\0null": "a\\u{0}null",
}
BROKEN = ['{"path": "</pre><script>window.ran = 11</script>', "{", "[1, 2", '{"a": "\\ud800"}', "null null"]
SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload='window.ran = 12'><script>window.ran = 13</script></svg>"
LONG_LINE = 5_000_000


def hostile():
    texts = [*HOSTILE, *UNSEEN]
    messages = [{"role": "system", "content": HOSTILE[0]}]
    for number, text in enumerate(texts):
        arguments = [*BROKEN, json.dumps({"text": text})][number % (len(BROKEN) + 1)]
        function = {"name": "shell", "arguments": arguments}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": text},
            {"role": "assistant", "content": f"answer {number}: {text}"},
        ]
    urls = [
        f"data:image/png;base64,{base64.b64encode(png()).decode()}",
        "http://127.0.0.1:9/pixel.png",
        f"data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}",
        "javascript:window.ran=14",
        "data:image/png;base64,\"><script>window.ran = 15</script>",
    ]
    parts = [{"type": "text", "text": "pictures"}] + [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    line = "<b>" * 10 + "x" * LONG_LINE
    return [
        *messages,
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "pictures seen"},
        {"role": "user", "content": line},
        {"role": "assistant", "content": "a long line seen"},
    ]


def compacted():
    """Returns a recording whose client has replaced six messages by a summary, without a word of a rule and a file."""
    said = [
        "Mend the kettle. <b>Never</b> push to main. Read src/boil.rs and src/lid.rs first.",
        "src/boil.rs listens on port 5050. Shall I replace the whistle by a lamp?",
        "Yes, a red one.",
        "The lamp is in src/lamp.rs.",
        "And the lid?",
        "It is closed.",
        "Summary: the kettle is being mended in src/lid.rs. Continue.",
        "I look at src/boil.rs again.",
        "Go on.",
        "All is done.",
    ]
    messages = [{"role": ["user", "assistant"][at % 2], "content": text} for at, text in enumerate(said)]
    return {"id": "compacted", "messages": messages, "meta": {"compactions": [6]}}


def large(calls=5_000):
    """Returns the 10,000 messages of an agent that reads, searches and edits."""
    chance = random.Random(15)
    words = [a + b + c for a in "bdgklmnprst" for b in "aeiou" for c in ["n", "rk", "st", "lo", "mi"]]
    text = lambda count: " ".join(chance.choice(words) for _ in range(count))
    path = lambda: f"src/{chance.choice(words)}/{chance.choice(words)}.rs"
    for number in range(calls):
        if number % 25 == 0:
            yield {"role": "user", "content": f"Task {number // 25}: {text(30)}"}
        else:
            lines = [f"{path()}:{chance.randrange(900)}: {text(6)}" for _ in range(chance.choice([3, 8, 25]))]
            yield {"role": "tool", "tool_call_id": f"call_{number - 1}", "content": "\n".join(lines)}
        answer = {"role": "assistant", "content": text(12)}
        if number % 25 < 24:
            arguments = json.dumps({"path": path(), "start": chance.randrange(99)})
            function = {"name": chance.choice(["search", "read_file", "shell"]), "arguments": arguments}
            answer["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        yield answer


# Calls the package as an agent's loop does.
LOOP = """
import json, sys, lookback
file, name, store = sys.argv[1:]
session = lookback.Session(name, store=store)
for message in map(json.loads, open(file)):
    if message["role"] == "assistant":
        session.window()
    session.push(message)
"""


def live(file, name, store):
    """Records or continues a session with the Python package, preferring one that is built in place."""
    python, built = PROJECT / ".python" / "bin" / "python", PROJECT / "bindings" / "python" / "python"
    is_built = any((built / "lookback").glob("_native*.so"))
    env = os.environ | ({"PYTHONPATH": str(built)} if is_built else {})
    subprocess.run([python, "-c", LOOP, str(file), name, store], check=True, cwd=file.parent, env=env)
