//! Scripts as they are written for the interpreters of the languages: what is their result, what they
//! may import, and what they are told to use instead of what the sandbox does not have.

use std::os::unix::fs::symlink;

use super::*;

/// A grant for files in `/dir`.
const GRANT: &str =
    "[role.action.allow]\ndirs = [{ host = \"dir\", guest = \"/dir\", write = true }]\n";

/// Creates a team whose second action is a script that may read and write files in `/dir`.
fn team_with_files(file: &str) -> Workspace {
    let place = team(file);
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    place.write("team.toml", format!("{text}{GRANT}"));
    fs::create_dir(place.path("dir")).unwrap();
    place
}

fn run_again(place: &Workspace) -> std::process::Output {
    let args = [
        "run",
        "team.toml",
        "--storage",
        "store",
        "--force",
        "--quiet",
    ];
    place.command(&args).output().unwrap()
}

/// Runs scripts, and compares the content of their outputs.
fn check_results(file: &str, cases: &[(&str, &str)]) {
    let place = team_with_files(file);
    for (text, expected) in cases {
        place.write(file, text);
        let ended = run_again(&place);
        let shown = String::from_utf8_lossy(&ended.stdout);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(shown.trim_end(), *expected, "{text}\n{errors}");
    }
}

/// Runs scripts that fail, and checks that their faults contain a text.
fn check_faults(file: &str, cases: &[(&str, &str)]) {
    let place = team_with_files(file);
    for (text, expected) in cases {
        place.write(file, text);
        let ended = run_again(&place);
        assert_eq!(ended.status.code(), Some(3), "{text}");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(errors.contains(expected), "{text}\n{errors}");
    }
}

#[test]
fn a_program_in_python_has_the_result_that_it_prints() {
    check_results(
        "work.py",
        &[
            (
                "import argparse, sys\n\
                 def main():\n    parser = argparse.ArgumentParser()\n    \
                 parser.add_argument('--n', type=int, default=5)\n    \
                 print('n:', parser.parse_args().n, len(sys.argv))\n    return 0\n\n\
                 if __name__ == '__main__':\n    sys.exit(main())\n",
                "n: 5 1",
            ),
            (
                "import asyncio\nasync def half(n):\n    await asyncio.sleep(0.01)\n    return n / 2\n\
                 print(await asyncio.gather(half(1), half(2)))\n",
                "[0.5, 1.0]",
            ),
            (
                "from datetime import date, datetime\nfrom decimal import Decimal\n\
                 day = datetime.strptime('5 March 2024', '%d %B %Y').date()\n\
                 return {'day': day, 'price': Decimal('1.10'), 'n': 2 ** 70, 'm': 2 ** 60}",
                "{\"day\":\"2024-03-05\",\"price\":\"1.10\",\"n\":\"1180591620717411303424\",\"m\":1152921504606846976}",
            ),
            ("2 ** 70", "1180591620717411303424"),
        ],
    );
}

/// The modules of the standard library that cannot be imported: they need libraries in C, other
/// systems, programs, windows, a terminal, or are tools of Python itself.
const MISSING: &str = "bz2 ctypes curses ensurepip fcntl grp idlelib lzma mmap msvcrt nt pty pwd pydoc_data \
     readline resource ssl syslog termios tkinter tty turtle turtledemo venv winreg winsound";

#[test]
fn the_standard_library_of_python_can_be_imported() {
    let all = "import importlib, sys\nmissing = []\n\
        for name in sorted(sys.stdlib_module_names - {'antigravity', 'this'}):\n    try:\n        \
        importlib.import_module(name)\n    except ImportError:\n        missing.append(name)\n\
        print(*(name for name in missing if not name.startswith('_')))\n";
    let used = "import email.mime.text, logging.handlers, sqlite3, tarfile, unittest.mock, xml.dom.minidom\n\
        base = sqlite3.connect(':memory:')\n\
        print(base.execute('select 1 + 1').fetchone()[0], xml.dom.minidom.parseString('<a/>').firstChild.tagName, \
        b'\\xe0'.decode('cp1253'))\n";
    check_results("work.py", &[(all, MISSING), (used, "2 a \u{3b0}")]);
}

#[test]
fn a_program_in_python_is_told_what_to_use_instead() {
    let network = "there are no sockets in the sandbox; use `strata_action.http`, with a grant in `allow.http`";
    check_faults(
        "work.py",
        &[
            (
                "import requests",
                "No module named 'requests': a script can import the standard library and `strata_action`",
            ),
            (
                "import tkinter",
                "No module named 'tkinter': `tkinter` is not available in the sandbox",
            ),
            (
                "from urllib.request import urlopen\nurlopen('https://localhost/')",
                network,
            ),
            (
                "import socket\nsocket.create_connection(('localhost', 1))",
                network,
            ),
            ("import ssl", network),
            (
                "import subprocess\nsubprocess.run(['ls'])",
                "OSError: there are no other programs in the sandbox",
            ),
            (
                "import multiprocessing\nmultiprocessing.Pool(2)",
                "OSError: there are no other programs in the sandbox",
            ),
            (
                "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print)",
                "RuntimeError: there are no threads in the sandbox",
            ),
            (
                "input('Name? ')",
                "EOFError: there is no standard input; use `cx.text`",
            ),
        ],
    );
}

#[test]
fn a_program_in_javascript_has_the_result_that_it_prints() {
    let deep = "function count(n) {\n  return n === 0 ? 0 : 1 + count(n - 1);\n}\nconsole.log(count(3000));";
    check_results(
        "work.js",
        &[
            (
                "const fs = require(\"fs\");\nconst path = require(\"node:path\");\n\
                 async function main() {\n  await new Promise((resolve) => setTimeout(resolve, 5));\n  \
                 fs.writeFileSync(path.join(\"/dir\", \"a.txt\"), \"text\");\n  \
                 console.log(\"read:\", fs.readFileSync(\"/dir/a.txt\", \"utf8\"), process.argv.length);\n}\n\
                 if (require.main === module) main();\n",
                "read: text 2",
            ),
            (
                "import { readFile } from \"node:fs/promises\";\nimport assert from \"node:assert\";\n\
                 setTimeout(() => console.log(\"late\"), 5);\n\
                 assert.equal(await readFile(\"/dir/a.txt\", \"utf8\"), \"text\");\nprocess.stdout.write(\"early\\n\");",
                "early\nlate",
            ),
            (
                "console.log(\"out\");\nconsole.error(\"log\");\nprocess.exit(0);\nconsole.log(\"not reached\");",
                "out",
            ),
            ("const n = 2n ** 70n;\nn", "1180591620717411303424"),
            (
                "return { n: 2n ** 70n, m: 5n, day: new Date(0) };",
                "{\"n\":\"1180591620717411303424\",\"m\":5,\"day\":\"1970-01-01T00:00:00.000Z\"}",
            ),
            (deep, "3000"),
        ],
    );
}

#[test]
fn a_script_in_typescript_runs_without_its_types() {
    check_results(
        "work.ts",
        &[
            (
                "import type { Context } from \"@strata/action\";\ninterface Named { name: string }\n\
                 enum Level { Low, High }\nclass Point {\n  constructor(private x: number, readonly y?: number) {}\n  \
                 sum(): number { return this.x + (this.y ?? 0); }\n}\nconst named: Named = { name: \"a\" };\n\
                 console.log(named.name as string, Level.High, new Point(1, 2).sum());\n",
                "a 1 3",
            ),
            (
                "export default (cx: { text: string }): string => cx.text.toUpperCase();",
                "ONE TWO",
            ),
        ],
    );
    check_faults(
        "work.ts",
        &[
            (
                "type A = number;\ninterface B {\n  a: A;\n}\nlet c: B;\nthrow new Error(\"here\");",
                "at work.ts:6:",
            ),
            (
                "const a: number =\n  ;",
                "SyntaxError: Unexpected token\n        at work.ts:2:3",
            ),
        ],
    );
}

#[test]
fn a_program_in_javascript_is_told_what_to_use_instead() {
    check_faults(
        "work.js",
        &[
            (
                "import axios from \"axios\";",
                "cannot find module `axios`: a script can import `@strata/action` and assert,",
            ),
            (
                "const https = require(\"https\");",
                "there are no sockets in the sandbox; use `http` of `@strata/action`",
            ),
            (
                "const { execSync } = require(\"child_process\");",
                "there are no other programs and no threads in the sandbox",
            ),
            (
                "fetch(\"https://localhost/\").then((response) => response.json());",
                "`GET https://localhost/` is not granted; add to `allow.http`",
            ),
            (
                "function unused() {\n  return 1;\n}",
                "the script `work.js` defines something and does not use it",
            ),
            (
                "console.error(\"why\");\nprocess.exit(3);",
                "the script ended with exit code 3\n    why",
            ),
            (
                "console.log(\"out\");\nprocess.exitCode = 3;",
                "the script ended with exit code 3",
            ),
            (
                "const f = (n) => [n].map(() => f(n + 1));\nf(0);",
                "stack: call stack exhausted: the script recurses too deeply",
            ),
            (
                "async function main() {\n  throw new Error(\"late\");\n}\nmain();",
                "at work.js:2:13",
            ),
        ],
    );
}

/// A team whose script comes from a message of the first action.
const PASSED: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "some words"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Write"
component = "probe.wasm"
config = { steps = [{ say = """
Install it:
```sh
pip install it
```
Then:
```py
print("in python")
```
```ts
const language: string = "typescript";
console.log("in " + language);
```
"""}] }
[[role.action]]
name = "Run"
script = "<newest>.EXTENSION"
"#;

#[test]
fn code_in_a_message_is_found_by_its_language() {
    for (extension, expected) in [
        ("py", "in python"),
        ("js", "in typescript"),
        ("ts", "in typescript"),
    ] {
        let place = Workspace::with(&PASSED.replace("EXTENSION", extension));
        without_time_limit(&place, &["check", "team.toml"]);
        let ended = run_again(&place);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(
            String::from_utf8_lossy(&ended.stdout).trim_end(),
            expected,
            "{errors}"
        );
    }
}

#[test]
fn archives_and_links_of_a_granted_directory_work_as_usual() {
    let place = team_with_files("work.py");
    fs::write(place.path("dir/run-5"), "five").unwrap();
    fs::create_dir(place.path("dir/old")).unwrap();
    fs::write(place.path("dir/old/run-4"), "four").unwrap();
    symlink("run-5", place.path("dir/latest")).unwrap();
    symlink("old", place.path("dir/before")).unwrap();
    symlink("../team.toml", place.path("dir/outside")).unwrap();
    place.write(
        "work.py",
        "import os, shutil, zipfile\n\
         shutil.make_archive('/dir/all', 'zip', '/dir/old')\n\
         print(zipfile.ZipFile('/dir/all.zip').namelist())\n\
         print(open('/dir/latest').read(), open('/dir/before/run-4').read(), os.path.islink('/dir/latest'))\n\
         for path in ('latest', 'before/new'):\n    try:\n        open('/dir/' + path, 'w')\n    \
         except OSError as error:\n        print(path, 'is not written')\n\
         try:\n    open('/dir/outside')\nexcept OSError as error:\n    print('outside is not read')\n",
    );
    let ended = run_again(&place);
    assert_eq!(
        String::from_utf8_lossy(&ended.stdout).trim_end(),
        "['run-4']\nfive four True\nlatest is not written\nbefore/new is not written\noutside is not read",
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_eq!(
        fs::read_link(place.path("dir/latest")).unwrap(),
        Path::new("run-5")
    );
    assert!(place.path("dir/all.zip").is_file());

    for change in [
        "os.remove('/dir/latest')",
        "os.replace('/dir/run-5', '/dir/latest')",
    ] {
        place.write("work.py", format!("import os\n{change}\n"));
        let failed = run_again(&place);
        let errors = String::from_utf8_lossy(&failed.stderr);
        let expected = "`latest` was a symbolic link, which an action cannot remove or replace";
        assert!(errors.contains(expected), "{errors}");
    }
    assert_eq!(fs::read(place.path("dir/run-5")).unwrap(), b"five");
}

#[test]
fn nothing_is_changed_that_a_link_in_a_writable_directory_leads_to() {
    let place = team_with_files("work.py");
    fs::write(place.path("dir/file"), "own").unwrap();
    fs::create_dir_all(place.path("dir/old/empty")).unwrap();
    fs::write(place.path("dir/old/a"), "old").unwrap();
    symlink("old", place.path("dir/link")).unwrap();
    symlink("file", place.path("dir/latest")).unwrap();
    let changes = [
        "os.remove('/dir/link/a')",
        "os.rmdir('/dir/link/empty')",
        "os.mkdir('/dir/link/new')",
        "os.rename('/dir/link/a', '/dir/a')",
        "os.rename('/dir/file', '/dir/link/file')",
        "os.replace('/dir/file', '/dir/link/a')",
        "os.link('/dir/link/a', '/dir/a')",
        "os.link('/dir/file', '/dir/link/file')",
        "os.symlink('a', '/dir/link/b')",
        "os.utime('/dir/link/a', (1, 1))",
        "os.utime('/dir/latest', (1, 1))",
        "os.truncate('/dir/link/a', 0)",
        "open('/dir/link/a', 'w')",
        "open('/dir/link/a', 'a')",
        "os.remove('a', dir_fd=os.open('/dir/link', os.O_RDONLY | os.O_DIRECTORY))",
    ];
    let mut script = "import os\n".to_owned();
    for change in changes {
        script +=
            &format!("try:\n    {change}\n    print({change:?})\nexcept OSError:\n    pass\n");
    }
    place.write("work.py", format!("{script}print('none')\n"));
    let ended = run_again(&place);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        String::from_utf8_lossy(&ended.stdout).trim_end(),
        "none",
        "{errors}"
    );
    assert_eq!(fs::read(place.path("dir/old/a")).unwrap(), b"old");
    assert_eq!(fs::read(place.path("dir/file")).unwrap(), b"own");

    // Where no link leads, all of this is allowed.
    let order = "import os\n\
        os.mkdir('/dir/old/x')\nos.rename('/dir/old/x', '/dir/old/y')\nos.rmdir('/dir/old/y')\n\
        os.utime('/dir/old/a', (1, 1))\nos.link('/dir/old/a', '/dir/old/b')\nos.remove('/dir/old/a')\n\
        os.remove('b', dir_fd=os.open('/dir/old', os.O_RDONLY | os.O_DIRECTORY))\nprint('end')\n";
    place.write("work.py", order);
    let ended = run_again(&place);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        String::from_utf8_lossy(&ended.stdout).trim_end(),
        "end",
        "{errors}"
    );
    assert!(!place.path("dir/old/a").exists());
}

#[test]
fn a_script_in_python_gets_integers_of_any_size_as_arguments() {
    let place = team("work.py");
    place.write("work.py", "return str(cx.arguments['n'] + 1)\n");
    let arguments = r#"{"n": 123456789012345678901234567890}"#;
    let tried = place.host(&["try", "work.py", "--arguments", arguments]);
    assert_eq!(tried.expect(0).stdout, "123456789012345678901234567891\n");
}
