//! Scripts that reach a limit, use what is not granted, or need what the sandbox does not have.

use super::*;

#[test]
fn a_script_has_the_limits_of_its_action() {
    let spins = [
        ("team.toml", "js", "while (true) {}"),
        ("python.toml", "py", "while True:\n    pass\n"),
    ];
    let hoards = [
        (
            "team.toml",
            "js",
            "const all = []; while (true) all.push(new Uint8Array(1 << 20));",
        ),
        (
            "python.toml",
            "py",
            "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 20))\n",
        ),
    ];
    let cases = spins.map(|case| (case, "cpu: CPU limit of 2s")).into_iter();
    for ((team, ending, text), fault) in cases.chain(hoards.map(|case| (case, "memory: "))) {
        let place = copy_of_shipped_team(team);
        place.write(&format!("greedy.{ending}"), text);
        let component = format!("Runner.Run=greedy.{ending}");
        let failed = place
            .host(&["run", team, "--storage", "store", "--component", &component])
            .expect(3);
        let expected = format!("fault: Runner action 0 `Run` attempt 1: {fault}");
        assert!(
            failed.stderr.contains(&expected),
            "`{expected}`: {}",
            failed.stderr
        );
        if fault.starts_with("cpu") {
            let line = match ending {
                "js" => "    greedy.js:1, the last line to run for the first time: while",
                _ => "    greedy.py:2, the last line to run for the first time: pass",
            };
            assert!(failed.stderr.contains(line), "`{line}`: {}", failed.stderr);
            assert!(
                !failed.stderr.contains("wasm"),
                "no frames of the interpreter: {}",
                failed.stderr
            );
        }
    }
}

/// Limits of an action whose script never ends.
const SHORT: &str = "[role.action.limits]\ncpu = \"2s\"\n";

#[test]
fn a_script_in_javascript_that_never_ends_is_reported_with_its_line() {
    let place = team("work.js");
    let text = fs::read_to_string(place.path("team.toml")).unwrap();
    place.write("team.toml", format!("{text}{SHORT}"));
    let cases = [
        // The second loop. The first one ends.
        (
            "let n = 9\nwhile (n > 0) n--\nouter: for (;;)\n  n++\n",
            "work.js:3, the last line to run for the first time: outer: for (;;)",
        ),
        // A loop in a loop, without braces.
        (
            "for (const a of [1, 2])\n  if (a === 2)\n    do {} while (true)\n",
            "work.js:3, the last line to run for the first time: do {} while (true)",
        ),
        // In a function that awaits, after the end of an expression without a semicolon.
        (
            "export async function run(cx) {\n  await 1\n  for (;;) { await 2 }\n}\n",
            "work.js:3, the last line to run for the first time: for (;;) { await 2 }",
        ),
        (
            "const f = (n) => n < 2 ? 1 : f(n - 1) + f(n - 2)\nlet x = 1\nx += f(90)\n",
            "work.js:3, the last line to run for the first time: x += f(90)",
        ),
        (
            "const x = 1;\n/(a+)+$/.test('a'.repeat(40) + 'b')\n",
            "work.js:2, the last line to run for the first time: /(a+)+$/.test(",
        ),
    ];
    for (script, expected) in cases {
        place.write("work.js", script);
        let stderr = place
            .host(&["run", "team.toml", "--storage", "store", "--force"])
            .expect(3)
            .stderr;
        assert!(stderr.contains(expected), "`{expected}`: {stderr}");
    }
}

#[test]
fn a_script_in_python_that_never_ends_is_reported_with_its_line() {
    let place = team("work.py");
    let text = fs::read_to_string(place.path("team.toml")).unwrap();
    place.write("team.toml", format!("{text}{SHORT}"));
    let deep = "import sys\nsys.setrecursionlimit(10 ** 9)\n";
    let cases = [
        // The second loop. The first one ends.
        (
            "def first(n):\n    while n > 0:\n        n -= 1\n\nfirst(9)\nwhile True:\n    first(9)\n".into(),
            "work.py:7, the last line to run for the first time: first(9)",
        ),
        (
            "import re\nx = 1\nre.match('(a+)+$', 'a' * 40 + 'b')\n".into(),
            "work.py:3, the last line to run for the first time: re.match(",
        ),
        (
            "while_ = 'while True: pass'\nexec(while_)\n".into(),
            "work.py:2, the last line to run for the first time: exec(while_)",
        ),
        (
            format!("{deep}def f(x):\n    return f(x + 1)\nf(1)\n"),
            "work.py:4, the last line to run for the first time: return f(x + 1)",
        ),
        // Recursion through functions in C is an exception of the language.
        (
            format!("{deep}class A:\n    def __repr__(self):\n        return repr([self])\nrepr(A())\n"),
            "File \"work.py\", line 5, in __repr__",
        ),
    ];
    let run = || {
        place
            .host(&["run", "team.toml", "--storage", "store", "--force"])
            .expect(3)
    };
    for (script, expected) in cases {
        place.write("work.py", &script);
        let stderr = run().stderr;
        assert!(stderr.contains(expected), "`{expected}`: {stderr}");
    }
    // The source of a script in a message is not a file, so the report contains only the line
    // number.
    place.write("work.py", "return '1\\nwhile True: pass'");
    let newest = "[[role.action]]\nname = \"Run\"\nscript = \"<newest>.py\"\n";
    place.write("team.toml", format!("{text}{newest}{SHORT}"));
    let stderr = run().stderr;
    let expected = "<newest>.py:2, the last line to run for the first time\n";
    assert!(stderr.contains(expected), "{stderr}");
}

/// Runs a Python script in a team with a grant of directories or none, and checks the advice about
/// its fault.
fn check_grant_advice(place: &Workspace, dirs: Option<&str>, cases: &[(&str, &str)]) {
    let ungranted = String::from_utf8(team("work.py").read("team.toml")).unwrap();
    let grant = dirs.map(|dirs| format!("[role.action.allow]\ndirs = [{dirs}]\n"));
    place.write(
        "team.toml",
        format!("{ungranted}{}", grant.unwrap_or_default()),
    );
    for (script, advice) in cases {
        place.write("work.py", format!("import os\n{script}"));
        let _ = fs::remove_dir_all(place.path("store"));
        let ended = place.run().expect(3);
        assert!(
            ended.stderr.contains(advice),
            "`{advice}` of {script}: {}",
            ended.stderr
        );
    }
}

const ADD_GRANT: &str = "grant it (`dirs`) in `[role.action.allow]` of A.Work";
const EDIT_CODE: &str = "edit `work.py`";

#[test]
fn the_missing_grant_of_a_python_script_is_named() {
    let place = team("work.py");
    place.write("in/a", "data");
    let ungranted = [
        ("return open('/in/a').read()", ADD_GRANT),
        ("return open('a.txt').read()", ADD_GRANT),
        ("os.mkdir('/in/d')", ADD_GRANT),
    ];
    check_grant_advice(&place, None, &ungranted);
    let granted = [
        ("return open('/other/a').read()", ADD_GRANT),
        ("open('/in/a', 'w')", ADD_GRANT),
        ("return open('/in/missing').read()", EDIT_CODE),
        ("raise ValueError('/other/a')", EDIT_CODE),
        (
            "try:\n    open('/in/a', 'w')\nexcept OSError:\n    open('/in/a')\nraise ValueError('x')",
            EDIT_CODE,
        ),
    ];
    let dirs = "{ host = \"in\", guest = \"/in\" }";
    check_grant_advice(&place, Some(dirs), &granted);
}

#[test]
fn the_missing_grant_is_named_whatever_a_python_script_changes() {
    let place = team("work.py");
    place.write("in/a", "data");
    place.write("in/d/a", "data");
    let refused = [
        ("os.remove('/in/a')", ADD_GRANT),
        ("os.rename('/in/a', '/in/b')", ADD_GRANT),
        ("os.rename('/in/a', '/other/a')", ADD_GRANT),
        ("os.mkdir('/in/e')", ADD_GRANT),
        ("os.rmdir('/in/d')", ADD_GRANT),
        ("os.link('/in/a', '/in/b')", ADD_GRANT),
        ("os.symlink('a', '/in/b')", ADD_GRANT),
        ("os.utime('/in/a', (1, 1))", ADD_GRANT),
        ("os.remove('/other/a')", ADD_GRANT),
        ("os.stat('/in/../other')", ADD_GRANT),
        (
            "try:\n    os.remove('/in/a')\nexcept OSError:\n    open('/in/a')\nraise ValueError('x')",
            EDIT_CODE,
        ),
    ];
    check_grant_advice(&place, Some("{ host = \"in\", guest = \"/in\" }"), &refused);
    // No grant would allow these.
    let impossible = [
        ("os.symlink('/other', '/in/b')", EDIT_CODE),
        ("os.rmdir('/in/d')", EDIT_CODE),
    ];
    let dirs = "{ host = \"in\", guest = \"/in\", write = true }";
    check_grant_advice(&place, Some(dirs), &impossible);
}

#[test]
fn coroutines_of_python_work_and_missing_time_zones_are_reported() {
    let place = team("work.py");
    let runs = |text: &str| {
        place.write("work.py", text);
        finished(
            &place
                .host(&[
                    "run",
                    "team.toml",
                    "--force",
                    "--storage",
                    "store",
                    "--events",
                    "-",
                ])
                .expect(0),
        )
        .pop()
    };
    let coroutines = "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.01)\n    return n\n\
        async def main():\n    try:\n        await asyncio.wait_for(f(3), 0.001)\n    except TimeoutError:\n\
        \x20       return await asyncio.gather(f(1), f(2))\nreturn str(asyncio.run(main()))\n";
    assert_eq!(runs(coroutines).unwrap()["content"], "[1, 2]");
    let zones = "import zoneinfo\ntry:\n    zoneinfo.ZoneInfo(\"Europe/Berlin\")\n\
        except zoneinfo.ZoneInfoNotFoundError as error:\n    return error.args[0]\n";
    let told = runs(zones).unwrap();
    assert!(
        told["content"]
            .as_str()
            .unwrap()
            .contains("no time zone database"),
        "{told}"
    );
}
