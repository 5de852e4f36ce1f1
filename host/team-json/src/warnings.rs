//! Warnings about the file, above all about entries that a list contains more than once although
//! each may be there only once: somebody has edited the file, or merged two. The first one counts.

use std::collections::BTreeSet;

/// The warnings about a file.
#[derive(Debug, Default)]
pub(super) struct ImportWarnings {
    warnings: Vec<String>,
}

impl ImportWarnings {
    /// Returns the first of the entries with equal keys, in order, and warns about others.
    /// `pointer` is the location of the list, and `name` the description of an entry.
    pub(super) fn first_per_key<T, K: Ord>(
        &mut self,
        pointer: impl FnOnce() -> String,
        entries: Vec<T>,
        key: impl Fn(&T) -> K,
        name: impl Fn(&T) -> String,
    ) -> Vec<T> {
        let count = entries.len();
        let mut known = BTreeSet::new();
        let mut repeated = None;
        let distinct: Vec<T> = entries
            .into_iter()
            .filter(|entry| {
                let is_first = known.insert(key(entry));
                if !is_first && repeated.is_none() {
                    repeated = Some(name(entry));
                }
                is_first
            })
            .collect();
        if let Some(name) = repeated {
            let others = match count - distinct.len() - 1 {
                0 => String::new(),
                others => format!(", as well as {others} more"),
            };
            self.warnings.push(format!(
                "`{}` has {name} more than once{others}: each counts once",
                pointer()
            ));
        }
        distinct
    }

    /// Adds a warning.
    pub(super) fn push(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use strata_base::scripted_run::team;

    use super::super::import_with_warnings;
    use super::super::tests::file;

    /// The lists whose entries may be there only once.
    const LISTS: [&str; 8] = [
        "/env/history/storage",
        "/env/roles/A/rc/memory/storage",
        "/strata/buffers/A",
        "/strata/each/A",
        "/strata/joins/quiet/queue/A",
        "/strata/joins/quiet/queue/C",
        "/strata/dead_letters",
        "/strata/outbox",
    ];

    /// Returns a file with an entry in each of the lists.
    fn full() -> Value {
        let mut file = file();
        let strata = &mut file["strata"];
        strata["buffers"]["A"] = json!(["idea"]);
        strata["each"] = json!({"A": ["idea"]});
        strata["joins"]["quiet"]["queue"] = json!({"A": ["idea"], "C": ["idea"]});
        strata["dead_letters"] = json!([{"message": "idea", "to": "nobody"}]);
        strata["outbox"] = json!([{"message": "idea", "to": ["X"]}]);
        file
    }

    #[test]
    fn what_a_list_has_twice_counts_once_and_the_operator_is_warned() {
        let read =
            |file: &Value| import_with_warnings(&team(), file.to_string().as_bytes()).unwrap();
        let once = read(&full());
        assert_eq!(once.warnings, [""; 0]);
        for pointer in LISTS {
            let mut file = full();
            let list = file
                .pointer_mut(pointer)
                .and_then(Value::as_array_mut)
                .unwrap_or_else(|| panic!("{pointer}"));
            let first = list
                .first()
                .unwrap_or_else(|| panic!("{pointer} is empty"))
                .clone();
            list.extend([first.clone(), first]);
            let twice = read(&file);
            assert_eq!(twice.env, once.env, "{pointer}");
            assert!(
                twice.warnings.len() == 1 && twice.warnings[0].contains(pointer),
                "{pointer}: {:?}",
                twice.warnings
            );
        }
    }

    #[test]
    fn what_is_on_its_way_out_twice_goes_to_all_who_are_named() {
        let mut file = full();
        let second = json!({"message": "idea", "to": ["Y", "X"]});
        file["strata"]["outbox"]
            .as_array_mut()
            .unwrap()
            .push(second);
        let env = import_with_warnings(&team(), file.to_string().as_bytes())
            .unwrap()
            .env;
        assert_eq!(
            env.outbox
                .iter()
                .map(|outbound| outbound.to.join(" "))
                .collect::<Vec<_>>(),
            ["X Y"]
        );
    }
}
