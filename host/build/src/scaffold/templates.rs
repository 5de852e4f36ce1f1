//! The templates that are embedded in the program: one entry per language, and the team. The files
//! are in the SDKs' directories.

use crate::embedded::{EmbeddedFile, embedded};
use crate::sdk::{Kit, RUST};

/// A language in which new actions can be created.
#[derive(Debug)]
pub struct TemplateLanguage {
    /// The name, as in `--lang`.
    pub name: &'static str,
    /// The command that runs the tests, in the action's directory. `{{program}}` stands for the
    /// name of this program.
    test: &'static str,
    /// The files. `{{name}}` and `{{module}}` are replaced by the action's name; `gitignore`
    /// becomes `.gitignore`.
    pub(super) template: &'static [EmbeddedFile],
    /// An SDK that is copied into the action's directory, with the name of its subdirectory,
    /// because the language's tools must find it by themselves.
    pub(super) vendored_sdk: Option<(&'static str, Kit)>,
}

impl TemplateLanguage {
    /// Returns the command that runs the tests, in the action's directory, with this name for the
    /// program.
    pub fn test_command(&self, program: &str) -> String {
        self.test.replace("{{program}}", program)
    }
}

/// The languages.
pub const LANGUAGES: &[TemplateLanguage] = &[
    TemplateLanguage {
        name: "rust",
        test: "cargo test",
        template: embedded!["guest-sdk/rust/template":
            "Cargo.toml", "gitignore", "src/lib.rs", "tests/respond.rs",
        ],
        vendored_sdk: Some(("strata-action", RUST)),
    },
    TemplateLanguage {
        name: "python",
        test: "PYTHONPATH=\"$({{program}} sdk python)\" python3 -m unittest",
        template: embedded!["guest-sdk/python/template":
            "action.py", "gitignore", "pyproject.toml", "test_action.py",
        ],
        vendored_sdk: None,
    },
    TemplateLanguage {
        name: "js",
        // The build links the SDK to where node finds it.
        test: "{{program}} build && npm test",
        template: embedded!["guest-sdk/js/template/js":
            "gitignore", "package.json", "src/action.js", "tests/respond.test.js",
        ],
        vendored_sdk: None,
    },
    TemplateLanguage {
        name: "ts",
        test: "{{program}} build && npm test",
        template: embedded!["guest-sdk/js/template/ts":
            "gitignore", "package.json", "src/action.ts", "tests/respond.test.ts", "tsconfig.json",
        ],
        vendored_sdk: None,
    },
    TemplateLanguage {
        name: "c",
        test: "make test",
        template: embedded!["guest-sdk/c/template": "Makefile", "action.c", "gitignore", "tests/respond.c"],
        vendored_sdk: None,
    },
];

/// A team of two roles that needs no language model.
pub(super) const TEAM: &[EmbeddedFile] =
    embedded!["plugins/teams/template": "README.md", "gitignore", "replies.toml", "team.toml"];

/// A team with a role whose model works with tools, which are scripts.
pub(super) const TEAM_WITH_TOOLS: &[EmbeddedFile] = embedded!["plugins/teams/template-tools":
    "README.md", "count_words.py", "gitignore", "replies.toml", "team.toml",
];
