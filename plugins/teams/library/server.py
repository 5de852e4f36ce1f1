"""An MCP server over standard streams, without dependencies: the notes in the directory `notes`."""

import json
import sys
from pathlib import Path

NOTES = Path("notes")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NOTE = {**NAME, "properties": {**NAME["properties"], "text": {"type": "string"}}, "required": ["name", "text"]}
TOOLS = [
    {"name": "list_notes", "description": "Lists the names of all notes.", "inputSchema": {"type": "object"},
     "annotations": {"readOnlyHint": True}},
    {"name": "read_note", "description": "Returns a note.", "inputSchema": NAME, "annotations": {"readOnlyHint": True}},
    {"name": "append_note", "description": "Appends a line to a note.", "inputSchema": NOTE},
]


def call(tool, arguments):
    if tool == "list_notes":
        return "\n".join(sorted(path.stem for path in NOTES.glob("*.md")))
    path = NOTES / f"{Path(arguments['name']).name}.md"
    if tool == "read_note":
        return path.read_text()
    with path.open("a") as note:
        note.write(f"{arguments['text']}\n")
    return f"appended to {path.stem}"


def answer(method, params):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "serverInfo": {"name": "notes", "version": "1.0"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        try:
            text, failed = call(params["name"], params.get("arguments", {})), False
        except OSError as error:
            text, failed = str(error), True
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    raise LookupError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    try:
        reply = {"result": answer(message["method"], message.get("params", {}))}
    except LookupError as error:
        reply = {"error": {"code": -32601, "message": f"there is no method {error}"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
