//! Looks up code addresses in a component's debug information: the functions, including inlined
//! ones, and the source lines.
//!
//! The author of the component wrote this information, and any guest that fails makes the host read
//! it, so it is not trusted: everything that is read counts against a `Budget`, nothing is expanded
//! recursively without bound, and texts are cut. `unit` reads units and their functions, `line`
//! their lines.

use std::convert::Infallible;
use std::ops::Range;

use gimli::{Dwarf, EndianSlice, LittleEndian};
use wasmparser::{BinaryReader, Chunk, CodeSectionReader, Encoding, Parser, Payload};

use line::Lines;
use unit::Unit;

mod line;
mod unit;

/// The maximum size of the debug information of one component. If there is more, faults only have
/// the names of functions.
const KEPT_BYTES: usize = 16 << 20;
/// How much is read for one fault, in entries, attributes and bytes.
const STEPS: usize = 16 << 20;
/// The maximum number of functions in one frame that are inlined into each other.
const LEVELS: usize = 32;
/// The maximum length of a name, which may be mangled; `fault` shows less.
const NAME_BYTES: usize = 4 << 10;

/// A slice of debug information.
type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The debug information of a component.
#[derive(Debug, Default)]
pub(super) struct Sources {
    modules: Vec<Module>,
}

/// A module with debug information.
#[derive(Debug)]
struct Module {
    /// The range of its code section in the component. Addresses are relative to its start.
    code: Range<usize>,
    /// The offsets at which its functions start.
    functions: Vec<usize>,
    sections: Vec<(String, Vec<u8>)>,
}

/// A position in the code of a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The offset in the component.
    pub offset: usize,
    /// The offset at which its function starts.
    pub function: usize,
}

/// A function at a code position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbol {
    pub name: Option<String>,
    /// `file:line`, or only a file.
    pub source: Option<String>,
}

/// How much may still be read.
struct Budget(usize);

impl Budget {
    /// Takes this many steps. After a failure nothing more may be read.
    fn take(&mut self, steps: usize) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or_default();
        left.map(drop)
    }
}

impl Sources {
    /// Collects the debug information of a component, unless there is too much of it.
    pub(super) fn of(component: &[u8]) -> Self {
        Self {
            modules: modules(component).unwrap_or_default(),
        }
    }

    /// Returns the functions at each of these positions, the innermost first; none if nothing is
    /// known.
    pub(super) fn at(&self, places: &[Place]) -> Vec<Vec<Symbol>> {
        let mut budget = Budget(STEPS);
        let mut found = vec![Vec::new(); places.len()];
        for module in &self.modules {
            let mut addresses: Vec<Address> =
                places.iter().map(|place| module.address(*place)).collect();
            if addresses.iter().any(|address| address.at.is_some()) {
                module.look(&mut addresses, &mut budget);
                for (found, address) in found
                    .iter_mut()
                    .zip(addresses)
                    .filter(|(_, address)| address.at.is_some())
                {
                    *found = address.symbols;
                }
            }
        }
        found
    }
}

/// An address in the code of a module, and the functions found for it.
struct Address {
    /// `None` if it is in another module.
    at: Option<u64>,
    symbols: Vec<Symbol>,
}

impl Module {
    fn address(&self, place: Place) -> Address {
        // Modules that wasmtime generates to link others have offsets that may fall into any range.
        let is_here = self.code.contains(&place.offset)
            && self.functions.binary_search(&place.function).is_ok();
        Address {
            at: is_here.then(|| (place.offset - self.code.start) as u64),
            symbols: Vec::new(),
        }
    }

    /// Reads the units until all addresses are resolved or the budget is used up.
    fn look(&self, addresses: &mut [Address], budget: &mut Budget) -> Option<()> {
        let section = |id: gimli::SectionId| {
            let there = self.sections.iter().find(|(name, _)| name == id.name());
            Ok::<_, Infallible>(EndianSlice::new(
                there.map_or(&[][..], |(_, bytes)| bytes),
                LittleEndian,
            ))
        };
        let Ok(dwarf) = Dwarf::load(section);
        let mut units = dwarf.units();
        while addresses.iter().any(Address::is_open)
            && let Some(header) = units.next().ok()?
        {
            budget.take(1)?;
            // An error in one unit does not prevent reading the next.
            let Some(unit) = Unit::read(&dwarf, header, budget) else {
                continue;
            };
            let mut open: Vec<&mut Address> = addresses
                .iter_mut()
                .filter(|address| address.is_open())
                .collect();
            if unit.covers(open.iter().filter_map(|address| address.at), budget) {
                resolve(&unit, &mut open, budget);
            }
        }
        Some(())
    }
}

impl Address {
    fn is_open(&self) -> bool {
        self.at.is_some() && self.symbols.is_empty()
    }
}

/// Combines functions and lines. The line of a function is where execution was, or where the next
/// inner function was called.
fn resolve(unit: &Unit<'_>, open: &mut [&mut Address], budget: &mut Budget) {
    let at: Vec<u64> = open.iter().filter_map(|address| address.at).collect();
    let scopes = unit.functions(&at, budget);
    let lines = Lines::of(unit, &at, budget);
    for (i, address) in open.iter_mut().enumerate() {
        let mut line = lines.as_ref().and_then(|lines| lines.rows[i]);
        let mut source = |line| lines.as_ref()?.source(unit, line?, budget);
        let mut symbols = Vec::new();
        for scope in scopes[i].iter().rev() {
            symbols.push((scope, source(line)));
            line = scope.call;
        }
        if symbols.is_empty() {
            address.symbols.extend(source(line).map(|source| Symbol {
                name: None,
                source: Some(source),
            }));
            continue;
        }
        let named = symbols.into_iter().map(|(scope, source)| Symbol {
            name: unit.name_of(scope, budget),
            source,
        });
        address.symbols.extend(named);
    }
}

/// Returns a text up to its maximum length. Invalid Unicode is replaced.
fn text(bytes: Bytes<'_>, budget: &mut Budget) -> Option<String> {
    // Finding its end has read all of it.
    budget.take(bytes.slice().len())?;
    let told = bytes.slice().get(..NAME_BYTES).unwrap_or(bytes.slice());
    Some(String::from_utf8_lossy(told).into_owned())
}

/// Returns the modules of a component that have debug information; `None` if there is too much of
/// it.
fn modules(component: &[u8]) -> Option<Vec<Module>> {
    let (mut modules, mut current, mut left) = (Vec::new(), None, KEPT_BYTES);
    let (mut parser, mut outer, mut rest) = (Parser::new(0), Vec::new(), component);
    loop {
        let Chunk::Parsed { consumed, payload } = parser.parse(rest, true).ok()? else {
            return None;
        };
        rest = rest.get(consumed..)?;
        match payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => {
                current = Some(Module {
                    code: 0..0,
                    functions: Vec::new(),
                    sections: Vec::new(),
                });
            }
            Payload::CodeSectionStart { range, size, .. } => {
                parser.skip_section();
                rest = rest.get(size as usize..)?;
                if let Some(module) = &mut current {
                    module.code = range;
                }
            }
            Payload::CustomSection(section) if section.name().starts_with(".debug_") => {
                left = left.checked_sub(section.data().len())?;
                if let Some(module) = &mut current {
                    module
                        .sections
                        .push((section.name().to_owned(), section.data().to_vec()));
                }
            }
            Payload::ModuleSection { parser: inner, .. }
            | Payload::ComponentSection { parser: inner, .. } => {
                outer.push(std::mem::replace(&mut parser, inner));
            }
            Payload::End(_) => {
                if let Some(mut module) = current
                    .take()
                    .filter(|module: &Module| !module.sections.is_empty())
                {
                    module.functions = functions(component, &module.code)?;
                    modules.push(module);
                }
                let Some(next) = outer.pop() else {
                    return Some(modules);
                };
                parser = next;
            }
            _ => {}
        }
    }
}

fn functions(component: &[u8], code: &Range<usize>) -> Option<Vec<usize>> {
    let reader =
        CodeSectionReader::new(BinaryReader::new(component.get(code.clone())?, code.start)).ok()?;
    reader
        .into_iter()
        .map(|body| Some(body.ok()?.range().start))
        .collect()
}
