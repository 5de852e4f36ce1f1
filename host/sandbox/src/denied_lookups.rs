//! The paths outside of the granted directories that an attempt looked for. A guest that handles the
//! absence of a file itself would never tell that it was not allowed to see it.

/// How many paths are noted about an attempt: a warning each, and the first few show what is missing.
const MAX_PATHS: usize = 4;

/// The paths that an attempt looked for in vain.
#[derive(Debug, Default)]
pub(super) struct DeniedLookups(Vec<String>);

impl DeniedLookups {
    /// Adds a path, unless it was added before or there are enough.
    pub(super) fn add(&mut self, path: &str) {
        if self.0.len() < MAX_PATHS && !self.0.iter().any(|known| known == path) {
            self.0.push(path.to_owned());
        }
    }

    /// Returns the paths in the order in which they were looked for first.
    pub(super) fn paths(&self) -> &[String] {
        &self.0
    }
}

#[test]
fn each_path_is_noted_once_and_not_very_many_of_them() {
    let mut lookups = DeniedLookups::default();
    for n in [1, 1, 2].into_iter().chain(2..20) {
        lookups.add(&format!("/{n}"));
    }
    assert_eq!(lookups.paths(), ["/1", "/2", "/3", "/4"]);
}
