//! Property tests of converting JSON to WIT values and back, with values of all types that have a
//! JSON form.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::foreign_component::{CORE, data};

/// A type with a JSON form.
#[derive(Clone, Debug)]
enum Ty {
    Bool,
    /// The name and range of an integer type.
    Int(&'static str, i128, i128),
    F32,
    F64,
    Char,
    String,
    Bytes,
    List(Box<Ty>),
    Option(Box<Ty>),
    Tuple(Vec<Ty>),
    Record(Vec<Ty>),
    Variant(Vec<Option<Ty>>),
    /// The number of cases.
    Enum(usize),
    /// The number of flags.
    Flags(usize),
    Result(Option<Box<Ty>>, Option<Box<Ty>>),
}

fn ty() -> impl Strategy<Value = Ty> {
    let ints = [
        ("u8", 0, u8::MAX.into()),
        ("u16", 0, u16::MAX.into()),
        ("u32", 0, u32::MAX.into()),
        ("u64", 0, u64::MAX.into()),
        ("s8", i8::MIN.into(), i8::MAX.into()),
        ("s16", i16::MIN.into(), i16::MAX.into()),
        ("s32", i32::MIN.into(), i32::MAX.into()),
        ("s64", i64::MIN.into(), i64::MAX.into()),
    ];
    let ints = proptest::sample::select(ints.to_vec())
        .prop_map(|(name, least, most)| Ty::Int(name, least, most));
    let plain = [Ty::Bool, Ty::F32, Ty::F64, Ty::Char, Ty::String, Ty::Bytes];
    let leaf = prop_oneof![
        proptest::sample::select(plain.to_vec()),
        ints,
        (1_usize..4).prop_map(Ty::Enum),
        (1_usize..10).prop_map(Ty::Flags),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let maybe = || proptest::option::of(inner.clone().prop_map(Box::new));
        prop_oneof![
            boxed().prop_map(list_of),
            boxed().prop_map(Ty::Option),
            vec(inner.clone(), 1..4).prop_map(Ty::Tuple),
            vec(inner.clone(), 1..4).prop_map(Ty::Record),
            vec(proptest::option::of(inner.clone()), 1..4).prop_map(Ty::Variant),
            (maybe(), maybe()).prop_map(|(ok, err)| Ty::Result(ok, err)),
        ]
    })
}

/// Lists of bytes have a JSON form of their own.
fn list_of(item: Box<Ty>) -> Ty {
    if matches!(*item, Ty::Int("u8", ..)) {
        Ty::Bytes
    } else {
        Ty::List(item)
    }
}

fn name(at: usize) -> String {
    format!("n{at}")
}

/// Generates JSON of a type, in the form in which functions return it.
fn value(ty: &Ty) -> BoxedStrategy<Value> {
    match ty {
        Ty::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Ty::Int(_, least, most) => {
            let (least, most) = (*least, *most);
            let number =
                |n: i128| u64::try_from(n).map_or_else(|_| Value::from(n as i64), Value::from);
            prop_oneof![Just(least), Just(most), least..=most]
                .prop_map(number)
                .boxed()
        }
        Ty::F32 => any::<f32>()
            .prop_map(|n| float(n.to_string().parse().expect("a number is one")))
            .boxed(),
        Ty::F64 => any::<f64>().prop_map(float).boxed(),
        Ty::Char => any::<char>().prop_map(|c| json!(c.to_string())).boxed(),
        Ty::String => any::<String>().prop_map(Value::from).boxed(),
        Ty::Bytes => "([A-Za-z0-9+/]{4}){0,3}(AA==|AAA=)?"
            .prop_map(Value::from)
            .boxed(),
        Ty::List(ty) => vec(value(ty), 0..4).prop_map(Value::from).boxed(),
        Ty::Option(inner) => {
            let nested = matches!(**inner, Ty::Option(_));
            let some = value(inner).prop_map(move |some| {
                if nested {
                    json!({ "some": some })
                } else {
                    some
                }
            });
            prop_oneof![1 => Just(Value::Null), 3 => some].boxed()
        }
        Ty::Tuple(types) => types
            .iter()
            .map(value)
            .collect::<Vec<_>>()
            .prop_map(Value::from)
            .boxed(),
        Ty::Record(types) => {
            let fields: Vec<_> = types.iter().map(value).collect();
            let named = |values: Vec<Value>| {
                values
                    .into_iter()
                    .enumerate()
                    .map(|(at, v)| (name(at), v))
                    .collect()
            };
            fields.prop_map(named).boxed()
        }
        Ty::Variant(cases) => {
            let cases: Vec<_> = cases
                .iter()
                .enumerate()
                .map(|(at, ty)| case(name(at), ty.as_ref()))
                .collect();
            proptest::strategy::Union::new(cases).boxed()
        }
        Ty::Enum(words) => (0..*words).prop_map(|at| json!(name(at))).boxed(),
        Ty::Flags(flags) => {
            let set = btree_set(0..*flags, 0..=*flags);
            set.prop_map(|set| set.into_iter().map(|at| json!(name(at))).collect())
                .boxed()
        }
        Ty::Result(ok, err) => {
            let part = |key: &'static str, ty: &Option<Box<Ty>>| {
                let value = ty
                    .as_ref()
                    .map_or_else(|| Just(Value::Null).boxed(), |ty| value(ty));
                value.prop_map(move |value| json!({ key: value }))
            };
            prop_oneof![part("ok", ok), part("err", err)].boxed()
        }
    }
}

fn case(name: String, ty: Option<&Ty>) -> BoxedStrategy<Value> {
    match ty {
        None => Just(json!(name)).boxed(),
        Some(ty) => value(ty)
            .prop_map(move |value| json!({ name.clone(): value }))
            .boxed(),
    }
}

fn float(float: f64) -> Value {
    match float {
        _ if float.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        float => json!(float),
    }
}

/// Returns a type in the text format. Types that need a name are added to `definitions`.
fn text(ty: &Ty, definitions: &mut Vec<String>) -> String {
    let define = |definition: String, definitions: &mut Vec<String>| {
        let at = definitions.len();
        definitions.push(format!(
            "(type $d{at} {definition}) (export $t{at} \"t{at}\" (type $d{at}))"
        ));
        format!("$t{at}")
    };
    match ty {
        Ty::Bool => "bool".into(),
        Ty::Int(name, ..) => (*name).into(),
        Ty::F32 => "f32".into(),
        Ty::F64 => "f64".into(),
        Ty::Char => "char".into(),
        Ty::String => "string".into(),
        Ty::Bytes => "(list u8)".into(),
        Ty::List(ty) => format!("(list {})", text(ty, definitions)),
        Ty::Option(ty) => format!("(option {})", text(ty, definitions)),
        Ty::Tuple(types) => {
            let types: Vec<String> = types.iter().map(|ty| text(ty, definitions)).collect();
            format!("(tuple {})", types.join(" "))
        }
        Ty::Record(types) => {
            let field = |(at, ty): (usize, &Ty)| {
                format!("(field \"{}\" {})", name(at), text(ty, definitions))
            };
            let fields: String = types.iter().enumerate().map(field).collect();
            define(format!("(record {fields})"), definitions)
        }
        Ty::Variant(cases) => {
            let case = |(at, ty): (usize, &Option<Ty>)| {
                let ty = ty
                    .as_ref()
                    .map(|ty| text(ty, definitions))
                    .unwrap_or_default();
                format!("(case \"{}\" {ty})", name(at))
            };
            let cases: String = cases.iter().enumerate().map(case).collect();
            define(format!("(variant {cases})"), definitions)
        }
        Ty::Enum(words) => define(format!("(enum {})", quoted(*words)), definitions),
        Ty::Flags(flags) => define(format!("(flags {})", quoted(*flags)), definitions),
        Ty::Result(ok, err) => {
            let ok = ok
                .as_ref()
                .map(|ty| text(ty, definitions))
                .unwrap_or_default();
            let err = err
                .as_ref()
                .map(|ty| format!("(error {})", text(ty, definitions)))
                .unwrap_or_default();
            format!("(result {ok} {err})")
        }
    }
}

fn quoted(words: usize) -> String {
    (0..words).map(|at| format!("\"{}\" ", name(at))).collect()
}

/// Returns a component with a function that returns a list of values unchanged.
fn echo(ty: &Ty) -> Vec<u8> {
    let mut definitions = Vec::new();
    let list = text(&Ty::List(Box::new(ty.clone())), &mut definitions);
    let definitions = definitions.concat();
    let text = format!(
        r#"(component {CORE} {definitions}
            (func $echo (param "values" {list}) (result {list})
                (canon lift (core func $i "echo") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
            (export "echo" (func $echo)))"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

proptest! {
    // Each case compiles a component, so the number of cases is small.
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_in_comes_out_again(
        (ty, values) in ty().prop_filter("bytes have a form of their own", |ty| !matches!(ty, Ty::Int("u8", ..)))
            .prop_flat_map(|ty| { let values = vec(value(&ty), 0..4); (Just(ty), values) })
    ) {
        prop_assert_eq!(data(&echo(&ty), "echo", json!(values)), Ok(json!(values)), "{:?}", ty);
    }
}

#[test]
fn what_does_not_fit_its_type_says_where_and_what_was_expected() {
    let check = |ty: Ty, value: Value, expected: &str| {
        let message = data(&echo(&ty), "echo", json!([value])).unwrap_err();
        assert!(message.contains(expected), "{ty:?}: {message}");
    };
    let u8 = || Ty::Int("u8", 0, 255);
    let point = || {
        Ty::Record(vec![
            Ty::Int("u16", 0, 65535),
            Ty::Option(Box::new(Ty::Char)),
        ])
    };
    let shape = || Ty::Variant(vec![None, Some(point())]);
    check(
        Ty::Bool,
        json!(0),
        "expected `true` or `false`, found `0` (at `/0`)",
    );
    check(
        Ty::Tuple(vec![u8(), u8()]),
        json!([1, 256]),
        "expected a whole number from 0 to 255, found `256` (at `/0/1`)",
    );
    check(
        Ty::Tuple(vec![u8()]),
        json!([1, 2]),
        "expected an array of 1",
    );
    check(
        Ty::Tuple(vec![u8()]),
        json!([1.5]),
        "expected a whole number",
    );
    check(Ty::F32, json!(1e39), "expected a number that fits 32 bits");
    check(Ty::F64, json!("nan"), "expected a number, found `\"nan\"`");
    check(Ty::Char, json!("ab"), "expected a string of one character");
    check(Ty::Bytes, json!("a"), "expected a string in base64");
    check(
        Ty::Enum(2),
        json!("n2"),
        "expected `n0` or `n1`, found `\"n2\"`",
    );
    check(
        Ty::Flags(2),
        json!(["n0", "n0"]),
        "expected each flag only once, found `\"n0\"` (at `/0/1`)",
    );
    check(point(), json!({ "n1": "x" }), "expected the key `n0`");
    check(
        point(),
        json!({ "n0": 1, "x": 2 }),
        "expected no other keys than `n0`, `n1`, found `\"x\"`",
    );
    check(
        point(),
        json!({ "n0": 1, "n1": 2 }),
        "expected a string of one character, found `2` (at `/0/n1`)",
    );
    check(shape(), json!("n1"), "expected `\"n0\"` or `{\"n1\": …}`");
    check(
        shape(),
        json!({ "n0": null }),
        "expected `\"n0\"` or `{\"n1\": …}`",
    );
    check(
        shape(),
        json!({ "n1": {} }),
        "expected the key `n0`, found `{}` (at `/0/n1`)",
    );
    check(
        Ty::Result(None, None),
        json!({ "ok": 1 }),
        "expected `null`, found `1` (at `/0/ok`)",
    );
    check(
        Ty::Result(None, None),
        json!("ok"),
        "expected an object with one key, `ok` or `err`",
    );
    check(
        Ty::Option(Box::new(Ty::Option(Box::new(u8())))),
        json!(1),
        "expected an object with one key, `some`",
    );
}
