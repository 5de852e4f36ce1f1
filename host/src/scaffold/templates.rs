//! The templates that are part of the program: one entry a language, and the team. The files lie beside the SDKs.

use crate::build::sdk::{Embedded, Kit, RUST, embedded};

/// A language that actions can be begun in.
#[derive(Debug)]
pub struct Language {
    /// As `--lang` names it.
    pub name: &'static str,
    /// How its tests are run, in the action's directory.
    pub test: &'static str,
    /// Files with `{{name}}` and `{{module}}` in place of the action's name; `gitignore` stands for `.gitignore`.
    pub(super) template: &'static [Embedded],
    /// What lies in the action's directory as well, and under which name: an SDK that the language's tools must find
    /// by themselves.
    pub(super) beside: Option<(&'static str, Kit)>,
}

/// The languages; the first is taken when none is named.
pub const LANGUAGES: &[Language] = &[
    Language {
        name: "rust",
        test: "cargo test",
        template: embedded!["guest-sdk/rust/template":
            "Cargo.toml", "gitignore", "src/lib.rs", "tests/respond.rs",
        ],
        beside: Some(("strata-action", RUST)),
    },
    Language {
        name: "python",
        test: "PYTHONPATH=\"$(strata-host sdk python)\" python3 -m unittest",
        template: embedded!["guest-sdk/python/template":
            "action.py", "gitignore", "pyproject.toml", "test_action.py",
        ],
        beside: None,
    },
    Language {
        name: "js",
        // Building puts the SDK where node finds it.
        test: "strata-host build && npm test",
        template: embedded!["guest-sdk/js/template/js":
            "gitignore", "package.json", "src/action.js", "tests/respond.test.js",
        ],
        beside: None,
    },
    Language {
        name: "ts",
        test: "strata-host build && npm test",
        template: embedded!["guest-sdk/js/template/ts":
            "gitignore", "package.json", "src/action.ts", "tests/respond.test.ts", "tsconfig.json",
        ],
        beside: None,
    },
    Language {
        name: "c",
        test: "make test",
        template: embedded!["guest-sdk/c/template": "Makefile", "action.c", "gitignore", "tests/respond.c"],
        beside: None,
    },
];

/// A team of two that needs no model of its own.
pub(super) const TEAM: &[Embedded] =
    embedded!["plugins/teams/template": "README.md", "gitignore", "replies.toml", "team.toml"];
