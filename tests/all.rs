//! Whole-program tests: the real binary, real components, real processes and signals.
//!
//! What is tested:
//!
//! | module | subject |
//! |---|---|
//! | `crash` | `kill -9` after every event of a run and of its resumes |
//! | `random_teams` | random teams with faults and kills, compared with the same teams without them |
//! | `installed` | what packages install beside the program: examples, components that were built before |
//! | `packages` | the wheel and the packages for npm: what installers make of them, and what is passed to the program |
//! | `driver` | the driver with a store that fails: how often it saves, what it does if it cannot |
//! | `shared_database` | runs in one database file, and teams of one process that share it |
//! | `signals` | Ctrl-C, SIGTERM, the lock and its owner |
//! | `embedded` | environments in a program: handles, variables, errors |
//! | `live` | teams that keep running: the library, `run --keep-alive`, `send` to a running team |
//! | `sending` | `send`: messages are stored completely and once |
//! | `owner_socket` | the socket of a run's owner: what it serves, and hostile clients |
//! | `page` | the page of a server in a browser: answers, kills, hostile texts, keyboard, narrow screens |
//! | `requests` | questions and answers: kills, expiry, moved storage, the terminal |
//! | `writes` | requests that change something: killed, timed out, broken, decided by the operator |
//! | `attached` | images and files of an idea: resumed, moved, reported, rejected |
//! | `calls` | host calls killed before, while and after they are made |
//! | `together` | host calls that are made in parallel |
//! | `five_calls` | no call is paid for twice; prints the table of the book |
//! | `secrets` | secrets reach only the intended service |
//! | `embedding` | vectors for texts: what they cost, paid once, and who has none |
//! | `builtin` | `builtin:probe`: wherever a component can be named; it is made from the present source |
//! | `budget` | which calls a budget stops, and what counts towards it |
//! | `killed_mcp` | a role whose model calls tools of an MCP server is killed after each event |
//! | `mcp_counterparts` | MCP servers that others wrote, from npm |
//! | `mcp_servers` | MCP servers that do not behave, what is left of them, and older ones that ask |
//! | `guards` | guards: calls of code that they deny, answers of roles that they see, and what a fault of one repeats |
//! | `hostile_skills` | skills that want more than they may: links, paths, scripts, instructions, front matter |
//! | `tool_callers` | the interface `tools` in every language: one list of calls |
//! | `killed_nested` | a script that calls tools is killed after each event |
//! | `killed_turns` | conversations of a model with tools, killed after each event: no turn is paid for twice |
//! | `memory` | bounded memory: summaries by a component, killed, failing, denied; what `inspect` shows of them |
//! | `recovery` | what `--recover_path` accepts; finished teams; the input of a repeated attempt |
//! | `external` | messages that leave the team, and the answers |
//! | `children` | programs that the host starts end with it, also if it is killed |
//! | `lineages` | resuming from any checkpoint, forks, and comparisons |
//! | `retention` | removing old checkpoints, automatically and with `prune` |
//! | `machine` | home directories that do not exist; memory that cannot be made executable |
//! | `policy` | the operator's policy: what it denies; a resume follows the current one |
//! | `faults` | every kind of fault beside a healthy action; what the operator is shown |
//! | `joins` | joins in events, in `inspect` and in a stalled team; several faults before a join |
//! | `metagpt` | teams that MetaGPT saved |
//! | `strangers` | storage that another user wrote: nothing that its team file names is used |
//! | `database_connections` | connections to a database: encrypted, and through a pooler |
//! | `database_faults` | what is said, and what is kept, where a database cannot be used: wrong, refusing, full, gone |
//! | `databases` | runs in PostgreSQL: the same as in a directory; their owner; what cannot be used |
//! | `containers` | the files for containers: consistent, and their commands work |
//! | `database_commands` | several databases, closed ones, and backups |
//! | `caps` | what runs cost together is limited, whichever processes they are in and however these end |
//! | `workers` | submitted runs: taken by workers, continued by others, left alone when they have ended |
//! | `unclaimed` | submitted runs that no worker has taken yet, or takes because of their secrets |
//! | `operate` | operating many runs: who did what, hand-over, retention, metrics, and what travels with a run |
//! | `scale` | the statements of many workers and runs; a measurement, ignored by default |
//! | `worker_chaos` | workers that are killed, suspended and cut off, and a server that crashes: teams that call, ask, write and use files |
//! | `wrong_clock` | workers whose clocks are wrong |
//! | `server` | the server: what a token sees and changes, requests that are meant to confuse it, streams |
//! | `untrusted_submissions` | what submitted teams try to reach on a worker's machine |
//! | `storage` | storage that is absent, empty, foreign, read-only, full, damaged or newer |
//! | `lost` | a lost or damaged log; pipes instead of files; files that are not overwritten |
//! | `components` | components that cannot be used |
//! | `javascript` | actions in JavaScript and TypeScript |
//! | `compile_cache` | compiled components: compiled once, verified and private |
//! | `replay` | recorded attempts that are repeated and compared |
//! | `trial` | one action without a team: what it returns, what it may touch, that nothing is left of it |
//! | `trust` | components that are locked or signed |
//! | `agent_skills` | skills of roles with tools, and guards: scripts, changes, locks, kills after each event |
//! | `skills` | components on the shelf, and teams that use them |
//! | `documents` | JSON from outside that is too large, too deep or contradictory |
//! | `describing` | `describe`, `schema`, `completions`, `man`, `doctor`, `--help` |
//! | `live_view` | the status lines at the bottom of a terminal |
//! | `inspecting` | parts of what is saved: an action, host calls, a message |
//! | `output` | what is written to stdout and to stderr; `inspect`, `checkpoints`, `check` |
//! | `result` | the last output on stdout; where a run is saved by default |
//! | `slips` | typing errors on the command line and in a team file; suggested commands |
//! | `events` | events on stdout, in a file and from the records |
//! | `mcp_server` | teams and components as tools of MCP clients: asked, killed, cancelled, continued |
//! | `mcp_server_asked` | teams as such tools, whose own MCP servers ask within a call: it stays open meanwhile |
//! | `mcp_http` | the same over HTTP: who may connect, sessions, closed connections; and the Python SDK as client |
//! | `mcp_rust_sdk` | the Rust SDK of the protocol as client of such a team |
//! | `killed_mcp_server` | a server for MCP clients is killed after each event of a run |
//! | `mcp_hostile_http` | clients over HTTP that send too much, too slowly, or what is no request |
//! | `mcp_conformance` | the conformance suite of the protocol against the server |
//! | `observing` | metrics for Prometheus |
//! | `telemetry` | what a collector is sent: spans and metrics by the names of the conventions, contents on demand |
//! | `telemetry_mcp` | the same about calls of MCP servers, and about calls that are served |
//! | `real_collector` | the same, as a collector that others wrote shows it |
//! | `report` | the report of a run, also in a real browser if there is one |
//! | `role_tools` | roles that work for other roles: killed, failed, asked |
//! | `replies` | replies of models that are truncated, refused or failures |
//! | `files` | files that actions write: atomic, the same for all roles, conflicts kept |
//! | `granted` | granted directories that contain the storage, that are links, or that are nested |
//! | `hostile` | saved teams that are lost, old, or prepared by an attacker |
//! | `graph` | teams drawn on stdout |
//! | `guides` | the pages for contributors: their commands name packages, tests and files that exist |
//! | `c` | actions in C, from `new` to a fixed run; one in Zig, by a build script |
//! | `python` | actions in Python, from `new` to a fixed run |
//! | `dev` | `dev`: what changes while it watches, and from where it continues |
//! | `foreign_component` | components that were not made for this host |
//! | `scaffold` | what `new` creates can be built and run |
//! | `scripts` | source files that run without a build |
//! | `tools` | roles whose model works in a loop with tools |
//! | `scopes` | the scopes that roles read and write |
//! | `escapes` | text of guests is shown without effect on the terminal |
//! | `attended` | answers and messages that arrive while a team waits |
//! | `bench` | the scripts of the benchmarks can be parsed |
//! | `house` | the rules of the sources |
//! | `reference` | the pages of the documentation that are generated from the program |
//! | `book` | the documentation: its files are written, its commands run, its outputs compared |
//! | `snake` | the snake team that ships with the product |
//! | `analyst` | the team that ships with the product and has a model that works with tools |
//! | `library` | the team that ships with the product and that uses the tools of an MCP server |
//! | `orders` | the team that ships with the product and in which a script calls tools |
//! | `polyglot` | the team with one role per language that ships with the product |
//! | `map_reduce` | the word-counting team that ships with the product |
//! | `werewolf` | the werewolf game that ships with the product |
//!
//! Their helpers are `workspace` (a directory with a team in which the host is run), `process` (a
//! running host), `terminal` (a host at a terminal), `stream` (events), `saved` (`team.json`),
//! `mcp_client` (a client of the Model Context Protocol), `collector` (what a collector of telemetry was
//! sent), `pypi` (programs that others wrote), `skipped`
//! (tests that cannot run here), `probe` (the component of the probe), `alike` (teams for
//! the probes of all languages), `web` (a
//! server) and `signer` (a key that signs components). Teams of more than a few lines are fixtures.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod agent_skills;
mod alike;
mod analyst;
mod attached;
mod attended;
mod bench;
mod book;
mod budget;
mod builtin;
mod c;
mod calls;
mod caps;
mod children;
mod collector;
mod compile_cache;
mod components;
mod containers;
mod crash;
mod database_commands;
mod database_connections;
mod database_faults;
mod database_server;
mod databases;
mod describing;
mod dev;
mod documents;
mod driver;
mod embedded;
mod embedding;
mod escapes;
mod events;
mod external;
mod faults;
mod files;
mod five_calls;
mod foreign_component;
mod granted;
mod graph;
mod guards;
mod guides;
mod hostile;
mod hostile_skills;
mod house;
mod inspecting;
mod installed;
mod javascript;
mod joins;
mod killed_mcp;
mod killed_mcp_server;
mod killed_nested;
mod killed_turns;
mod library;
mod lineages;
mod live;
mod live_view;
mod lost;
mod machine;
mod map_reduce;
mod mcp_client;
mod mcp_conformance;
mod mcp_counterparts;
mod mcp_hostile_http;
mod mcp_http;
mod mcp_rust_sdk;
mod mcp_server;
mod mcp_server_asked;
mod mcp_servers;
mod memory;
mod metagpt;
mod observing;
mod operate;
mod orders;
mod output;
mod owner_socket;
mod packages;
mod page;
mod policy;
mod polyglot;
mod postgres_server;
mod probe;
mod process;
mod pypi;
mod python;
mod random_teams;
mod real_collector;
mod recovery;
mod reference;
mod replay;
mod replies;
mod report;
mod requests;
mod result;
mod retention;
mod role_tools;
mod saved;
mod scaffold;
mod scale;
mod scopes;
mod scripts;
mod secrets;
mod sending;
mod server;
mod shared_database;
mod signals;
mod signer;
mod skills;
mod skipped;
mod slips;
mod small_disk;
mod snake;
mod storage;
mod strangers;
mod stream;
mod suggested;
mod telemetry;
mod telemetry_mcp;
mod terminal;
mod together;
mod tool_callers;
mod tools;
mod trial;
mod trust;
mod unclaimed;
mod untrusted_submissions;
mod web;
mod werewolf;
mod worker_chaos;
mod workers;
mod workspace;
mod writes;
mod wrong_clock;
