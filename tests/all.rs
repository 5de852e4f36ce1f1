//! Whole-program tests: the real binary, real components, real processes and signals.
//!
//! What is tested:
//!
//! | module | what |
//! |---|---|
//! | `crash` | `kill -9` at every event of a run, and of its resumes |
//! | `random_teams` | random teams with faults and kills, held against the same without |
//! | `driver` | the driver alone, with a store that fails: how often it saves, what it does when it cannot |
//! | `signals` | Ctrl-C, SIGTERM, the lock and who holds it |
//! | `embedded` | environments inside a program: handles, variables of their own, how they end |
//! | `live` | teams that stay: the library, `run --keep-alive`, `send` to a team that runs |
//! | `shared_log` | teams of one process that share a log |
//! | `sending` | `send`: once and whole |
//! | `people` | questions and answers: kills around them, expiry, moves, a person at the terminal |
//! | `writes` | requests that change something: killed, timed out, broken, settled by the operator |
//! | `attached` | images and files of an idea: resumed, moved, reported, refused |
//! | `calls` | calls killed before, during and after; calls made together |
//! | `five_calls` | the proof that nothing is paid twice, with the table of the book |
//! | `secrets` | secrets reach the service that is meant, and nothing else |
//! | `budget` | who is stopped without money, and what counts |
//! | `recovery` | what `--recover_path` takes; finished teams; what a repeated attempt is given |
//! | `external` | messages that leave the team, and what comes back |
//! | `children` | programs that the host starts end with it, also when it is killed |
//! | `lineages` | going back to any checkpoint, forks, how they compare |
//! | `retention` | old checkpoints forgotten and pruned |
//! | `machine` | homes that are no directories; memory that cannot be made executable |
//! | `policy` | the operator's own file: what it takes away, and that a resume obeys the one of now |
//! | `faults` | every way to fail beside an action that is well; what the operator is told |
//! | `joins` | joins as event lines, as `inspect` shows them, in a stalled team; several faults before one |
//! | `metagpt` | teams that MetaGPT saved |
//! | `strangers` | storage that somebody else wrote: what its team file names is not used, and who looks at it uses nothing |
//! | `storage` | storage that is absent, empty, foreign, read-only, full, damaged, newer |
//! | `lost` | a log that was lost or damaged; pipes in place of files; what is not written over |
//! | `components` | components that cannot be used |
//! | `javascript` | actions in JavaScript and TypeScript |
//! | `compile_cache` | compiled components: made once, verified, private, as is what builds run |
//! | `replay` | recorded attempts made again and compared |
//! | `trust` | components that are locked, and signed |
//! | `skills` | components on the shelf, and teams that name them |
//! | `documents` | JSON from outside that swells, nests or contradicts itself, at every door |
//! | `describing` | `describe`, `schema`, `completions`, `man`, `doctor`, `--help` |
//! | `live_view` | what moves at the bottom of a terminal, and that nothing of it stays |
//! | `inspecting` | parts of what is saved: an action, the calls of the host, a message |
//! | `output` | what goes to stdout and what to stderr; `inspect`, `checkpoints`, `check` |
//! | `result` | the last output on stdout; where a run is saved if nobody says where |
//! | `slips` | slips of the pen on the command line and in a team file; words of suggested commands |
//! | `events` | event lines on stdout, in a file and from the records |
//! | `observing` | metrics, and spans for a collector |
//! | `report` | a run as one page, in a real browser where there is one |
//! | `files` | files that actions write: with the action or not at all, seen alike by all, kept beside where changed |
//! | `granted` | directories that are granted with what the host saves in them, by way of links, within each other |
//! | `hostile` | saved teams that are lost, old, or were prepared by somebody |
//! | `graph` | teams drawn on stdout |
//! | `c` | actions in C, from `new` to a mended run; one in Zig, by a recipe |
//! | `python` | actions in Python, from `new` to a mended run |
//! | `dev` | `dev`: what is changed while it watches, and where it goes on from |
//! | `plain` | components that know nothing of the host |
//! | `scaffold` | what `new` makes builds and runs |
//! | `scripts` | source files that are run as they are |
//! | `bench` | the scripts that measure can be read |
//! | `house` | the sources keep the rules of the house: who may touch what |
//! | `reference` | the pages of the documentation that are made from the program |
//! | `book` | the documentation: its files are written, its commands run, its outputs compared |
//! | `snake` | the team that ships with the product, from source to a playable game |
//! | `polyglot` | the team that ships with the product and has a role per language |
//! | `map_reduce` | the team that ships with the product and counts words: its join, its faults |
//! | `werewolf` | the game that ships with the product: its secrets, its counts, its resumes |
//!
//! What they are made of: `place` (a folder with a team in which the host is run), `process` (a running host),
//! `terminal` (a host that a person sits in front of), `stream` (event lines), `saved` (`team.json`), `probe` (the
//! component that does as it is told), `alike` (one team for the probes of all languages), `web` (a server), `signer`
//! (somebody with a key). Teams that are
//! longer than a few lines are fixtures.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod alike;
mod attached;
mod attended;
mod bench;
mod book;
mod budget;
mod c;
mod calls;
mod children;
mod compile_cache;
mod components;
mod crash;
mod describing;
mod dev;
mod documents;
mod driver;
mod embedded;
mod escapes;
mod events;
mod external;
mod faults;
mod files;
mod five_calls;
mod foreign_component;
mod granted;
mod graph;
mod hostile;
mod house;
mod inspecting;
mod javascript;
mod joins;
mod lineages;
mod live;
mod live_view;
mod lost;
mod machine;
mod map_reduce;
mod metagpt;
mod observing;
mod output;
mod policy;
mod polyglot;
mod probe;
mod process;
mod python;
mod random_teams;
mod recovery;
mod reference;
mod replay;
mod replies;
mod report;
mod requests;
mod result;
mod retention;
mod saved;
mod scaffold;
mod scopes;
mod scripts;
mod secrets;
mod sending;
mod shared_log;
mod signals;
mod signer;
mod skills;
mod slips;
mod snake;
mod storage;
mod strangers;
mod stream;
mod terminal;
mod together;
mod trust;
mod web;
mod werewolf;
mod workspace;
mod writes;
