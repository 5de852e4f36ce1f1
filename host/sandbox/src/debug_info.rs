//! Looks up code addresses in a component's debug information: the functions, including inlined
//! ones, and the source lines.
//!
//! The author of the component wrote this information, and any guest that fails makes the host read
//! it, so it is not trusted: everything that is read counts against a `ReadBudget`, nothing is expanded
//! recursively without bound, and texts are cut. `unit` reads units and their functions, `line`
//! their lines.

use std::convert::Infallible;
use std::ops::Range;

use gimli::{Dwarf, EndianSlice, LittleEndian};
use wasmparser::{BinaryReader, Chunk, CodeSectionReader, Encoding, Parser, Payload};

use line_table::LineTable;
use unit::DebugUnit;

mod line_table;
mod unit;

/// A line in a file, which is given by its index in the line table.
#[derive(Clone, Copy)]
struct FileLine {
    file: u64,
    /// Counted from 1; 0 if it is unknown.
    line: u64,
}

/// The maximum size of the debug information of one component. If there is more, faults only have
/// the names of functions.
const MAX_DEBUG_BYTES: usize = 16 << 20;
/// How much is read for one fault, in entries, attributes and bytes.
const MAX_STEPS: usize = 16 << 20;
/// The maximum number of functions in one frame that are inlined into each other.
const MAX_INLINE_LEVELS: usize = 32;
/// The maximum length of a name, which may be mangled; `fault` shows less.
const MAX_NAME_BYTES: usize = 4 << 10;

/// A slice of debug information.
type DebugSlice<'a> = EndianSlice<'a, LittleEndian>;

/// The debug information of a component.
#[derive(Debug, Default)]
pub(super) struct DebugInfo {
    modules: Vec<DebugModule>,
}

/// A module with debug information.
#[derive(Debug)]
struct DebugModule {
    /// The range of its code section in the component. Addresses are relative to its start.
    code: Range<usize>,
    /// The offsets at which its functions start.
    functions: Vec<usize>,
    sections: Vec<(String, Vec<u8>)>,
}

/// A position in the code of a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodePosition {
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
struct ReadBudget(usize);

impl ReadBudget {
    /// Takes this many steps. After a failure nothing more may be read.
    fn take(&mut self, steps: usize) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or_default();
        left.map(drop)
    }
}

impl DebugInfo {
    /// Collects the debug information of a component, unless there is too much of it.
    pub(super) fn collect(component: &[u8]) -> Self {
        Self {
            modules: find_modules(component).unwrap_or_default(),
        }
    }

    /// Returns whether nothing can be looked up in it.
    pub(super) fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Returns the functions at each of these positions, the innermost first; none if nothing is
    /// known.
    pub(super) fn symbols_at(&self, places: &[CodePosition]) -> Vec<Vec<Symbol>> {
        let mut budget = ReadBudget(MAX_STEPS);
        let mut found = vec![Vec::new(); places.len()];
        for module in &self.modules {
            let mut addresses: Vec<CodeAddress> =
                places.iter().map(|place| module.address(*place)).collect();
            if addresses.iter().any(|address| address.address.is_some()) {
                module.resolve_addresses(&mut addresses, &mut budget);
                for (found, address) in found
                    .iter_mut()
                    .zip(addresses)
                    .filter(|(_, address)| address.address.is_some())
                {
                    *found = address.symbols;
                }
            }
        }
        found
    }
}

/// An address in the code of a module, and the functions found for it.
struct CodeAddress {
    /// `None` if it is in another module.
    address: Option<u64>,
    symbols: Vec<Symbol>,
}

impl DebugModule {
    fn address(&self, place: CodePosition) -> CodeAddress {
        // Modules that wasmtime generates to link others have offsets that may fall into any range.
        let is_here = self.code.contains(&place.offset)
            && self.functions.binary_search(&place.function).is_ok();
        CodeAddress {
            address: is_here.then(|| (place.offset - self.code.start) as u64),
            symbols: Vec::new(),
        }
    }

    /// Reads the units until all addresses are resolved or the budget is used up.
    fn resolve_addresses(
        &self,
        addresses: &mut [CodeAddress],
        budget: &mut ReadBudget,
    ) -> Option<()> {
        let section = |id: gimli::SectionId| {
            let there = self.sections.iter().find(|(name, _)| name == id.name());
            Ok::<_, Infallible>(EndianSlice::new(
                there.map_or(&[][..], |(_, bytes)| bytes),
                LittleEndian,
            ))
        };
        let Ok(dwarf) = Dwarf::load(section);
        let mut units = dwarf.units();
        while addresses.iter().any(CodeAddress::is_unresolved)
            && let Some(header) = units.next().ok()?
        {
            budget.take(1)?;
            // An error in one unit does not prevent reading the next.
            let Some(unit) = DebugUnit::read(&dwarf, header, budget) else {
                continue;
            };
            let mut open: Vec<&mut CodeAddress> = addresses
                .iter_mut()
                .filter(|address| address.is_unresolved())
                .collect();
            if unit.covers(open.iter().filter_map(|address| address.address), budget) {
                resolve_in_unit(&unit, &mut open, budget);
            }
        }
        Some(())
    }
}

impl CodeAddress {
    fn is_unresolved(&self) -> bool {
        self.address.is_some() && self.symbols.is_empty()
    }
}

/// Combines functions and lines. The line of a function is where execution was, or where the next
/// inner function was called.
fn resolve_in_unit(unit: &DebugUnit<'_>, open: &mut [&mut CodeAddress], budget: &mut ReadBudget) {
    let at: Vec<u64> = open.iter().filter_map(|address| address.address).collect();
    let scopes = unit.scopes_at(&at, budget);
    let lines = LineTable::read(unit, &at, budget);
    for (i, address) in open.iter_mut().enumerate() {
        let mut line = lines.as_ref().and_then(|lines| lines.rows[i]);
        let mut source = |line| lines.as_ref()?.format_location(unit, line?, budget);
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
fn read_text(bytes: DebugSlice<'_>, budget: &mut ReadBudget) -> Option<String> {
    // Finding its end has read all of it.
    budget.take(bytes.slice().len())?;
    let prefix = bytes.slice().get(..MAX_NAME_BYTES).unwrap_or(bytes.slice());
    Some(String::from_utf8_lossy(prefix).into_owned())
}

/// Returns the modules of a component that have debug information; `None` if there is too much of
/// it.
fn find_modules(component: &[u8]) -> Option<Vec<DebugModule>> {
    let (mut modules, mut current, mut left) = (Vec::new(), None, MAX_DEBUG_BYTES);
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
                current = Some(DebugModule {
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
                    .filter(|module: &DebugModule| !module.sections.is_empty())
                {
                    module.functions = function_offsets(component, &module.code)?;
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

fn function_offsets(component: &[u8], code: &Range<usize>) -> Option<Vec<usize>> {
    let reader =
        CodeSectionReader::new(BinaryReader::new(component.get(code.clone())?, code.start)).ok()?;
    reader
        .into_iter()
        .map(|body| Some(body.ok()?.range().start))
        .collect()
}
