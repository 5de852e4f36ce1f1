//! Tests of debug information: what a fault tells about the source of a guest, and that a guest
//! cannot abuse it.

use strata_core::record::fault::Fault;
use strata_host::plugin::Plugin;

use crate::driver::{call, limits, plugin, run};

/// The abbreviations of entries: 1 is a unit with lines, a directory and code, 2 a function, 3 an
/// inlined call, 4 the function that was inlined, 5 a unit with a list of ranges.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x10, 0x17, 0x1b, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0, //
    2, 0x2e, 1, 0x03, 0x0e, 0x11, 0x01, 0x12, 0x06, 0, 0, //
    3, 0x1d, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x58, 0x0b, 0x59, 0x0b, 0, 0, //
    4, 0x2e, 0, 0x03, 0x0e, 0, 0, //
    5, 0x11, 0, 0x55, 0x17, 0, 0, 0,
];
/// The line table of `a.rs`: line 42 for four bytes from 2 on.
const LINES: &[u8] = &[
    49, 0, 0, 0, 4, 0, 28, 0, 0, 0, 1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0,
    1, //
    0, b'a', b'.', b'r', b's', 0, 0, 0, 0, 0, //
    0, 5, 2, 2, 0, 0, 0, 3, 41, 1, 2, 4, 0, 1, 1,
];
/// The offset of a unit's first entry.
const FIRST_ENTRY: u32 = 11;
/// A function that fails at once, two bytes into the code.
const FAILS: &str = r#"(func $f (export "boom") unreachable)"#;
/// A function that calls itself before it fails.
const RECURSES: &str = r#"(global $left (mut i32) (i32.const 30))
    (func $f (export "boom")
        (if (i32.eqz (global.get $left)) (then unreachable))
        (global.set $left (i32.sub (global.get $left) (i32.const 1)))
        (call $f))"#;

/// Returns the fault of a component with this code and these sections.
fn fault(code: &str, sections: &[(&str, &[u8])]) -> Fault {
    let escaped = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(char::is_alphanumeric) => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("\\{byte:02x}")).collect(),
    };
    let custom = |(name, bytes): &(&str, &[u8])| {
        format!("(@custom \"{name}\" (after last) \"{}\")", escaped(bytes))
    };
    let sections: String = sections.iter().map(custom).collect();
    let text = format!(
        r#"(component (core module $m {code} {sections}) (core instance $i (instantiate $m))
            (func (export "boom") (canon lift (core func $i "boom"))))"#
    );
    let component = wat::parse_str(text).expect("the component's text is right");
    run(call(
        &component,
        Plugin {
            function: Some("boom".into()),
            ..plugin(limits())
        },
    ))
    .result
    .expect_err("it fails")
}

fn unit(entries: &[u8]) -> Vec<u8> {
    let header = [&4u16.to_le_bytes()[..], &0u32.to_le_bytes(), &[4]].concat();
    let length = u32::try_from(header.len() + entries.len()).expect("it is short");
    [&length.to_le_bytes()[..], &header, entries].concat()
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Returns a unit with a function `outer` into which `inner` is inlined `levels` times; each has
/// its offset and size.
fn inlined(levels: usize, outer: [u32; 2], inner: [u32; 2]) -> Vec<u8> {
    let names = [numbers(&[0]), numbers(&[6])];
    let root = [&[1][..], &numbers(&[0]), b"/src\0", &numbers(&[0, 0x1000])].concat();
    let origin = FIRST_ENTRY + u32::try_from(root.len()).expect("it is short");
    let level = [&[3][..], &numbers(&[origin]), &numbers(&inner), &[1, 7]].concat();
    let entries = [
        [&root[..], &[4], &names[1]].concat(),
        [&[2][..], &names[0], &numbers(&outer)].concat(),
        level.repeat(levels),
        vec![0; levels + 2],
    ];
    unit(&entries.concat())
}

#[test]
fn a_fault_names_inlined_functions_and_their_lines() {
    let info = inlined(1, [2, 4], [2, 2]);
    let sections: [(&str, &[u8]); 4] = [
        (".debug_abbrev", ABBREVIATIONS),
        (".debug_info", &info),
        (".debug_line", LINES),
        (".debug_str", b"outer\0inner\0"),
    ];
    assert_eq!(
        fault(FAILS, &sections).backtrace,
        ["inner (/src/a.rs:42)", "outer (/src/a.rs:7)"]
    );
    // Omits each section in turn.
    let lost = |without: usize| {
        let kept: Vec<_> = (0..4)
            .filter(|i| *i != without)
            .map(|i| sections[i])
            .collect();
        fault(FAILS, &kept).backtrace
    };
    assert!(lost(0)[0].starts_with("f (m+0x"), "{:?}", lost(0));
    assert!(lost(1)[0].starts_with("f (m+0x"), "{:?}", lost(1));
    assert!(lost(2)[0].starts_with("inner (m+0x"), "{:?}", lost(2));
    assert_eq!(lost(3), ["f (/src/a.rs:42)", "f (/src/a.rs:7)"]);
}

#[test]
fn long_names_and_many_levels_make_no_large_fault() {
    let short = |fault: &Fault| {
        let bytes: usize = fault.backtrace.iter().map(String::len).sum();
        assert!(
            !fault.backtrace.is_empty() && fault.backtrace.len() <= 32,
            "{}",
            fault.backtrace.len()
        );
        assert!(bytes < 80 << 10, "{bytes}");
        assert!(fault.message.contains("unreachable"), "{}", fault.message);
    };
    let long = [b"outer\0", "é".repeat(100_000).as_bytes(), b"\0"].concat();
    let info = inlined(60, [0, 0x1000], [0, 0x1000]);
    let sections: [(&str, &[u8]); 3] = [
        (".debug_abbrev", ABBREVIATIONS),
        (".debug_info", &info),
        (".debug_str", &long),
    ];
    let told = fault(RECURSES, &sections);
    short(&told);
    assert!(
        told.backtrace[0].starts_with("éé") && told.backtrace[0].contains("é… ("),
        "{}",
        told.backtrace[0]
    );
    // Names that need no debug information, of the maximum length in a module.
    short(&fault(
        &RECURSES.replace("$f", &format!("${}", "f".repeat(99_000))),
        &[],
    ));
    let mangled = format!("$_RI{}", "C1aNtB2_".repeat(10_000));
    short(&fault(&RECURSES.replace("$f", &mangled), &[]));
}

#[test]
fn debug_information_that_refers_to_itself_over_and_over_is_read_only_so_far() {
    // 20,000 units with the same 20,000 ranges, none of which contains the code.
    let ranges = [
        numbers(&[0x10_0000, 0x10_0001]).repeat(20_000),
        numbers(&[0, 0]),
    ]
    .concat();
    let units = unit(&[&[5][..], &numbers(&[0])].concat()).repeat(20_000);
    // The budget is used up before this unit is read.
    let info = [units, inlined(1, [0, 0x1000], [0, 0x1000])].concat();
    let sections: [(&str, &[u8]); 4] = [
        (".debug_abbrev", ABBREVIATIONS),
        (".debug_info", &info),
        (".debug_ranges", &ranges),
        (".debug_str", b"outer\0inner\0"),
    ];
    let told = fault(FAILS, &sections);
    assert!(
        told.backtrace[0].starts_with("f (m+0x"),
        "{:?}",
        told.backtrace
    );
}

#[test]
fn more_debug_information_than_is_kept_is_as_good_as_none() {
    let info = inlined(1, [0, 0x1000], [0, 0x1000]);
    let kept = |padding: usize| {
        let padding = vec![b'x'; padding];
        let sections: [(&str, &[u8]); 4] = [
            (".debug_abbrev", ABBREVIATIONS),
            (".debug_info", &info),
            (".debug_str", b"outer\0inner\0"),
            (".debug_types", &padding),
        ];
        fault(FAILS, &sections).backtrace
    };
    assert!(kept(1 << 10)[0].starts_with("inner ("));
    assert!(kept(16 << 20)[0].starts_with("f ("));
}

#[test]
fn damaged_debug_information_is_read_as_far_as_it_makes_sense() {
    let info = inlined(1, [2, 4], [2, 2]);
    let sections: [(&str, &[u8]); 4] = [
        (".debug_abbrev", ABBREVIATIONS),
        (".debug_info", &info),
        (".debug_line", LINES),
        (".debug_str", b"outer\0inner\0"),
    ];
    for (at, (_, whole)) in sections.iter().enumerate() {
        for i in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[i] = if i % 2 == 0 { 0xff } else { whole[i] ^ 1 };
            let mut sections = sections;
            sections[at].1 = &damaged;
            assert!(!fault(FAILS, &sections).backtrace.is_empty());
        }
    }
}
