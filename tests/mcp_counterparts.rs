//! MCP servers that others wrote: those of the protocol's project, from npm. The test is skipped, and says so, where npm
//! cannot install them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skipped::skip;
use crate::stream;
use crate::workspace::Workspace;

const VERSION: &str = "2026.8.31";
const SERVERS: [&str; 3] = ["everything", "filesystem", "memory"];

/// Installs the servers below the target directory, unless they are there. Returns `None` if that is not possible.
fn install() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-servers-{VERSION}"));
    let modules = place.join("node_modules/@modelcontextprotocol");
    if SERVERS
        .iter()
        .all(|name| modules.join(format!("server-{name}")).exists())
    {
        return Some(modules);
    }
    let packages = SERVERS.map(|name| format!("@modelcontextprotocol/server-{name}@{VERSION}"));
    let cache = tempfile::tempdir().expect("a temporary directory");
    let installed = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--prefix"])
        .arg(&place)
        .arg("--cache")
        .arg(cache.path())
        .args(packages)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    installed
        .is_ok_and(|status| status.success())
        .then_some(modules)
}

/// Returns the command of a server, as a list in a team file.
fn command(modules: &Path, name: &str, argument: &str) -> String {
    let script = modules.join(format!("server-{name}/dist/index.js"));
    format!("[\"node\", {:?}{argument}]", script.display().to_string())
}

#[test]
fn servers_that_others_wrote_are_called_and_ask() {
    let Some(modules) = install() else {
        skip("npm cannot install the MCP servers of others");
        return;
    };
    let team = format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[mcp.every]
command = {}
[mcp.files]
command = {}
[mcp.memory]
command = {}
set = {{ MEMORY_FILE_PATH = "memory.json" }}
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = {{ steps = [
  {{ mcp = "every/echo", arguments = {{ message = "hi" }} }}, {{ mcp = "every/get-sum", arguments = {{ a = 1, b = 2 }} }},
  {{ mcp = "files/write_file", arguments = {{ path = "b.txt", content = "written" }} }},
  {{ mcp = "files/read_text_file", arguments = {{ path = "b.txt" }} }},
  {{ mcp = "memory/create_entities", arguments = {{ entities = [{{ name = "Bob", entityType = "person", observations = ["likes tea"] }}] }} }},
  {{ mcp = "memory/search_nodes", arguments = {{ query = "tea" }} }},
  {{ mcp = "every/trigger-elicitation-request", arguments = {{}} }}, {{ say = "{{reads}}" }},
] }}
[role.action.allow]
mcp = [{{ server = "every", tools = ["*"] }}, {{ server = "files", tools = ["*"] }}, {{ server = "memory", tools = ["*"] }}]
"#,
        command(&modules, "everything", ""),
        command(&modules, "filesystem", ", \"data\""),
        command(&modules, "memory", "")
    );
    let place = Workspace::with(&team);
    std::fs::create_dir(place.path("data")).expect("a directory");
    let mut process = place.start_run(&["--keep-alive"]);
    let opened = process.until("request-opened", None);
    let answer = format!("{}={{\"name\": \"Kim\"}}", stream::text(&opened["request"]));
    place.host(&["answer", "store", &answer]).expect(0);
    let finished = process.until("action-finished", None);
    let said = stream::text(&finished["output"]["content"]).to_owned();
    for part in ["Echo: hi", "1 and 2 is 3", "written", "likes tea", "Kim"] {
        assert!(said.contains(part), "{said}");
    }
    process.signal(crate::process::Signal::INT);
    process.end().expect(0);
    assert_eq!(place.read("data/b.txt"), b"written");
    place.host(&["replay", "store", "--verify"]).expect(0);
}
