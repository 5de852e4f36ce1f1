//! Scopes: the values that roles read after they and others have written them.

use crate::stream;
use crate::workspace::Workspace;

/// Runs a team in which A writes to the scope `s` and reads it meanwhile, and B reads it in the
/// next step. Returns what both read.
fn read(reducer: &str, steps: &str) -> (String, String) {
    let place = Workspace::with(
        &format!(
            r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[env.scope.s]
reducer = "{reducer}"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Begin"
component = "probe.wasm"
config = {{ steps = [{{ set = "k", value = START, scope = "s" }}, {{ get = "k", scope = "s" }}] }}
[[role.action]]
name = "Write"
component = "probe.wasm"
config = {{ steps = [{steps}, {{ say = "{{reads}}" }}] }}
[[role]]
name = "B"
watch = ["Write"]
[[role.action]]
name = "Read"
component = "probe.wasm"
config = {{ steps = [{{ get = "k", scope = "s" }}, {{ say = "{{reads}}" }}] }}
"#
        )
        .replace("START", if reducer == "merge" { "{ a = 0 }" } else { "1" }),
    );
    let lines = place.run().expect(0).events();
    let said = |of: &str| {
        let mut of = stream::of_kind(&lines, "action-finished")
            .into_iter()
            .filter(|line| line["action"] == of);
        of.next().unwrap()["output"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (said("Write"), said("Read"))
}

#[test]
fn a_role_reads_its_own_writes_and_others_read_the_result() {
    let check = |reducer: &str, values: [&str; 3], own: &str, others: &str| {
        let set = values.map(|value| format!("{{ set = \"k\", value = {value}, scope = \"s\" }}"));
        let (get, delete) = (
            "{ get = \"k\", scope = \"s\" }",
            "{ delete = \"k\", scope = \"s\" }",
        );
        let steps = [
            get, &set[0], get, get, &set[1], get, delete, get, &set[2], &set[1], get,
        ]
        .join(", ");
        assert_eq!(
            read(reducer, &steps),
            (own.to_owned(), others.to_owned()),
            "{reducer}"
        );
    };
    check("add", ["2", "3", "4"], "1,3,3,6,,7", "7");
    check("max", ["2", "0", "4"], "1,2,2,2,,4", "4");
    check("last", ["2", "3", "4"], "1,2,2,3,,3", "3");
    check(
        "append",
        ["2", "[3, 4]", "5"],
        "[1],[1,2],[1,2],[1,2,3,4],,[5,3,4]",
        "[5,3,4]",
    );
    let merged = r#"{"a":0},{"a":1},{"a":1},{"a":1,"b":2},,{"b":2,"c":3}"#;
    check(
        "merge",
        ["{ a = 1 }", "{ b = 2 }", "{ c = 3 }"],
        merged,
        r#"{"b":2,"c":3}"#,
    );
}
