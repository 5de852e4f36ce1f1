//! Calls of a tool of an MCP server over standard streams, one after the other, each recorded and synced before the
//! action goes on. Beside them, the same exchanges alone, and a durable step. The server is this program, which answers
//! at once.

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};
use strata_host::storage::Durability;

use super::chain;
use super::run::{Place, to_its_end};

/// The argument with which this program is the server.
pub(crate) const SERVER: &str = "mcp-server";
/// The revision of the protocol that is spoken.
const REVISION: &str = "2026-07-28";
/// A tool that changes nothing, and one that may.
const READ: &str = "read";
const WRITE: &str = "write";

/// Measures `count` calls of each kind.
pub(crate) fn calls(place: &Place, count: usize) -> anyhow::Result<Value> {
    let ours = |tool: &str| -> anyhow::Result<f64> {
        let run = |attempt: u32| {
            // The first call starts the server.
            let first = step(tool, 1);
            let steps = vec![step(tool, attempt); count];
            let team = team(place, &format!("{first}, {}", steps.join(", ")))?;
            let name = format!("{tool}-{attempt}");
            let driver = place.prepare(&name, &team, Durability::Full, || ())?;
            let start = Instant::now();
            to_its_end(driver)?;
            anyhow::Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        // The probe reads its steps in both, and takes only the first for a second attempt.
        let one = run(2)?;
        Ok((run(1)? - one) / count as f64)
    };
    let (read, write) = (ours(READ)?, ours(WRITE)?);
    let step = chain::full(place, count)?;
    Ok(json!({
        "read_us": read, "write_us": write, "bare_us": bare(count)?, "step_us": step["step_us"],
    }))
}

/// Returns a step of the probe that calls a tool, in this attempt.
fn step(tool: &str, attempt: u32) -> String {
    format!(
        "{{ mcp = \"s/{tool}\", arguments = {{ text = \"question\" }}, attempts = [{attempt}] }}"
    )
}

/// Returns a team with one action, which makes these calls.
fn team(place: &Place, calls: &str) -> anyhow::Result<String> {
    let (head, probe, server) = (place.head(10, 8), &place.probe, std::env::current_exe()?);
    Ok(format!(
        "{head}[mcp.s]\ncommand = [{server:?}, \"{SERVER}\"]\n\
         [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"Call\"\ncomponent = {probe:?}\nconfig = {{ steps = [{calls}] }}\n\
         [role.action.limits]\nhost_calls = 100000\nhost_bytes = \"256MiB\"\nmemory = \"256MiB\"\ncpu = \"60s\"\n\
         [role.action.allow]\nmcp = [{{ server = \"s\", tools = [\"*\"] }}]\n"
    ))
}

/// Returns the time of an exchange in microseconds, of `count` on one thread.
fn bare(count: usize) -> anyhow::Result<f64> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg(SERVER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = server.stdin.take().context("a pipe")?;
    let mut output = BufReader::new(server.stdout.take().context("a pipe")?);
    let meta = |name: &str| format!("io.modelcontextprotocol/{name}");
    let mut line = String::new();
    let start = Instant::now();
    for id in 0..count {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": READ, "arguments": { "text": "question" }, "_meta": {
                "progressToken": id, meta("protocolVersion"): REVISION,
                meta("clientInfo"): { "name": "bench", "version": "1" },
                meta("clientCapabilities"): { "elicitation": { "form": {}, "url": {} } },
            },
        } });
        input.write_all(format!("{request}\n").as_bytes())?;
        line.clear();
        output.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line)?;
        answer["result"]["content"].as_array().context("a result")?;
    }
    let took = start.elapsed().as_secs_f64() * 1e6 / count as f64;
    drop(input);
    server.wait()?;
    Ok(took)
}

/// Answers requests on standard input until it ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut output = stdout().lock();
    for line in stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        if message["id"].is_null() {
            continue;
        }
        let result = answer(message["method"].as_str().unwrap_or_default());
        let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        output.write_all(format!("{reply}\n").as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

fn answer(method: &str) -> Value {
    let complete = |mut result: Value| {
        result["resultType"] = "complete".into();
        result
    };
    match method {
        "server/discover" => complete(json!({
            "supportedVersions": [REVISION], "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private",
            "serverInfo": { "name": "bench", "version": "1" },
        })),
        "tools/list" => {
            let schema =
                json!({ "type": "object", "properties": { "text": { "type": "string" } } });
            let tool = |name: &str| {
                let hints = json!({ "readOnlyHint": name == READ });
                json!({ "name": name, "inputSchema": schema, "annotations": hints })
            };
            complete(
                json!({ "tools": [tool(READ), tool(WRITE)], "ttlMs": 0, "cacheScope": "private" }),
            )
        }
        _ => complete(json!({ "content": [{ "type": "text", "text": "an answer" }] })),
    }
}
