//! How a script of a skill is run as a program by the interpreters, which run the code of an argument: the
//! code that they are given sets up arguments and standard input, and contains the script.

use serde_json::json;
use strata_core::record::id::SkillLanguage;
use strata_services::skills::SKILL_MOUNT;

/// Returns the code that runs a script. `path` is its path in the skill.
pub(super) fn program(
    language: SkillLanguage,
    path: &str,
    source: &str,
    arguments: &[&str],
    stdin: &str,
) -> String {
    let file = format!("{SKILL_MOUNT}/{path}");
    match language {
        SkillLanguage::Python => python(&file, source, arguments, stdin),
        SkillLanguage::JavaScript => java_script(&file, source, arguments, stdin),
    }
}

/// Compiles the script under its own name, so that tracebacks show its lines. Modules beside it can be
/// imported.
fn python(file: &str, source: &str, arguments: &[&str], stdin: &str) -> String {
    let input = json!({ "file": file, "source": source, "arguments": arguments, "stdin": stdin });
    // JSON within a Python string that is itself written as JSON: each escape of JSON means the same there.
    let literal = json!(input.to_string());
    format!(
        r#"import io as _io, json as _json, linecache as _linecache, sys as _sys, types as _types
_given = _json.loads({literal})
_file, _source = _given["file"], _given["source"]
_sys.argv = [_file, *_given["arguments"]]
_sys.stdin = _io.TextIOWrapper(_io.BytesIO(_given["stdin"].encode()), "utf-8")
_sys.path.insert(0, _file.rpartition("/")[0])
_linecache.cache[_file] = (len(_source), None, _source.splitlines(keepends=True), _file)
_main = _sys.modules["__main__"] = _types.ModuleType("__main__")
_main.__file__ = _file
exec(compile(_source, _file, "exec", dont_inherit=True), _main.__dict__)
_none = None
"#
    )
}

/// Puts everything into the first line, so that the lines of the script keep their numbers.
fn java_script(file: &str, source: &str, arguments: &[&str], stdin: &str) -> String {
    let mut argv = vec!["node", file];
    argv.extend(arguments);
    let (argv, stdin) = (json!(argv), json!(stdin));
    // A line that names an interpreter makes room; otherwise the script's first line follows.
    let source = match source.strip_prefix("#!") {
        Some(rest) => rest.find('\n').map_or("", |end| &rest[end..]),
        None => source,
    };
    format!(
        "process.argv = {argv}; process.stdin = {{ text: {stdin}, setEncoding() {{}}, on(event, use) {{ \
         if (event === \"data\" && this.text) use(this.text); if (event === \"end\") use(); return this; }}, \
         [Symbol.asyncIterator]() {{ const left = this.text ? [this.text] : []; return {{ next: () => \
         Promise.resolve({{ done: left.length === 0, value: left.shift() }}) }}; }} }}; {source}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_script_or_its_arguments_ends_the_string_that_holds_it() {
        let hostile = "\"\"\" + __import__('os') #\\\n\u{27}\u{27}\u{27}\u{2028}";
        let code = program(
            SkillLanguage::Python,
            "scripts/x.py",
            hostile,
            &[hostile],
            hostile,
        );
        let line = code.lines().nth(1).expect("a line");
        let literal = line
            .trim_start_matches("_given = _json.loads(")
            .trim_end_matches(')');
        let text: String = serde_json::from_str(literal).expect("one string");
        let input: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(input["source"], hostile);
        assert_eq!(input["arguments"][0], hostile);
    }
}
