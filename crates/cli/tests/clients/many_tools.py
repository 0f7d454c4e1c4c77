"""A server of the Model Context Protocol with forty tools, each of which returns its own number and words."""

import json
import sys

TOOLS = [
    {
        "name": f"tool_{number}", "description": f"Looks up entry {number} of the register of herons.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
    for number in range(40)
]


def answer(method, params):
    if method == "initialize":
        server = {"name": "many", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text = f"{params['name']} says {params['arguments'].get('text')}"
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
