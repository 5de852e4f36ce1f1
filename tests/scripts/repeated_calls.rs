//! Scripts that are called several times: all calls are alike, though only the first one translates the
//! script.

use super::*;

/// Runs a script that counts its calls, and fails in the third one.
/// Errors and warnings must be shown as in the first one, and the replay must be equal.
fn check_repeated_calls(file: &str, script: &str, position: &str, warning: Option<&str>) {
    let place = team(file);
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    let watch = "watch = [\"UserRequirement\", \"Work\"]";
    place.write(
        "team.toml",
        text.replace("watch = [\"UserRequirement\"]", watch),
    );
    place.write(file, script);
    let failed = place.run().expect(3);
    let outputs: Vec<Value> = finished(&failed)
        .into_iter()
        .filter(|output| output["data"]["n"] != 2)
        .map(|output| output["content"].clone())
        .collect();
    assert_eq!(outputs, ["1", "11"]);
    assert!(
        failed.stderr.contains(position),
        "`{position}`: {}",
        failed.stderr
    );
    if let Some(warning) = warning {
        let shown = failed.stderr.matches(warning).count();
        assert!(shown >= 3, "`{warning}`, {shown} times: {}", failed.stderr);
    }
    let replayed = place.host(&["replay", "store", "--verify"]).expect(0);
    assert_eq!(
        replayed.stdout,
        "equal: 6, different: 0, not made again: 0\n"
    );
}

#[test]
fn each_call_of_a_script_in_javascript_is_like_the_first() {
    let script = "const [newest] = cx.news\nconst text = await newest.content\n\
        if (text === \"11\") { await null; throw new Error(\"late\") }\n\
        return text.startsWith(\"1\") ? `${text}1` : \"1\"\n";
    check_repeated_calls("work.js", script, "at work.js:3:44", None);
}

#[test]
fn each_call_of_a_script_in_python_is_like_the_first() {
    let script = "import re\ntext = cx.news[0].content\ndigits = re.match('\\d+', text)\n\
        if text == '11':\n    raise ValueError('late')\nreturn f'{text}1' if digits else '1'\n";
    check_repeated_calls(
        "work.py",
        script,
        "File \"work.py\", line 5, in <module>",
        Some("work.py:3: SyntaxWarning: "),
    );
}
