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
                "js" => "    greedy.js:1: a loop, perhaps this one: while",
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

#[test]
fn a_script_in_python_that_never_ends_is_reported_with_its_line() {
    let place = team("work.py");
    let text = fs::read_to_string(place.path("team.toml")).unwrap();
    let limits = "[role.action.limits]\ncpu = \"2s\"\n";
    place.write("team.toml", format!("{text}{limits}"));
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
        (
            format!("{deep}class A:\n    def __repr__(self):\n        return repr([self])\nrepr(A())\n"),
            "work.py:5, the last line to run for the first time: return repr([self])",
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
    place.write("team.toml", format!("{text}{newest}{limits}"));
    let stderr = run().stderr;
    let expected = "<newest>.py:2, the last line to run for the first time\n";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn the_missing_grant_of_a_python_script_is_named() {
    let place = team("work.py");
    let ungranted = String::from_utf8(place.read("team.toml")).unwrap();
    place.write("in/a", "data");
    let granted =
        format!("{ungranted}[role.action.allow]\ndirs = [{{ host = \"in\", guest = \"/in\" }}]\n");
    let grant = "grant it (`dirs`) in `[role.action.allow]` of A.Work";
    let code = "edit `work.py`";
    for (team, script, advice) in [
        (&ungranted, "return open('/in/a').read()", grant),
        (&ungranted, "return open('a.txt').read()", grant),
        (&granted, "return open('/other/a').read()", grant),
        (&granted, "open('/in/a', 'w')", grant),
        (&granted, "return open('/in/missing').read()", code),
        (&granted, "raise ValueError('/other/a')", code),
        (
            &granted,
            "try:\n    open('/in/a', 'w')\nexcept OSError:\n    open('/in/a')\nraise ValueError('x')",
            code,
        ),
    ] {
        place.write("team.toml", team);
        place.write("work.py", script);
        let _ = fs::remove_dir_all(place.path("store"));
        let ended = place.run().expect(3);
        assert!(
            ended.stderr.contains(advice),
            "`{advice}` of {script}: {}",
            ended.stderr
        );
    }
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
