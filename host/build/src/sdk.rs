//! The SDKs of the languages and the WIT interfaces, which are embedded in this program so that
//! actions can be built without a checkout of the project. They are unpacked into the cache, each
//! version into its own directory.
//!
//! This module lists the files of each language. How they are used for a build is in the language's
//! module.

use std::path::PathBuf;

use strata_base::files::caches::CacheName;
use strata_base::files::sha256::Sha256;
use strata_core::record::id::to_hex;
use strata_sandbox::host_wit::WIT_FILES;

use super::{BuildError, cache};
use crate::embedded::{EmbeddedFile, embedded};

/// An SDK or the interfaces, embedded in the program.
#[derive(Clone, Copy, Debug)]
pub struct Kit {
    name: &'static str,
    /// Its files.
    files: &'static [EmbeddedFile],
}

/// The WIT interfaces.
pub const WIT: Kit = Kit {
    name: "wit",
    files: WIT_FILES,
};

/// What interpreters of scripts import in addition. It is not part of what actions are built with.
pub(super) const INTERPRETER_WIT: Kit = Kit {
    name: "interpreter",
    files: embedded!["guest-sdk/interpreter": "script.wit"],
};

/// The SDK for C.
pub const C: Kit = Kit {
    name: "c",
    files: embedded!["guest-sdk/c":
        "README.md",
        "bindings/bindings.h",
        "bindings/handler.c",
        "bindings/imports.c",
        "bindings/planner.c",
        "bindings/thinker.c",
        "include/strata_action.h",
        "include/strata_host.h",
        "include/strata_json.h",
        "include/strata_llm.h",
        "include/strata_testing.h",
        "include/strata_text.h",
        "src/call.c",
        "src/convert.h",
        "src/host.c",
        "src/http.c",
        "src/json.c",
        "src/json_read.c",
        "src/json_tree.h",
        "src/json_write.c",
        "src/llm.c",
        "src/memory.h",
        "src/text.c",
        "src/utf8.c",
        "testing/host.c",
        "testing/imports.c",
        "testing/table.h",
        "toolchain.txt",
        "wasm/end.c",
        "wasm/handler.c",
        "wasm/planner.c",
        "wasm/thinker.c",
    ],
};

/// The SDK for Python.
pub const PYTHON: Kit = Kit {
    name: "python",
    files: embedded!["guest-sdk/python":
        "README.md",
        "interpreter/action.py",
        "interpreter/code_block.py",
        "interpreter/description.py",
        "interpreter/library.py",
        "interpreter/lines.py",
        "interpreter/lookups.py",
        "interpreter/modules.py",
        "interpreter/printed.py",
        "interpreter/program.py",
        "interpreter/pyproject.toml",
        "interpreter/script.py",
        "pyproject.toml",
        "strata_action/__init__.py",
        "strata_action/_host.py",
        "strata_action/_validate.py",
        "strata_action/_wasm_host.py",
        "strata_action/clock.py",
        "strata_action/context.py",
        "strata_action/env.py",
        "strata_action/environment.py",
        "strata_action/errors.py",
        "strata_action/exports.py",
        "strata_action/faults.py",
        "strata_action/files.py",
        "strata_action/http.py",
        "strata_action/human.py",
        "strata_action/llm.py",
        "strata_action/log.py",
        "strata_action/mcp.py",
        "strata_action/media.py",
        "strata_action/memory.py",
        "strata_action/message.py",
        "strata_action/py.typed",
        "strata_action/random.py",
        "strata_action/secrets.py",
        "strata_action/state.py",
        "strata_action/testing.py",
        "strata_action/tools.py",
        "strata_action/typed.py",
        "strata_action/wasm.py",
        "strata_library.py",
        "strata_snapshot.py",
        "toolchain.txt",
    ],
};

/// The SDK for JavaScript and TypeScript.
pub const JAVASCRIPT: Kit = Kit {
    name: "js",
    files: embedded!["guest-sdk/js":
        "README.md", "interpreter/action.js", "interpreter/assert.js", "interpreter/code_block.js", "interpreter/describe.js", "interpreter/directory.js", "interpreter/edits.js", "interpreter/jsdoc.js", "interpreter/lines.js", "interpreter/modules.js", "interpreter/names.js", "interpreter/package.json", "interpreter/path.js", "interpreter/process.js", "interpreter/script.js", "interpreter/typescript.js", "interpreter/web.js", "package.json", "src/action.js", "src/component.js", "src/console.js", "src/encodings.js", "src/environment.js", "src/errors.js", "src/globals.d.ts", "src/globals.js", "src/host.js", "src/http.js", "src/human.js", "src/index.d.ts", "src/index.js", "src/json.js", "src/llm.js", "src/mcp.js", "src/media.js", "src/promises.js", "src/serve.js", "src/testing.d.ts", "src/testing.js", "src/text.js", "src/timers.js", "src/tools.js", "src/trace.js", "src/validate.js"],
};

/// The script that makes components from JavaScript, and the list of the tools that it uses.
pub const JAVASCRIPT_TOOLS: Kit = Kit {
    name: "js-tools",
    files: embedded!["guest-sdk/js/toolchain": "build.mjs", "package-lock.json", "package.json"],
};

/// The SDK for Rust, without `toolchain.sh`, which is embedded in `build::toolchain`.
pub const RUST: Kit = Kit {
    name: "rust",
    files: embedded!["guest-sdk/rust":
        "Cargo.toml",
        "README.md",
        "src/action.rs",
        "src/allocator.rs",
        "src/bindings.rs",
        "src/clock.rs",
        "src/context.rs",
        "src/env.rs",
        "src/environment.rs",
        "src/export.rs",
        "src/failure.rs",
        "src/files.rs",
        "src/http.rs",
        "src/human.rs",
        "src/json.rs",
        "src/lib.rs",
        "src/llm.rs",
        "src/llm/block.rs",
        "src/log.rs",
        "src/mcp.rs",
        "src/media.rs",
        "src/memory.rs",
        "src/message.rs",
        "src/random.rs",
        "src/schema.rs",
        "src/secrets.rs",
        "src/state.rs",
        "src/testing.rs",
        "src/testing/call.rs",
        "src/testing/files.rs",
        "src/testing/imports.rs",
        "src/tools.rs",
    ],
};

impl Kit {
    /// All kits that can be requested by name.
    pub const ALL: [Self; 5] = [RUST, PYTHON, JAVASCRIPT, C, WIT];

    /// Returns the kit with this name. `ts` means the SDK for JavaScript.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = if name == "ts" { JAVASCRIPT.name } else { name };
        Self::ALL.into_iter().find(|kit| kit.name == name)
    }

    /// Returns the name: that of a language, or `wit`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the embedded files.
    pub(crate) fn files(&self) -> &'static [EmbeddedFile] {
        self.files
    }

    /// Unpacks the kit, unless it is unpacked, and returns its directory. Each version has a
    /// directory of its own.
    pub fn unpack(&self) -> Result<PathBuf, BuildError> {
        let name = format!("{}-{}", self.name, self.digest());
        cache::unpack(CacheName::Sdk, &name, self.files)
    }

    /// Returns a digest that identifies the version of the kit: 16 hexadecimal digits.
    pub fn digest(&self) -> String {
        to_hex(&hash_kit(self)[..8])
    }
}

/// Returns a digest that identifies the versions of several kits. It has the full length of a
/// SHA-256, since it must also resist deliberate collisions.
pub fn combined_digest(kits: &[Kit]) -> String {
    let mut hasher = Sha256::new();
    for kit in kits {
        hasher.update(&hash_kit(kit));
    }
    to_hex(&hasher.finish())
}

fn hash_kit(kit: &Kit) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for (path, content) in kit.files {
        for part in [path.as_bytes(), content] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// What is in an SDK's directory and is not for those who build with it.
    const LEFT_OUT: [&str; 8] = [
        "__pycache__",
        "bindgen",
        "node_modules",
        "target",
        "template",
        "tests",
        "toolchain",
        "toolchain.sh",
    ];

    /// The files below a directory that ought to ship.
    fn shipped(root: &Path, dir: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).expect("the directory is there") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with('.') || LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                shipped(root, &path, found);
            } else {
                found.insert(
                    path.strip_prefix(root)
                        .expect("it lies below")
                        .to_string_lossy()
                        .into_owned(),
                );
            }
        }
    }

    #[test]
    fn every_file_of_the_project_that_a_kit_is_made_of_is_in_it() {
        let kits = [
            (WIT, "wit"),
            (RUST, "guest-sdk/rust"),
            (PYTHON, "guest-sdk/python"),
            (JAVASCRIPT, "guest-sdk/js"),
            (JAVASCRIPT_TOOLS, "guest-sdk/js/toolchain"),
            (C, "guest-sdk/c"),
        ];
        for (kit, directory) in kits {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(directory);
            let mut expected = BTreeSet::new();
            shipped(&root, &root, &mut expected);
            let embedded: BTreeSet<String> = kit
                .files
                .iter()
                .map(|(path, _)| (*path).to_owned())
                .collect();
            assert_eq!(embedded, expected, "{directory}");
        }
    }
}
