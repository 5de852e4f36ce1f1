//! The URL of a run in a database file that holds many runs: `sqlite:PATH?run=NAME`.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, percent_decode_str, percent_encode};
use strata_base::text::suggest::suggest;
use strata_records::database_url::{ENCODED_IN_URLS, check_stored_name};
use strata_records::error::StoreError;
use url::form_urlencoded;

/// What such a URL begins with.
const SCHEME: &str = "sqlite:";
/// The parameters that a URL may have.
const PARAMETERS: [&str; 1] = ["run"];
/// The characters of a path that are not written as they are.
const ENCODED_IN_PATHS: &AsciiSet = &ENCODED_IN_URLS.remove(b'/');

/// A database file, and the run in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqliteUrl {
    pub file: PathBuf,
    /// The name of the run, if it is given.
    pub run: Option<String>,
}

impl fmt::Display for SqliteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = percent_encode(self.file.as_os_str().as_bytes(), ENCODED_IN_PATHS);
        write!(f, "{SCHEME}{path}")?;
        match &self.run {
            Some(run) => {
                let run = percent_encode(run.as_bytes(), ENCODED_IN_URLS);
                write!(f, "?run={run}")
            }
            None => Ok(()),
        }
    }
}

impl SqliteUrl {
    /// Whether a text is meant as such a URL.
    pub(crate) fn is_url(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads a URL.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        let refuse = |what: String| StoreError::InvalidUrl {
            url: text.into(),
            what,
        };
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.starts_with("//") {
            let what =
                "it has `//`; the path follows `sqlite:` at once, as in `sqlite:PATH?run=NAME`";
            return Err(refuse(what.into()));
        }
        let file = PathBuf::from(OsString::from_vec(percent_decode_str(path).collect()));
        if file.file_name().is_none() || path.ends_with('/') {
            let what = "it names no file; write `sqlite:PATH?run=NAME`";
            return Err(refuse(what.into()));
        }
        let mut parsed = Self { file, run: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "run" => parsed.run = Some(check_stored_name(&value).map_err(refuse)?),
                name => {
                    let hint = suggest(name, &PARAMETERS).unwrap_or_default();
                    let what = format!("it has an unknown parameter `{name}`; {hint}");
                    return Err(refuse(what));
                }
            }
        }
        Ok(parsed)
    }

    /// Returns the URL of another run in the same file.
    pub(crate) fn with_run(&self, run: &str) -> Self {
        Self {
            run: Some(run.into()),
            ..self.clone()
        }
    }

    /// Returns it as the path in messages.
    pub(crate) fn to_path(&self) -> PathBuf {
        Path::new(&self.to_string()).to_path_buf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_as_it_can_be_given() {
        let check = |text: &str, file: &str, run: Option<&str>, shown: &str| {
            let url = SqliteUrl::parse(text).unwrap();
            assert_eq!(
                (url.file.to_str(), url.run.as_deref()),
                (Some(file), run),
                "{text}"
            );
            assert_eq!(url.to_string(), shown);
            assert_eq!(SqliteUrl::parse(shown).unwrap(), url);
        };
        check(
            "sqlite:runs.db?run=one",
            "runs.db",
            Some("one"),
            "sqlite:runs.db?run=one",
        );
        check(
            "sqlite:/a b/%3f@é.db?run=a.b",
            "/a b/?@é.db",
            Some("a.b"),
            "sqlite:/a%20b/%3F%40%C3%A9.db?run=a.b",
        );
        check("sqlite:../runs.db", "../runs.db", None, "sqlite:../runs.db");
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        let check = |text: &str, expected: &str| {
            let error = SqliteUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(text), "{error}");
        };
        check("sqlite:", "it names no file");
        check("sqlite:?run=one", "it names no file");
        check("sqlite:runs/?run=one", "it names no file");
        check("sqlite:..?run=one", "it names no file");
        check("sqlite:///runs.db?run=one", "it has `//`");
        check("sqlite:runs.db?rum=one", "did you mean `run`?");
        check(
            "sqlite:runs.db?run=a/b/c",
            "`a/b/c` cannot be the name of a run",
        );
        check("sqlite:runs.db?run=", "cannot be the name");
    }
}
