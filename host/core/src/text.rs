//! Characters that a reader cannot see, or that change how the text around them looks.
//!
//! Texts written by guests and strangers may contain them: a name can look like another one, and a
//! text that looks harmless can contain instructions to a model. Whatever is shown to a person
//! replaces them, and no name may contain them.

/// Returns whether a character is invisible, reorders the characters beside it, or ends a line.
/// These are the control characters (Unicode's category Cc, including line feeds and tabs), the
/// format characters (Cf), the line and paragraph separators (Zl, Zp), and those that Unicode tells
/// programs to ignore when they cannot draw them.
///
/// Words of many languages and emoji cannot be written without U+200C and U+200D (joiners) and
/// U+FE0E and U+FE0F (text and emoji style). These four are not included.
pub const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{600}'..='\u{605}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'
            | '\u{891}'
            | '\u{8e2}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns the first character that a name must not contain: one that is invisible, or a joiner or
/// a style selector where it has no visible effect. A joiner is allowed between two characters
/// beyond ASCII, a selector after one.
pub fn find_unfit_for_name(name: &str) -> Option<char> {
    let mut before = None;
    let mut characters = name.chars().peekable();
    while let Some(c) = characters.next() {
        let follows = before.is_some_and(|before: char| !before.is_ascii() && !is_joiner(before));
        let fits = match c {
            '\u{fe0e}' | '\u{fe0f}' => follows && !is_selector(before),
            c if is_joiner(c) => {
                follows && characters.peek().is_some_and(|after| !after.is_ascii())
            }
            c => !is_invisible(c),
        };
        if !fits {
            return Some(c);
        }
        before = Some(c);
    }
    None
}

const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

const fn is_selector(c: Option<char>) -> bool {
    matches!(c, Some('\u{fe0e}' | '\u{fe0f}'))
}

#[cfg(test)]
mod tests {
    use super::{find_unfit_for_name, is_invisible};

    #[test]
    fn what_shows_nothing_or_reorders_its_surroundings_is_invisible() {
        let invisible = "\0\n\u{1b}\u{7f}\u{85}\u{ad}\u{34f}\u{61c}\u{115f}\u{180e}\u{200b}\u{200e}\u{200f}\u{2028}\
            \u{2029}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{3164}\u{fe00}\u{feff}\u{fff9}\u{fffb}\u{1d173}\
            \u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{e01ef}";
        for c in invisible.chars() {
            assert!(is_invisible(c), "U+{:04X}", u32::from(c));
        }
        let visible = "a \u{a0}\u{e9}\u{301}\u{5d0}\u{627}\u{200c}\u{200d}\u{fe0e}\u{fe0f}\u{2014}\u{3000}\u{6f22}\
            \u{1f3fd}\u{1f1e9}\u{fffd}\u{10fffd}";
        for c in visible.chars() {
            assert!(!is_invisible(c), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn a_name_holds_joiners_only_where_words_and_emoji_need_them() {
        let check = |name: &str, unfit: Option<char>| {
            assert_eq!(find_unfit_for_name(name), unfit, "{name:?}")
        };
        check("Reviewer", None);
        check("\u{dc}berpr\u{fc}fer 2", None);
        check("\u{1f469}\u{200d}\u{1f4bb}", None);
        check("\u{2764}\u{fe0f}\u{200d}\u{1f525} \u{2764}\u{fe0f}", None);
        check(
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            None,
        );
        check("\u{915}\u{94d}\u{200d}\u{937}", None);
        check("Re\u{200b}viewer", Some('\u{200b}'));
        check("Re\u{200d}viewer", Some('\u{200d}'));
        check("\u{e9}\u{200d}a", Some('\u{200d}'));
        check("\u{5d0}\u{200c}", Some('\u{200c}'));
        check("\u{5d0}\u{200c}\u{200c}\u{5d0}", Some('\u{200c}'));
        check("\u{200d}\u{1f4bb}", Some('\u{200d}'));
        check("a\u{fe0f}", Some('\u{fe0f}'));
        check("\u{2764}\u{fe0f}\u{fe0f}", Some('\u{fe0f}'));
    }
}
