//! What scripts say about themselves, and source in directories, which is run like a script.

use strata_host::blob::digest_of;

use super::*;

#[test]
fn a_syntax_error_is_an_error_of_check_with_its_position() {
    for (file, text, told) in [
        (
            "work.py",
            "a = 1\nb = ;",
            "work.py:2:5: SyntaxError: invalid syntax",
        ),
        (
            "work.js",
            "let a;\nlet b = ;",
            "work.js:2:9: SyntaxError: Unexpected token",
        ),
    ] {
        let place = team(file);
        place.write(file, text);
        for args in [&["check", "team.toml"][..], &["describe", file]] {
            let refused = place.host(args).expect(2);
            assert!(refused.stderr.contains(told), "{}", refused.stderr);
        }
    }
}

/// Checks that `check` and `describe` refuse a component that consists of these files, and what they say. The component is
/// the first file, or the directory `work`.
fn check_refused(component: &str, files: &[(&str, &str)], told: &str) {
    let place = team("work.py");
    let file = fs::read_to_string(place.path("team.toml")).unwrap();
    let key = if component.contains('.') {
        "script"
    } else {
        "component"
    };
    let named = format!("{key} = \"{component}\"");
    place.write("team.toml", file.replace(r#"script = "work.py""#, &named));
    for (name, text) in files {
        let path = place.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).unwrap();
        place.write(name, text);
    }
    for args in [&["check", "team.toml"][..], &["describe", component]] {
        let refused = place.host(args);
        assert_eq!(refused.code, Some(2), "{told}: {}", refused.stdout);
        assert!(refused.stderr.contains(told), "{told}: {}", refused.stderr);
    }
}

#[test]
fn a_mark_that_no_call_can_use_is_an_error_of_check_with_its_line() {
    let asynchronous =
        "from strata_action import action\n\n@action\nasync def act(cx): return ''\n";
    let two = "from strata_action import action\n@action\ndef one(cx): pass\n@action\ndef two(cx): pass\n";
    let refused = "TypeError: `act` must be a plain function";
    let told = format!("work.py:3: {refused}");
    check_refused("work.py", &[("work.py", asynchronous)], &told);
    let told = "work.py:4: TypeError: `one` and `two` are both marked";
    check_refused("work.py", &[("work.py", two)], told);
    let project = ("work/pyproject.toml", "[project]\nname = \"work\"\n");
    let entry = ("work/action.py", "import inner\n");
    let told = format!("work/inner.py:3: {refused}");
    check_refused(
        "work",
        &[project, entry, ("work/inner.py", asynchronous)],
        &told,
    );
}

#[test]
fn a_directory_whose_entry_point_has_no_action_is_an_error_of_check() {
    let project = ("work/pyproject.toml", "[project]\nname = \"work\"\n");
    let told = "work/action.py: no function of the module `action` is marked with `@action`";
    check_refused(
        "work",
        &[project, ("work/action.py", "def act(cx): return ''\n")],
        told,
    );
    let package = ("work/package.json", "{ \"name\": \"work\" }");
    let told = "work/src/action.js: `src/action.js` has no `export default action(";
    for entry in [
        "export const run = () => 1;",
        "export default { walk: () => 1 };",
    ] {
        check_refused("work", &[package, ("work/src/action.js", entry)], told);
    }
}

#[test]
fn the_import_of_a_name_that_does_not_exist_is_an_error_of_check_with_its_position() {
    let library = "export const h = 1;\nexport function f() {}\nexport { h as g };\n";
    let check = |entry: &str, told: &str| {
        let files = [
            ("work/package.json", "{ \"name\": \"work\" }"),
            ("work/src/action.js", entry),
            ("work/src/lib.js", library),
            (
                "work/src/all.js",
                "export * from \"./lib.js\";\nexport default 1;\n",
            ),
        ];
        check_refused("work", &files, told);
    };
    let action = "export default { run: () => \"fine\" };\n";
    for (import, column, told) in [
        (
            "import { h, LIMIT } from \"./lib.js\";",
            13,
            "`./lib.js` does not export `LIMIT`",
        ),
        (
            "import { g, nothere } from \"./all.js\";",
            13,
            "`./all.js` does not export `nothere`",
        ),
        (
            "import one from \"./lib.js\";",
            8,
            "`./lib.js` has no default export",
        ),
        (
            "export { f, zz } from \"./lib.js\";",
            13,
            "`./lib.js` does not export `zz`",
        ),
        (
            "import { action, nothere } from \"@strata/action\";",
            18,
            "`@strata/action` does not export `nothere`",
        ),
    ] {
        let told = format!("work/src/action.js:2:{column}: SyntaxError: {told}");
        check(&format!("\n{import}\n{action}"), &told);
    }
    let script = "\nimport { nothere } from \"@strata/action\";\nreturn 1;";
    let told = "work.js:2:10: SyntaxError: `@strata/action` does not export `nothere`";
    check_refused("work.js", &[("work.js", script)], told);
}

#[test]
fn names_that_exist_and_types_are_imported() {
    let files = [
        ("package.json", "{ \"name\": \"work\" }"),
        (
            "src/action.ts",
            "import { action, Context } from \"@strata/action\";\nimport all, { a, b as c, Shape, type Other, sum } from \"./all\";\n\
             import * as lib from \"./lib\";\nconst shape: Shape = { n: a };\nlet other: Other | undefined;\n\
             export default action({ run: (cx: Context) => `${all} ${sum(shape.n, c)} ${lib.d} ${other}` });\n",
        ),
        (
            "src/all.ts",
            "import { Other } from \"./lib\";\nexport * from \"./lib\";\nexport { Shape, d as default } from \"./lib\";\nexport { Other };\n",
        ),
        (
            "src/lib.ts",
            "export interface Shape { n: number }\nexport type Other = string;\nexport const { a, x: [b] } = { a: 1, x: [2] };\n\
             export const d = \"four\";\nexport function sum(n: number, m: number) { return n + m; }\n",
        ),
    ];
    let place = team("work.py");
    for (name, text) in files {
        let path = place.path("work").join(name);
        fs::create_dir_all(path.parent().expect("a directory")).unwrap();
        fs::write(path, text).unwrap();
    }
    let tried = place.host(&["try", "work", "x"]).expect(0);
    assert_eq!(tried.stdout, "four 3 four undefined\n");
}

/// A team with a tool that adds numbers.
fn team_with_tool(file: &str, text: &str) -> Workspace {
    let place = team(file);
    place.write(
        "team.toml",
        format!(
            r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
[[role.action]]
name = "add"
script = "{file}"
"#
        ),
    );
    place.write("replies.toml", "[[reply]]\ntext = \"done\"\n");
    place.write(file, text);
    place
}

#[test]
fn a_script_is_described_by_its_types_and_comments() {
    let python = r#"from typing import Annotated
from strata_action import Context, action

@action
def add(cx: Context, zeta: Annotated[float, "The first."], alpha: float = 2.0) -> str:
    """Adds two numbers."""
    return str(int(zeta + alpha))
"#;
    let javascript = r#"/**
 * Adds two numbers.
 * @param {number} args.zeta - The first.
 * @param {number} [args.alpha=2.0]
 */
export const run = ({ arguments: { zeta, alpha = 2 } }) => String(zeta + alpha);
"#;
    for (file, text) in [("add.py", python), ("add.js", javascript)] {
        let place = team_with_tool(file, text);
        let checked = place.host(&["check", "team.toml", "--deny-warnings"]);
        assert_eq!(checked.expect(0).stderr, "");
        let described = place.host(&["describe", file]).expect(0).stdout;
        let described: Value = serde_json::from_str(&described).unwrap();
        assert_eq!(described["description"], "Adds two numbers.");
        let schema = &described["input_schema"];
        assert_eq!(schema["required"], serde_json::json!(["zeta"]), "{file}");
        let zeta = serde_json::json!({ "type": "number", "description": "The first." });
        assert_eq!(schema["properties"]["zeta"], zeta, "{file}");
        assert_eq!(schema["properties"]["alpha"]["default"].as_f64(), Some(2.0));
        let tried = place.host(&["try", file, "--arguments", r#"{"zeta":1}"#, "x"]);
        assert_eq!(tried.expect(0).stdout, "3\n");
    }
}

#[test]
fn check_warns_about_a_tool_of_which_a_model_is_told_too_little() {
    for (file, text) in [("add.py", "return 1"), ("add.js", "return { a: 1 };")] {
        let place = team_with_tool(file, text);
        let warned = place.host(&["check", "team.toml"]).expect(0).stderr;
        for part in [
            "`A.add` has no description",
            "`A.add` declares no arguments",
        ] {
            assert!(warned.contains(part), "`{part}`: {warned}");
        }
    }
    let failing =
        "from strata_action import action\n@action\ndef add(cx):\n    'Adds.'\nopen('a.txt')\n";
    let place = team_with_tool("add.py", failing);
    let warned = place.host(&["check", "team.toml"]).expect(0).stderr;
    let told = "the script of `A.add` cannot be described completely";
    assert!(
        warned.contains(told) && warned.contains("FileNotFoundError"),
        "{warned}"
    );
}

/// The source of an action in a directory, in a language.
struct SourceDirectory {
    manifest: (&'static str, &'static str),
    entry: (&'static str, &'static str),
    /// A module that the entry point imports, with `GREETING` in place of a text.
    module: (&'static str, &'static str),
    /// An expression that fails, and how its fault is reported.
    failing: (&'static str, &'static str),
    /// The file of a test, which is no part of the action.
    test: &'static str,
    /// The position of a syntax error after `greeting = (` or the like.
    syntax_error: &'static str,
}

const DIRECTORIES: [SourceDirectory; 2] = [
    SourceDirectory {
        manifest: (
            "pyproject.toml",
            "[project]\nname = \"work\"\ndependencies = []\n",
        ),
        entry: (
            "action.py",
            "from strata_action import Context, action\nfrom lib.words import greeting\n\n@action\n\
             def work(cx: Context):\n    return {'words': greeting.split(), 'product': cx.newest.data['n'] * cx.config['by']}\n",
        ),
        module: ("lib/words.py", "greeting = GREETING\n"),
        failing: (
            "'one two'.nothing",
            "File \"lib/words.py\", line 1, in <module>",
        ),
        test: "test_action.py",
        syntax_error: "lib/words.py:1:12: SyntaxError",
    },
    SourceDirectory {
        manifest: (
            "package.json",
            "{ \"name\": \"work\", \"type\": \"module\" }\n",
        ),
        entry: (
            "src/action.js",
            "import { action } from \"@strata/action\";\nimport { greeting } from \"../lib/words.js\";\n\n\
             export default action({ run: (cx) => ({ data: { words: greeting.split(\" \"), product: cx.newest.data.n * cx.config.by } }) });\n",
        ),
        module: ("lib/words.js", "export const greeting = GREETING;\n"),
        failing: ("'one two'.no.thing", "at lib/words.js:1:"),
        test: "tests/action.test.js",
        syntax_error: "lib/words.js:1:26: SyntaxError",
    },
];

#[test]
fn source_in_a_directory_is_run_resumed_replayed_and_locked_like_a_script() {
    for directory in DIRECTORIES {
        check_directory(&directory);
    }
}

fn check_directory(directory: &SourceDirectory) {
    let place = team("work.py");
    let file = fs::read_to_string(place.path("team.toml")).unwrap();
    let file = file.replace(r#"script = "work.py""#, r#"component = "work""#);
    place.write("team.toml", file);
    for dir in ["work/lib", "work/src", "work/tests"] {
        fs::create_dir_all(place.path(dir)).unwrap();
    }
    let write = |(name, text): (&str, &str)| place.write(&format!("work/{name}"), text);
    let (module, text) = directory.module;
    let write_module = |greeting: &str| write((module, &text.replace("GREETING", greeting)));
    write(directory.manifest);
    write(directory.entry);
    write_module(directory.failing.0);
    let failed = place.run().expect(3);
    let told = directory.failing.1;
    assert!(failed.stderr.contains(told), "{}", failed.stderr);

    write_module("'one two'");
    let resumed = place.resume().expect(0);
    let mut events = resumed.events().into_iter();
    assert!(events.any(|line| line["kind"] == "component-changed"));
    let expected = serde_json::json!({ "words": ["one", "two"], "product": 6 });
    assert_eq!(finished(&resumed)[0]["data"], expected);
    let replayed = place.host(&["replay", "store", "--verify"]).expect(0);
    assert_eq!(
        replayed.stdout,
        "equal: 2, different: 0, not made again: 1\n"
    );

    place.host(&["lock", "team.toml"]).expect(0);
    let checked = place.host(&["check", "team.toml"]).expect(0);
    let told = "source     interpreted; needs no build";
    assert!(checked.stdout.contains(told), "{}", checked.stdout);
    // A test is no part of the action, but a module is.
    write((directory.test, "1 +"));
    place.host(&["check", "team.toml"]).expect(0);
    write_module("'two one'");
    let refused = place.host(&["check", "team.toml"]).expect(2);
    let told = "the component `work` has the sha256";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    assert!(!place.path("work/target").exists(), "nothing was built");

    fs::remove_file(place.path("strata.lock")).unwrap();
    write_module("(");
    let refused = place.host(&["check", "team.toml"]).expect(2);
    let told = format!("work/{}", directory.syntax_error);
    assert!(refused.stderr.contains(&told), "{}", refused.stderr);
}

#[test]
fn a_built_component_is_used_where_its_digest_is_demanded() {
    let place = team("work.js");
    let file = fs::read_to_string(place.path("team.toml")).unwrap();
    let [_, directory] = DIRECTORIES;
    for (name, text) in [directory.manifest, directory.entry, directory.module] {
        place.write(
            &format!("work/{name}"),
            text.replace("GREETING", "'one two'"),
        );
    }
    let team_with = |key: &str| {
        let named = format!("component = \"work\"\n{key}");
        place.write("team.toml", file.replace(r#"script = "work.js""#, &named));
        place.host(&["check", "team.toml"])
    };
    place.command(&["build", "work"]).output().unwrap();
    let free = team_with("").expect(0);
    assert!(
        free.stdout.contains("source     interpreted"),
        "{}",
        free.stdout
    );
    let digest = digest_of(&place.read("work/target/guest/work.wasm"));
    let pin = format!("sha256 = \"{digest}\"");
    let pinned = team_with(&pin).expect(0);
    let told = "source     built, because that component is pinned";
    assert!(pinned.stdout.contains(told), "{}", pinned.stdout);
    // It is not built again for an edit, which would need the consent of whoever pinned it.
    place.write("work/src/action.js", "export default { run: () => 1 };");
    let refused = team_with(&pin).expect(2);
    assert!(
        refused.stderr.contains("the team file pins"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_tool_whose_schema_allows_no_object_is_an_error_of_check() {
    let check = |schema: &str, code: i32| {
        let text = format!(
            "export default {{ description: \"Adds.\", inputSchema: {schema}, run: () => \"x\" }};"
        );
        let place = team_with_tool("add.js", &text);
        let checked = place.host(&["check", "team.toml"]);
        let what = format!("{schema}: {}", checked.stderr);
        assert_eq!(checked.code, Some(code), "{what}");
        let parts = [
            "`A.add` cannot be a tool: the component's schema for its arguments cannot be used: it does not allow an object",
            "team.toml:",
            "give the action an `input_schema`",
        ];
        for part in parts {
            assert_eq!(checked.stderr.contains(part), code != 0, "`{part}`: {what}");
        }
    };
    for schema in [
        r#"{ type: "string" }"#,
        r#"{ type: ["array", "null"] }"#,
        r#"{ enum: ["a", 1] }"#,
        r#"{ const: 1 }"#,
        r#"{ allOf: [{ type: "integer" }] }"#,
        r##"{ anyOf: [{ type: "integer" }, { $ref: "#/$defs/a" }], $defs: { a: { type: "null" } } }"##,
        "false",
    ] {
        check(schema, 2);
    }
    for schema in [
        r#"{ type: "object" }"#,
        r#"{ type: ["object", "null"] }"#,
        r#"{ properties: {} }"#,
        "true",
    ] {
        check(schema, 0);
    }
}
