//! The arguments of `skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ShelfArgs {
    /// The shelf's directory. Defaults to $STRATA_SHELF, which `run` and `check` also use, or to strata-host/skills in
    /// $XDG_DATA_HOME.
    #[arg(long, value_name = "DIR")]
    pub(crate) shelf: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum SkillCommand {
    /// Put components on the shelf, under the names and versions that their manifests state.
    #[command(
        after_help = "Examples:\n  strata-host shelf add plugins/write-code\n  \
        strata-host shelf add *.wasm --shelf skills\n\n\
        Then, in a team file:\n  [[role.action]]\n  name = \"WriteCode\"\n  skill = \"write-code@1.0.0\""
    )]
    Add {
        /// Components, or source directories.
        #[arg(required = true, value_name = "COMPONENT")]
        components: Vec<PathBuf>,
        #[command(flatten)]
        shelf: ShelfArgs,
    },
    /// List what is on the shelf.
    #[command(
        after_help = "Examples:\n  strata-host shelf list\n  strata-host shelf list --json | jq '.[].name'"
    )]
    List {
        /// Print JSON, schemas included.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        shelf: ShelfArgs,
    },
    /// List the skills whose name or description contains every word.
    #[command(after_help = "Examples:\n  strata-host shelf search review code")]
    Search {
        /// The words to look for, in any case.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Print JSON, schemas included.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        shelf: ShelfArgs,
    },
    /// Show one skill: its own description, and where its component is.
    #[command(
        after_help = "Examples:\n  strata-host shelf show write-code@1.0.0\n  \
        strata-host shelf show write-code@^1 --json    # the newest of these"
    )]
    Show {
        /// The skill.
        #[arg(value_name = "NAME@VERSION")]
        name: String,
        /// Print JSON, schemas included.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        shelf: ShelfArgs,
    },
    /// Remove a skill from the shelf.
    #[command(after_help = "Examples:\n  strata-host shelf remove write-code@1.0.0")]
    Remove {
        /// The skill.
        #[arg(value_name = "NAME@VERSION")]
        name: String,
        #[command(flatten)]
        shelf: ShelfArgs,
    },
}
