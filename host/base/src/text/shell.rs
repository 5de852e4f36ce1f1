//! Quotes words of commands that are suggested to people, so that a shell interprets a copied
//! command as intended, whatever the names of files and teams contain.

use std::path::Path;

/// Returns a text as one word for a shell, quoted if necessary.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into()
    } else {
        single_quoted(text)
    }
}

/// Returns a text in single quotes for a shell.
pub fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a path as one word for a shell that no program interprets as an option.
pub fn shell_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    shell_word(&if text.starts_with('-') {
        format!("./{text}")
    } else {
        text.into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_word_whatever_is_in_it() {
        let check = |text: &str, expected: &str| assert_eq!(shell_word(text), expected, "{text:?}");
        check("store/a-b_1.toml", "store/a-b_1.toml");
        check("", "''");
        check("a b", "'a b'");
        check("it's", r"'it'\''s'");
        check("$(rm x)", "'$(rm x)'");
        check("~/x", "'~/x'");
        check("gr\u{fc}n", "'gr\u{fc}n'");
        assert_eq!(shell_path(Path::new("-x y")), "'./-x y'");
    }
}
