//! URLs of places in which no run can be kept, so that a slip of the pen does not create a directory of that name.

use strata_base::text::suggest::suggest;
use strata_records::error::StoreError;

/// The schemes of URLs of runs.
const SCHEMES: [&str; 3] = ["sqlite:", "postgres:", "postgresql:"];

/// Returns why a text names no run, if it is written as a URL and is none of a run: it has a scheme, and `//` after it or
/// a run at its end.
pub(super) fn refuse_foreign_url(text: &str) -> Option<StoreError> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each));
    if !is_scheme || !(rest.starts_with("//") || rest.contains("?run=")) {
        return None;
    }
    let scheme = format!("{scheme}:");
    let hint = suggest(&scheme.to_lowercase(), &SCHEMES).unwrap_or_default();
    Some(StoreError::InvalidUrl {
        // The rest may contain a password.
        url: format!("{scheme}…"),
        what: format!(
            "runs are kept in no `{scheme}` ({hint}); a directory of this name is written `./{scheme}…`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_another_scheme_is_refused_and_a_path_is_not() {
        let refused = [
            ("sqlit:runs.db?run=a", "did you mean `sqlite:`?"),
            ("SQLITE:runs.db?run=a", "did you mean `sqlite:`?"),
            ("postgress://host/teams?run=a", "did you mean `postgres:`?"),
            (
                "mysql://user:secret@host/teams",
                "expected one of: `sqlite:`",
            ),
            ("https://strata.example", "`./https:…`"),
        ];
        for (text, hint) in refused {
            let error = refuse_foreign_url(text).expect(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let paths = [
            "store",
            "./sqlit:runs.db?run=a",
            "/a:b//c?run=d",
            "a:b",
            "12:30//x",
            "what is this://?",
            "",
        ];
        for path in paths {
            assert!(refuse_foreign_url(path).is_none(), "{path}");
        }
    }
}
