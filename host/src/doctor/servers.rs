//! Whether the MCP servers of a team can be started on this machine. None is started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use strata_build::inventory::program_version;
use strata_manifest::Definition;
use strata_services::mcp::config::{Requirement, ServerTransport, StdioServer};

use super::Finding;
use crate::launch::LaunchError;

/// The bits of a mode that let somebody execute a file.
const EXECUTABLE: u32 = 0o111;
const ABOUT: &str = "mcp";
/// The programs with which servers are commonly started.
const RUNNERS: [&str; 4] = ["node", "npx", "python3", "uvx"];

/// Checks the MCP servers of a team, and the programs with which servers are commonly started. Returns nothing for a
/// team without servers.
pub fn examine_servers(team: &Path) -> Result<Vec<Finding>, LaunchError> {
    let definition = Definition::read(team)?;
    let mut findings = Vec::new();
    let path = definition.variables.get("PATH").unwrap_or_default();
    for (name, server) in &definition.mcp {
        findings.push(match &server.transport {
            ServerTransport::Stdio(stdio) => check_command(name, stdio, server.requirement, &path),
            ServerTransport::Http(http) => {
                Finding::good(ABOUT, format!("`{name}` is at `{}`", http.url))
            }
        });
    }
    if findings.is_empty() {
        return Ok(findings);
    }
    let versions = RUNNERS.map(|program| match program_version(program) {
        Ok(version) if version.contains(program) => version,
        Ok(version) => format!("{program} {version}"),
        Err(_) => format!("no {program}"),
    });
    findings.push(Finding::good(ABOUT, versions.join(", ")));
    Ok(findings)
}

fn check_command(name: &str, stdio: &StdioServer, requirement: Requirement, path: &str) -> Finding {
    let program = stdio.command.first().map_or("", String::as_str);
    match find_program(program, &stdio.dir, path) {
        Some(found) => {
            let found = format!("`{name}`: `{program}` is `{}`", found.display());
            Finding::good(ABOUT, found)
        }
        None => {
            let found = format!("`{name}`: the program `{program}` is not found");
            let advice = if program.contains('/') {
                "correct `command`; its path is relative to `cwd`".to_owned()
            } else {
                format!("install `{program}`, or add its directory to `PATH`")
            };
            match requirement {
                Requirement::Required => Finding::bad(ABOUT, found, advice),
                Requirement::Optional => Finding::doubtful(ABOUT, found, advice),
            }
        }
    }
}

/// Returns the file that a program is. A name with a slash is a path from `dir`, and any other is looked up in the
/// directories of `path`.
fn find_program(program: &str, dir: &Path, path: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let metadata = path.metadata();
        metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & EXECUTABLE != 0)
    };
    if program.contains('/') {
        return Some(dir.join(program)).filter(is_program);
    }
    std::env::split_paths(path)
        .map(|directory| directory.join(program))
        .find(is_program)
}
