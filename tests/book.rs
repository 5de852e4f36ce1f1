//! The pages of the documentation: every file in them is written, every command is run, and every
//! output is compared.
//!
//! A fence `LANG,file=PATH` is a file, which is written into the directory of the page. A fence
//! `console` contains commands after `$ `. Each command is followed by its expected exit code
//! (`? 3`) if it is not 0, and by its output: `[..]` matches anything within a line, `...` any
//! number of lines. If no output is given, it is not compared. `output` compares outputs. With
//! `BLESS=1`, outputs that differ are written into the page.

mod interfaces;
mod output;
mod page;

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::database_server::Server;
use crate::observing::free_port;
use crate::postgres_server::ServerOptions;
use crate::probe::{build, project};
use crate::workspace::Workspace;
use page::{Command, Fence, fences};

/// Returns the directory of the pages.
fn pages() -> PathBuf {
    project().join("docs/src")
}

/// The directory of a page, and the current directory of its commands.
struct Folder {
    place: Workspace,
    directory: PathBuf,
    /// The database server of a page about one.
    server: Option<Server>,
    /// The groups of processes that commands have left in the background.
    background: Vec<Pid>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        for group in &self.background {
            // By now the page may have ended them itself.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

impl Folder {
    fn new() -> Self {
        let place = Workspace::empty();
        // The programs that a reader has installed.
        fs::create_dir(place.path(".bin")).unwrap();
        symlink(
            env!("CARGO_BIN_EXE_strata-host-under-test"),
            place.path(".bin/strata-host"),
        )
        .unwrap();
        let directory = place.path("");
        Self {
            place,
            directory,
            server: None,
            background: Vec::new(),
        }
    }

    /// Provides what the page uses: files of the sources, a database. Returns whether this machine has it.
    fn provide(&mut self, page: &str) -> bool {
        match page {
            "day-two" => {
                let port = free_port();
                self.server = Server::start_with(ServerOptions {
                    arguments: &["-c", "listen_addresses=127.0.0.1"],
                    port: Some(port),
                });
                return self.server.is_some();
            }
            "plain-components" => {
                let component = build("plugins/text-tools");
                fs::copy(component, self.place.path("text.wasm")).unwrap();
            }
            "any-language" => {
                for file in ["action.zig", "build.sh"] {
                    let text =
                        fs::read_to_string(project().join("plugins/longest-word").join(file))
                            .unwrap();
                    self.write(&format!("longest-word/{file}"), &text);
                }
                let zig = self.place.path(".bin/zig");
                fs::write(
                    &zig,
                    format!("#!/bin/sh\nexec {} \"$@\"\n", crate::c::zig()),
                )
                .unwrap();
                fs::set_permissions(&zig, fs::Permissions::from_mode(0o755)).unwrap();
            }
            _ => {}
        }
        true
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.place.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a command, and returns its exit code and its output.
    fn run(&mut self, line: &str) -> (i32, String) {
        if let Some(to) = line.strip_prefix("cd ") {
            self.directory = self.directory.join(to.trim());
            assert!(
                self.directory.is_dir(),
                "`{line}`: there is no such directory"
            );
            return (0, String::new());
        }
        let host = self.place.command(&[]);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1; {line}")])
            .current_dir(&self.directory)
            .stdin(Stdio::null());
        for (name, value) in host.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(port) = self.server.as_ref().and_then(Server::port) {
            let url = format!("postgres://strata@127.0.0.1:{port}/postgres");
            shell.env("DATABASE", url);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("STRATA_SHELF", self.place.path(".shelf"));
        shell.env(
            "PATH",
            format!("{}:{path}", self.place.path(".bin").display()),
        );
        let (code, text) = self.finish(line, shell);
        // The directory of the reader has another path.
        (
            code,
            text.replace(self.place.path("").to_str().unwrap(), "~/"),
        )
    }

    /// Runs a shell to its end, and returns its exit code and what was written until then. What it leaves in the
    /// background goes on until this is dropped.
    fn finish(&mut self, line: &str, mut shell: std::process::Command) -> (i32, String) {
        // A pipe would be open for as long as the background has it.
        let mut written = tempfile::tempfile().unwrap();
        let mut child = shell
            .stdout(written.try_clone().unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("`{line}`: {error}"));
        if line.lines().any(|line| line.ends_with('&')) {
            self.background.push(Pid::from_child(&child));
        }
        let status = child.wait().unwrap();
        let mut bytes = Vec::new();
        written.seek(SeekFrom::Start(0)).unwrap();
        written.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (status.code().unwrap_or(-1), text)
    }

    /// Checks a command. Fails with the difference, and with the output as it should be in the
    /// page.
    fn check(&mut self, command: &Command) -> Result<(), (String, Option<String>)> {
        let (code, text) = self.run(&command.line);
        if code != command.code {
            return Err((
                format!(
                    "`{}` ended with {code}, not {}:\n{text}",
                    command.line, command.code
                ),
                None,
            ));
        }
        if command.output.is_empty() || output::fits(&command.output, &text) {
            return Ok(());
        }
        let shown = format!(
            "`{}` said\n{text}\nand not\n{}",
            command.line, command.output
        );
        Err((shown, Some(text)))
    }
}

/// Returns whether outputs are written into the pages.
fn bless() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Replaces a page of the documentation as a whole, since other tests read it at the same time.
pub(crate) fn replace_page(file: &Path, text: &str) {
    let mut new = tempfile::NamedTempFile::new_in(pages()).unwrap();
    new.write_all(text.as_bytes()).unwrap();
    let readable = fs::Permissions::from_mode(0o644);
    new.as_file().set_permissions(readable).unwrap();
    new.persist(file).unwrap();
}

/// Writes the files and runs the commands of a page.
fn check(name: &str) {
    let file = pages().join(name).with_extension("md");
    let mut text = fs::read_to_string(&file).unwrap();
    let mut folder = Folder::new();
    if !folder.provide(name) {
        return;
    }
    let mut problems = Vec::new();
    let mut is_changed = false;
    // The position up to which the page was checked: a command may occur several times.
    let mut tried = 0;
    for fence in fences(&text.clone()) {
        match fence {
            Fence::File { name, text } => folder.write(&name, &text),
            Fence::Toml(text) => {
                let parsed = text.parse::<toml::Table>();
                problems.extend(parsed.err().map(|error| format!("{error}\n{text}")));
            }
            Fence::Console(commands) => {
                for command in commands {
                    let source = command.source();
                    let at = tried
                        + text[tried..]
                            .find(&source)
                            .expect("the command was read from here");
                    tried = at + source.len();
                    let Err((problem, actual)) = folder.check(&command) else {
                        continue;
                    };
                    problems.push(problem);
                    if let Some(actual) = actual.filter(|_| bless()) {
                        let shown = command.source_with(&actual);
                        text.replace_range(at..tried, &shown);
                        tried = at + shown.len();
                        is_changed = true;
                    }
                }
            }
        }
    }
    // A page on which nothing differs is not written: another test may generate it meanwhile.
    if is_changed {
        replace_page(&file, &text);
    }
    assert!(problems.is_empty(), "{name}.md:\n{}", problems.join("\n"));
}

/// Returns the names of the pages that `SUMMARY.md` lists.
fn listed() -> Vec<String> {
    let summary = fs::read_to_string(pages().join("SUMMARY.md")).unwrap();
    let links = summary
        .lines()
        .filter_map(|line| Some(line.split_once("](")?.1.split_once(".md)")?.0.to_owned()));
    links
        .map(|link| link.trim_start_matches("./").to_owned())
        .collect()
}

#[test]
fn every_page_is_listed_and_tested() {
    let mut listed = listed();
    listed.sort();
    let mut there: Vec<String> = fs::read_dir(pages())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some("md".as_ref()) && !path.ends_with("SUMMARY.md"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    there.sort();
    assert_eq!(listed, there);
    let mut tried: Vec<&str> = PAGES.to_vec();
    tried.sort_unstable();
    assert_eq!(tried, there);
}

#[test]
fn links_between_pages_are_valid() {
    for page in listed() {
        let text = fs::read_to_string(pages().join(&page).with_extension("md")).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(link, _)| link)
        {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || link.contains("://") {
                continue;
            }
            assert!(
                pages().join(target).exists(),
                "{page}.md: `{link}` leads nowhere"
            );
        }
    }
}

/// Defines a test for each page.
macro_rules! pages {
    ($($test:ident = $page:literal),+ $(,)?) => {
        /// The pages that are tested below.
        const PAGES: &[&str] = &[$($page),+];
        $(
            #[test]
            fn $test() {
                check($page);
            }
        )+
    };
}

pages! {
    the_introduction_holds = "introduction",
    the_machine_is_as_the_page_says = "installing",
    the_first_team_runs_breaks_and_goes_on = "first-team",
    the_first_agent_calls_tools_and_is_told_of_their_faults = "first-agent",
    the_concepts_hold = "concepts",
    messages_go_where_the_page_says = "messages",
    recovery_goes_as_the_page_says = "recovery",
    going_back_goes_as_the_page_says = "going-back",
    host_calls_are_as_the_page_says = "host-calls",
    files_are_written_as_the_page_says = "files",
    models_are_configured_as_the_page_says = "models",
    servers_of_models_are_configured_as_the_page_says = "model-servers",
    models_call_tools_as_the_page_says = "tools",
    tools_of_servers_are_called_as_the_page_says = "mcp",
    the_recipes_work_as_the_page_says = "recipes",
    money_is_counted_as_the_page_says = "money",
    code_calls_tools_as_the_page_says = "tools-for-code",
    skills_are_read_as_the_page_says = "skills",
    components_are_on_the_shelf_as_the_page_says = "shelf",
    a_run_is_made_again_as_the_page_says = "replay",
    an_operator_bounds_teams_as_the_page_says = "policy",
    components_are_trusted_as_the_page_says = "trust",
    people_are_asked_as_the_page_says = "people",
    the_sandbox_bites_as_the_page_says = "sandbox",
    actions_are_written_as_the_page_says = "writing-actions",
    actions_in_rust_are_as_the_page_says = "rust",
    actions_in_python_are_as_the_page_says = "python",
    actions_in_javascript_are_as_the_page_says = "javascript",
    actions_in_c_are_as_the_page_says = "c",
    scripts_are_as_the_page_says = "scripts",
    scripts_and_components_differ_as_the_page_says = "scripts-or-components",
    plain_components_are_as_the_page_says = "plain-components",
    any_language_makes_actions_as_the_page_says = "any-language",
    the_interfaces_are_a_page = "wit",
    the_loop_goes_as_the_page_says = "dev",
    editors_complete_team_files_as_the_page_says = "editors",
    operating_goes_as_the_page_says = "operating",
    many_runs_are_operated_as_the_page_says = "day-two",
    a_team_is_deployed_as_the_page_says = "deploying",
    runs_are_kept_in_databases_as_the_page_says = "databases",
    several_machines_share_runs_as_the_page_says = "workers",
    teams_are_served_as_the_page_says = "server",
    workers_run_in_containers_as_the_page_says = "containers",
    the_capacity_of_a_database_is_measured_as_the_page_says = "capacity",
    runs_are_watched_as_the_page_says = "observing",
    a_team_is_embedded_as_the_page_says = "embedding",
    teams_are_tools_of_other_agents_as_the_page_says = "mcp-server",
    troubles_look_as_the_page_says = "troubleshooting",
    the_reference_of_team_files_is_toml = "reference",
    the_reference_of_policies_is_toml = "policy-reference",
    the_reference_of_replies_is_toml = "replies-reference",
    the_fixed_limits_are_as_the_page_says = "limits",
    the_reference_of_commands_is_as_it_stands = "commands",
    the_reference_of_events_is_as_it_stands = "events",
    migration_from_metagpt_works = "from-metagpt",
    migration_from_agent_framework_works = "from-agent-framework",
    migration_from_langgraph_works = "from-langgraph",
    migration_from_agents_works = "from-agents",
}
