//! Actions in JavaScript and TypeScript, from their sources to what the operator is shown, and the
//! tests of the SDK. They need node, and npm's registry once.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::scaffold::a_mistyped_config_is_refused;
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "some words"
[[role]]
name = "Counter"
watch = ["UserRequirement"]
[[role.action]]
name = "Count"
component = "count"
[[role]]
name = "Reporter"
watch = ["Count"]
[[role.action]]
name = "Report"
component = "report"
config = { greeting = "hello" }
"#;

const COUNT: &str = r#"import { action, log } from "@strata/action";
import { words } from "./words.js";

export default action({
  run(cx) {
    log.info("counting");
    return { data: { words: words(cx.text).length } };
  },
});
"#;

const REPORT: &str = r#"import { action, state } from "@strata/action";

interface Config { greeting: string }

const later = <T>(value: T) => new Promise<T>((resolve) => setTimeout(() => resolve(value), 1));

export default action<Config>({
  async run(cx) {
    state.role.set("seen", cx.data);
    const { words } = await later(cx.data as { words: number });
    return `${cx.config.greeting}: ${words} at ${new Date().getFullYear() > 2000}`;
  },
});
"#;

/// Creates a team with an action in JavaScript and one in TypeScript.
fn team() -> Workspace {
    let place = Workspace::with(TEAM);
    for dir in ["count/src", "report/src"] {
        fs::create_dir_all(place.path(dir)).unwrap();
    }
    place.write(
        "count/package.json",
        r#"{ "name": "@t/count", "version": "1.2.3", "type": "module" }"#,
    );
    place.write("count/src/action.js", COUNT);
    place.write(
        "count/src/words.js",
        "export const words = (text) => text.split(/\\s+/).filter(Boolean);\n",
    );
    place.write("report/package.json", r#"{ "name": "report" }"#);
    place.write("report/src/action.ts", REPORT);
    place
}

fn said(place: &Workspace) -> Vec<String> {
    let lines = place.recorded();
    let finished = lines
        .iter()
        .filter(|line| line["kind"] == "action-finished");
    finished
        .map(|line| line["output"]["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn actions_in_javascript_and_typescript_are_run_without_a_build_and_fixed() {
    let place = team();
    let ran = place.run().expect(0);
    assert!(!ran.stderr.contains("building"), "{}", ran.stderr);
    assert_eq!(said(&place), [r#"{"words":2}"#, "hello: 2 at true"]);
    let checked = place.host(&["check", "team.toml"]).expect(0).stdout;
    let told = "source     interpreted; needs no build";
    assert_eq!(checked.matches(told).count(), 2, "{checked}");
    place.host(&["build", "count"]).expect(0);
    let again = place.host(&["build", "count"]).expect(0);
    assert_eq!(again.stderr, "");
    let described = place.host(&["describe", "count"]).expect(0).stdout;
    assert!(
        described.contains("\"1.2.3\"") && !described.contains("functions"),
        "no tool's functions: {described}"
    );
    assert!(
        again
            .stdout
            .trim_end()
            .ends_with("count/target/guest/t-count.wasm"),
        "{}",
        again.stdout
    );

    // The stack of an uncaught error refers to the sources, despite the bundle and the promises.
    place.write(
        "count/src/words.js",
        "export const words = (text) =>\n  text.words.filter(Boolean);\n",
    );
    let failed = place
        .host(&["run", "team.toml", "--storage", "broken"])
        .expect(3);
    let expected = [
        "TypeError: cannot read property 'filter' of undefined",
        "words (src/words.js:2:",
        "run (src/action.js:7:",
    ];
    expected
        .iter()
        .for_each(|part| assert!(failed.stderr.contains(part), "`{part}`: {}", failed.stderr));
    assert!(
        !failed.stderr.contains("serve.js"),
        "frames of the SDK are left out: {}",
        failed.stderr
    );
    place.write(
        "count/src/words.js",
        "export const words = () => [1, 2, 3];\n",
    );
    let resumed = place
        .host(&["run", "--recover_path", "broken", "--events", "-"])
        .expect(0);
    assert!(
        resumed.stdout.contains("hello: 3 at true"),
        "{}",
        resumed.stdout
    );
}

#[test]
fn a_bundle_is_rebuilt_when_an_imported_file_has_changed_wherever_it_is() {
    let place = team();
    fs::create_dir_all(place.path("count/dist")).unwrap();
    let source = COUNT.replace("./words.js", "../../shared/words.js");
    place.write(
        "count/package.json",
        r#"{ "name": "count", "type": "module", "main": "dist/action.js" }"#,
    );
    place.write("count/dist/action.js", &source);
    let words = |list: &str| {
        fs::create_dir_all(place.path("shared")).unwrap();
        place.write(
            "shared/words.js",
            format!("export const words = () => {list};\n"),
        );
    };
    words("[1]");
    place.run().expect(0);
    assert_eq!(said(&place)[0], r#"{"words":1}"#);
    assert_eq!(place.host(&["build", "count"]).expect(0).stderr, "");
    words("[1, 2, 3]");
    let run = |store: &str| {
        place
            .host(&["run", "team.toml", "--storage", store, "--events", "-"])
            .expect(0)
            .stdout
    };
    assert!(run("other").contains("hello: 3 at true"));
    place.write(
        "count/dist/action.js",
        source.replace("counting", "counted"),
    );
    assert!(
        place
            .host(&["build", "count"])
            .expect(0)
            .stderr
            .contains("building count")
    );
}

#[test]
fn errors_in_the_source_are_reported_with_their_positions() {
    let place = team();
    let head = "import { action } from \"@strata/action\";\n";
    let check = |file: &str, source: &str, expected: &str| {
        place.write(file, format!("{head}{source}"));
        let dir = file.split('/').next().unwrap();
        let refused = place.host(&["build", dir]).expect(2);
        assert!(
            refused.stderr.contains(expected),
            "`{expected}`: {}",
            refused.stderr
        );
    };
    check(
        "count/src/action.js",
        "export default action({ run( });",
        "src/action.js:2:",
    );
    check(
        "count/src/action.js",
        "import x from \"nowhere\";",
        "Could not resolve \"nowhere\"",
    );
    check(
        "count/src/action.js",
        "export const x = 1;",
        "`src/action.js` has no `export default action(",
    );
    check(
        "count/src/action.js",
        "null.x;\nexport default action({ run() {} });",
        "src/action.js:2:1",
    );
    check(
        "count/src/action.js",
        "export default action({ run() {}, plan() {} });",
        "\"exports\": [\"planner\"]",
    );
    check(
        "report/src/action.ts",
        "export default action({ run: (cx) => cx.txt });",
        "src/action.ts:2:41: error TS",
    );
}

#[test]
fn a_typescript_action_ignores_the_settings_of_parent_directories() {
    let place = team();
    place.write(
        "tsconfig.json",
        "{ \"extends\": \"./gone.json\", \"compilerOptions\": { \"strict\": true } }",
    );
    place.host(&["build", "report"]).expect(0);
}

#[test]
fn errors_are_reported_without_advice_that_does_not_apply() {
    let place = team();
    let check = |file: &str, source: &str, expected: &[&str]| {
        place.write(file, source);
        let refused = place
            .host(&["build", file.split('/').next().unwrap()])
            .expect(2)
            .stderr;
        expected
            .iter()
            .for_each(|part| assert!(refused.contains(part), "`{part}`: {refused}"));
        let astray = ["platform:", "as external", "npm i ", "'lib'"];
        astray
            .iter()
            .for_each(|part| assert!(!refused.contains(part), "`{part}`: {refused}"));
    };
    let no_node = "Actions do not run in node; `@strata/action` has `files`";
    check(
        "count/src/action.js",
        "import fs from \"node:fs\";\nfs.x;\n",
        &["action.js:1:15", no_node],
    );
    let named = "Add the package to `dependencies` in package.json.";
    check(
        "count/src/action.js",
        "import x from \"nowhere\";\nx();\n",
        &["Could not resolve \"nowhere\"", named],
    );
    check(
        "report/src/action.ts",
        "import fs from \"fs\";\nfs.x;\n",
        &["action.ts:1:16: error TS", no_node],
    );
    check(
        "report/src/action.ts",
        "process.exit(1);\n",
        &["Cannot find name 'process'. Actions do not run in node"],
    );
    check(
        "report/src/action.ts",
        "document.x;\n",
        &["Cannot find name 'document'. Actions do not run in a browser"],
    );
    check(
        "report/src/action.ts",
        "$(\"x\");\n",
        &["Cannot find name '$'. Actions do not run in a browser"],
    );
}

#[test]
fn the_probe_in_javascript_produces_the_same_events_as_the_one_in_rust() {
    crate::alike::assert_same_events_as_rust(&crate::probe::build("plugins/probe-js"));
    // Its source is run by the interpreter of scripts.
    crate::alike::assert_same_events_as_rust(&crate::probe::project().join("plugins/probe-js"));
}

#[test]
fn without_node_the_packages_to_install_are_named() {
    let place = team();
    let mut command = place.command(&["build", "count"]);
    command.env("PATH", place.path("nothing"));
    let refused = crate::process::Process::spawn(command).end().expect(2);
    assert!(
        refused.stderr.contains("running `node`") && refused.stderr.contains("npm"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_sdk_passes_its_own_tests() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-sdk/js");
    let ended = Command::new("node")
        .args(["--test", "tests/"])
        .current_dir(sdk)
        .output()
        .unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stdout)
    );
}

/// Creates a team with actions in a language, and checks that it runs, passes its tests, and is
/// built only once.
fn check_new_team(lang: &str) {
    let place = Workspace::empty();
    place
        .host(&["new", "team", "press", "--lang", lang])
        .expect(0);
    // Setting up the tools takes longer than the time limit of these tests.
    let built = place.command(&["build", "press/respond"]).output().unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    place
        .host(&["run", "press/team.toml", "--storage", "store"])
        .expect(0);
    assert_eq!(
        said(&place),
        [
            "At night the sea has no edge. It begins at your feet and ends among the stars.",
            "At night the sea has no edge: it begins at your feet and ends among the stars."
        ]
    );
    let tested = Command::new("npm")
        .args(["test", "--silent"])
        .current_dir(place.path("press/respond"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&tested.stdout);
    assert!(
        tested.status.success() && told.contains("# pass 1"),
        "{told}{}",
        String::from_utf8_lossy(&tested.stderr)
    );
    let again = place.host(&["build", "press/respond"]).expect(0);
    assert_eq!(again.stderr, "");
    a_mistyped_config_is_refused(&place);
}

#[test]
fn a_team_in_javascript_is_created_run_and_tested() {
    check_new_team("js");
}

#[test]
fn a_team_in_typescript_is_created_run_and_tested() {
    check_new_team("ts");
}

/// Source of actions, by what it shows: the files of a directory with the entry point `action.js` or
/// `action.ts`, and what the action returns for the message `a b`, or a part of its fault.
type SourceCase = (
    &'static str,
    &'static [(&'static str, &'static str)],
    Result<&'static str, &'static str>,
);

/// What has to be the same whether the source is built or run by the interpreter of scripts.
const SOURCE_CASES: [SourceCase; 9] = [
    (
        "imports of every kind",
        &[
            (
                "action.js",
                r#"import { action } from "@strata/action";
import fallback, { words as split, Word } from "./words.js";
import * as all from "./all";
export default action({ run: (cx) => [split(cx.text).length, fallback(), new Word().text, all.extra, all.renamed("c").length].join() });"#,
            ),
            (
                "words.js",
                r#"export default function () { return kind; }
const kind = "default";
export const words = (text) => text.split(" ");
export class Word { text = "word" }"#,
            ),
            (
                "all/index.js",
                r#"export * from "../words.js";
export { words as renamed } from "../words.js";
export const { extra, list: [, second] } = { extra: 7, list: [1, 2] };"#,
            ),
        ],
        Ok("2,default,word,7,1"),
    ),
    (
        "functions are exported before their module runs",
        &[
            (
                "action.js",
                r#"const shout = later("x");
import { later } from "./later.js";
import { action } from "@strata/action";
export default action({ run: () => shout });"#,
            ),
            (
                "later.js",
                "export { later };\nfunction later(text) { return text + \"!\"; }",
            ),
        ],
        Ok("x!"),
    ),
    (
        "modules of TypeScript and their types",
        &[
            (
                "action.ts",
                r#"import { action, type Output } from "@strata/action";
import { Kind, type Named, Pair } from "./kinds";
const named: Named = { name: "n" };
export default action({ run: (cx): Output => ({ content: `${Kind.Two} ${named.name} ${new Pair(1, 2).sum()} ${cx.news.length as number}` }) });"#,
            ),
            (
                "kinds.ts",
                r#"export enum Kind { One = 1, Two }
export interface Named { name: string }
export class Pair { constructor(private a: number, private b: number) {} sum() { return this.a + this.b; } }"#,
            ),
        ],
        Ok("2 n 3 1"),
    ),
    (
        "promises, timers and late imports",
        &[
            (
                "action.js",
                r#"import { action } from "@strata/action";
export default action({ async run() {
  await new Promise((resolve) => setTimeout(resolve, 1));
  const { value } = await import("./late.js");
  return `late ${value}`;
} });"#,
            ),
            ("late.js", "export const value = 3;"),
        ],
        Ok("late 3"),
    ),
    (
        "no names of Node and of programs",
        &[(
            "action.js",
            r#"import { action } from "@strata/action";
const cx = 1;
export default action({ run: () => [typeof process, typeof module, typeof fetch, cx].join() });"#,
        )],
        Ok("undefined,undefined,undefined,1"),
    ),
    (
        "a result without content",
        &[(
            "action.js",
            "import { action } from \"@strata/action\";\nexport default action({ run() { return { data: [1] }; } });",
        )],
        Ok("[1]"),
    ),
    (
        "an action without the function of the SDK",
        &[(
            "action.js",
            "export default { name: \"x\", run: () => \"plain\" };",
        )],
        Ok("plain"),
    ),
    (
        "the stack of an error",
        &[
            (
                "action.js",
                "import { action } from \"@strata/action\";\nimport { fail } from \"./fail.js\";\n\nexport default action({ run: () => fail() });",
            ),
            (
                "fail.js",
                "\nexport function fail() {\n  throw new TypeError(\"no\");\n}",
            ),
        ],
        Err("TypeError: no\n        at fail (fail.js:3:"),
    ),
    (
        "a value of the wrong type",
        &[(
            "action.js",
            "import { action } from \"@strata/action\";\nexport default action({ run: () => ({ contents: 1 }) });",
        )],
        Err("contents"),
    ),
];

#[test]
fn source_behaves_alike_whether_it_is_built_or_interpreted() {
    for (name, files, expected) in SOURCE_CASES {
        let place = Workspace::empty();
        place.write(
            "case/package.json",
            r#"{ "name": "case", "type": "module" }"#,
        );
        for (file, text) in files {
            place.write(&format!("case/{file}"), text);
        }
        let check = |component: &str| {
            let tried = place.host(&["try", component, "a b"]);
            let what = format!("{name}: {component}: {}{}", tried.stdout, tried.stderr);
            match expected {
                Ok(expected) => {
                    assert_eq!(tried.code, Some(0), "{what}");
                    assert_eq!(tried.stdout.trim_end(), expected, "{what}");
                }
                Err(part) => {
                    assert_eq!(tried.code, Some(3), "{what}");
                    assert!(tried.stderr.contains(part), "{what}");
                }
            }
            assert!(!tried.stderr.contains("building"), "{what}");
        };
        check("case");
        place.host(&["build", "case"]).expect(0);
        check("case/target/guest/case.wasm");
    }
}

#[test]
fn what_only_a_bundler_can_do_is_built_and_the_reason_is_said() {
    let place = team();
    let check = |package: &str, source: &str, expected: &str| {
        place.write("count/package.json", package);
        place.write("count/src/action.js", source);
        let checked = place.host(&["check", "team.toml"]).expect(0).stdout;
        let told = format!("source     built, because {expected}");
        assert!(checked.contains(&told), "`{told}`: {checked}");
    };
    let package = r#"{ "name": "count", "type": "module" }"#;
    place.write("count/src/list.json", "[1]");
    let source = COUNT.replace("./words.js", "./list.json");
    let source = source
        .replace("{ words }", "list")
        .replace("words(cx.text)", "list");
    check(package, &source, "it imports `src/list.json`");
    let source = format!("export let changing = 1;\n{COUNT}");
    check(
        package,
        &source,
        "`src/action.js` has exports of variables that can change",
    );
}
