//! Paths that were written for a shell, such as `~/notes` or `$HOME/notes`, where no shell reads them. Taken as they
//! are written, they would name a directory `~`.

use std::fmt::{self, Display, Formatter};

/// A path in which a shell would replace something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnexpandedPath {
    path: String,
    expansion: Expansion,
    /// The path that means the same name literally.
    literal: String,
}

/// What a shell would replace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expansion {
    /// The home directory of a user.
    Home,
    /// A variable, as it is written.
    Variable(String),
    /// A pattern.
    Pattern,
}

impl UnexpandedPath {
    /// Returns what a shell would replace in a path: `~` or `~NAME` at its beginning, `$NAME` or `${NAME}`, or `*`. A
    /// name that follows `./` is literal.
    ///
    /// ```
    /// use strata_base::text::unexpanded_path::UnexpandedPath;
    ///
    /// assert!(UnexpandedPath::find("~/notes").is_some());
    /// assert!(UnexpandedPath::find("./~/notes").is_none());
    /// ```
    pub fn find(path: &str) -> Option<Self> {
        let mut is_literal = false;
        let mut start = 0;
        for part in path.split('/') {
            let expansion = expansion_in(part, start == 0);
            if let Some(expansion) = expansion.filter(|_| !is_literal) {
                let (before, after) = path.split_at(start);
                return Some(Self {
                    path: path.to_owned(),
                    expansion,
                    literal: format!("{before}./{after}"),
                });
            }
            is_literal = part == ".";
            start += part.len() + 1;
        }
        None
    }

    /// Returns what to write instead, for each of the two things that the path may mean.
    pub fn hint(&self) -> String {
        let literal = &self.literal;
        match &self.expansion {
            Expansion::Home => format!(
                "for the home directory, write its full path; for what is really named like this, write `{literal}`"
            ),
            Expansion::Variable(name) => format!(
                "for the value of `{name}`, write that instead; for what is really named like this, write `{literal}`"
            ),
            Expansion::Pattern => format!(
                "a path names one file or directory, so name each of several; for what is really named like this, \
                 write `{literal}`"
            ),
        }
    }
}

impl Display for UnexpandedPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = match &self.expansion {
            Expansion::Home => "`~`",
            Expansion::Variable(name) => &format!("`{name}`"),
            Expansion::Pattern => "`*`",
        };
        write!(
            f,
            "no shell reads the path `{}`, so {what} in it stands for nothing",
            self.path
        )
    }
}

/// Returns what a shell would replace in a part of a path, which may be the first.
fn expansion_in(part: &str, is_first: bool) -> Option<Expansion> {
    let is_user = |name: &str| {
        name.bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    if is_first && part.strip_prefix('~').is_some_and(is_user) {
        return Some(Expansion::Home);
    }
    if let Some(name) = variable_in(part) {
        return Some(Expansion::Variable(name.to_owned()));
    }
    part.contains('*').then_some(Expansion::Pattern)
}

/// Returns the first variable in a part of a path: `$NAME` or `${…}`.
fn variable_in(part: &str) -> Option<&str> {
    for (at, _) in part.match_indices('$') {
        let rest = &part[at + 1..];
        let end = match rest.strip_prefix('{') {
            Some(inner) => inner.find('}').map(|end| end + 2),
            None if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                Some(end.unwrap_or(rest.len()))
            }
            None => None,
        };
        if let Some(end) = end {
            return Some(&part[at..at + 1 + end]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_replace_is_found_unless_it_is_marked_as_literal() {
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let found = UnexpandedPath::find(path);
            let found = found.map(|found| (found.to_string(), found.literal));
            match (found, expected) {
                (None, None) => {}
                (Some((text, literal)), Some((what, expected))) => {
                    assert!(text.contains(&format!("so `{what}` in it")), "{text}");
                    assert_eq!(literal, expected);
                    assert_eq!(UnexpandedPath::find(&literal), None);
                }
                (found, _) => panic!("{path}: {found:?}"),
            }
        };
        check("~", Some(("~", "./~")));
        check("~/notes", Some(("~", "./~/notes")));
        check("~ann/notes", Some(("~", "./~ann/notes")));
        check("$HOME/notes", Some(("$HOME", "./$HOME/notes")));
        check("/srv/${USER}/x", Some(("${USER}", "/srv/./${USER}/x")));
        check("out-$X.txt", Some(("$X", "./out-$X.txt")));
        check("data/*.csv", Some(("*", "data/./*.csv")));
        for literal in [
            "notes", "a~b", "notes~", "a/~/b", "cost$", "cost$5", "a$-b", "${", "./~", "[id].ts",
            "what?", "",
        ] {
            check(literal, None);
        }
    }
}
