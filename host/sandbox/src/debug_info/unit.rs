//! One unit of debug information: the addresses it covers, and its functions.

use std::sync::Arc;

use gimli::{
    AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugAddrBase, DebugLineOffset,
    DebugLocListsBase, DebugRngListsBase, DebugStrOffsetsBase, Dwarf, LittleEndian, Section,
    UnitHeader, UnitOffset, constants,
};

use super::{DebugSlice, FileLine, MAX_INLINE_LEVELS, ReadBudget, read_text};

/// The maximum size of the abbreviations of a unit. Compilers need a few dozen, of a few bytes
/// each.
const MAX_ABBREVIATION_BYTES: usize = 16 << 10;
/// The maximum number of references from a function to its name: from a call to the inlined
/// function, from that to its declaration.
const MAX_REFERENCES: usize = 4;

type DwarfValue<'a> = AttributeValue<DebugSlice<'a>>;
type DwarfAttribute<'a> = gimli::Attribute<DebugSlice<'a>>;

/// A unit.
pub(super) struct DebugUnit<'a> {
    pub dwarf: &'a Dwarf<DebugSlice<'a>>,
    pub inner: gimli::Unit<DebugSlice<'a>>,
    /// The offset of its line program.
    pub lines: Option<DebugLineOffset>,
    /// The directory in which it was compiled.
    pub dir: Option<DwarfValue<'a>>,
    root: Vec<DwarfAttribute<'a>>,
}

/// A function that contains an address.
pub(super) struct FunctionScope {
    at: UnitOffset,
    depth: isize,
    /// The file and line of the call, if it was inlined.
    pub call: Option<FileLine>,
}

impl<'a> DebugUnit<'a> {
    /// Reads the root entry of a unit. `gimli::Unit::new` would also read its lines, whatever their
    /// size.
    pub(super) fn read(
        dwarf: &'a Dwarf<DebugSlice<'a>>,
        header: UnitHeader<DebugSlice<'a>>,
        budget: &mut ReadBudget,
    ) -> Option<Self> {
        let shapes = dwarf
            .debug_abbrev
            .reader()
            .slice()
            .get(header.debug_abbrev_offset().0..)?;
        let shapes = &shapes[..shapes.len().min(MAX_ABBREVIATION_BYTES)];
        // Most abbreviations are short.
        budget.take(shapes.len() / 8)?;
        let shapes = DebugAbbrev::new(shapes, LittleEndian)
            .abbreviations(DebugAbbrevOffset(0))
            .ok()?;
        let mut root = Vec::new();
        let mut entries = header.entries_raw(&shapes, None).ok()?;
        let shape = entries.read_abbreviation().ok()??;
        budget.take(shape.attributes().len())?;
        entries
            .read_attributes(shape.attributes(), &mut root)
            .ok()?;
        let (encoding, kind) = (header.encoding(), dwarf.file_type);
        let mut unit = gimli::Unit {
            abbreviations: Arc::new(shapes),
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
            addr_base: DebugAddrBase(0),
            loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
            rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
            line_program: None,
            dwo_id: None,
            header,
        };
        let (mut lines, mut dir) = (None, None);
        for attribute in &root {
            match (attribute.name(), attribute.value()) {
                (constants::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                    lines = Some(offset)
                }
                (constants::DW_AT_comp_dir, value) => dir = Some(value),
                (constants::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    unit.str_offsets_base = base;
                }
                (constants::DW_AT_addr_base, AttributeValue::DebugAddrBase(base)) => {
                    unit.addr_base = base
                }
                (constants::DW_AT_rnglists_base, AttributeValue::DebugRngListsBase(base)) => {
                    unit.rnglists_base = base
                }
                _ => {}
            }
        }
        let low = root
            .iter()
            .find(|attribute| attribute.name() == constants::DW_AT_low_pc);
        unit.low_pc = low
            .and_then(|low| dwarf.attr_address(&unit, low.value()).ok()?)
            .unwrap_or_default();
        Some(Self {
            dwarf,
            inner: unit,
            lines,
            dir,
            root,
        })
    }

    /// Returns whether the unit covers any of these addresses.
    pub(super) fn covers(
        &self,
        addresses: impl Iterator<Item = u64>,
        budget: &mut ReadBudget,
    ) -> bool {
        let addresses: Vec<u64> = addresses.collect();
        !self
            .covered_addresses(&self.root, &addresses, budget)
            .unwrap_or_default()
            .is_empty()
    }

    /// Returns the functions that contain each of these addresses, the outermost first.
    pub(super) fn scopes_at(
        &self,
        addresses: &[u64],
        budget: &mut ReadBudget,
    ) -> Vec<Vec<FunctionScope>> {
        let mut scopes: Vec<Vec<FunctionScope>> = addresses.iter().map(|_| Vec::new()).collect();
        // If reading stops early, what was found so far is still correct.
        self.visit_functions(addresses, &mut scopes, budget);
        scopes
    }

    fn visit_functions(
        &self,
        addresses: &[u64],
        scopes: &mut [Vec<FunctionScope>],
        budget: &mut ReadBudget,
    ) -> Option<()> {
        let mut entries = self
            .inner
            .header
            .entries_raw(&self.inner.abbreviations, None)
            .ok()?;
        let mut attributes = Vec::new();
        while !entries.is_empty() {
            let (at, depth) = (entries.next_offset(), entries.next_depth());
            budget.take(1)?;
            let Some(shape) = entries.read_abbreviation().ok()? else {
                continue;
            };
            budget.take(shape.attributes().len())?;
            let is_inlined = shape.tag() == constants::DW_TAG_inlined_subroutine;
            if !is_inlined && shape.tag() != constants::DW_TAG_subprogram {
                entries.skip_attributes(shape.attributes()).ok()?;
                continue;
            }
            entries
                .read_attributes(shape.attributes(), &mut attributes)
                .ok()?;
            for i in self.covered_addresses(&attributes, addresses, budget)? {
                let around = &mut scopes[i];
                if !is_inlined {
                    around.clear();
                }
                if around.len() < MAX_INLINE_LEVELS
                    && around.last().is_none_or(|outer| outer.depth < depth)
                {
                    around.push(FunctionScope {
                        at,
                        depth,
                        call: if is_inlined {
                            call_location(&attributes)
                        } else {
                            None
                        },
                    });
                }
            }
        }
        Some(())
    }

    /// Returns the indices of the addresses that an entry covers.
    fn covered_addresses(
        &self,
        entry: &[DwarfAttribute<'a>],
        addresses: &[u64],
        budget: &mut ReadBudget,
    ) -> Option<Vec<usize>> {
        let (mut low, mut high, mut length) = (None, None, None);
        let mut covered = vec![false; addresses.len()];
        let mut cover = |begin: u64, end: u64| {
            let inside = addresses.iter().map(|at| (begin..end).contains(at));
            for (covered, inside) in covered.iter_mut().zip(inside) {
                *covered |= inside;
            }
        };
        for attribute in entry {
            let address = || {
                self.dwarf
                    .attr_address(&self.inner, attribute.value())
                    .ok()
                    .flatten()
            };
            match (attribute.name(), attribute.value()) {
                (constants::DW_AT_low_pc, _) => low = address(),
                (constants::DW_AT_high_pc, AttributeValue::Udata(bytes)) => length = Some(bytes),
                (constants::DW_AT_high_pc, _) => high = address(),
                (constants::DW_AT_ranges, value) => {
                    let mut ranges = self.dwarf.attr_ranges(&self.inner, value).ok()??;
                    while let Some(range) = ranges.next().ok()? {
                        budget.take(1)?;
                        cover(range.begin, range.end);
                    }
                }
                _ => {}
            }
        }
        if let Some(low) = low
            && let Some(high) = length.map(|bytes| low.saturating_add(bytes)).or(high)
        {
            cover(low, high);
        }
        Some(
            covered
                .iter()
                .enumerate()
                .filter(|(_, covered)| **covered)
                .map(|(i, _)| i)
                .collect(),
        )
    }

    /// Returns the name of a function.
    pub(super) fn name_of(&self, scope: &FunctionScope, budget: &mut ReadBudget) -> Option<String> {
        self.name_at(scope.at, MAX_REFERENCES, budget)
    }

    fn name_at(&self, at: UnitOffset, hops: usize, budget: &mut ReadBudget) -> Option<String> {
        let mut entries = self
            .inner
            .header
            .entries_raw(&self.inner.abbreviations, Some(at))
            .ok()?;
        let shape = entries.read_abbreviation().ok()??;
        budget.take(1 + shape.attributes().len())?;
        let mut attributes = Vec::new();
        entries
            .read_attributes(shape.attributes(), &mut attributes)
            .ok()?;
        let value = |names: &[constants::DwAt]| {
            names.iter().find_map(|name| {
                attributes
                    .iter()
                    .find(|attribute| attribute.name() == *name)
            })
        };
        let names = [
            constants::DW_AT_linkage_name,
            constants::DW_AT_MIPS_linkage_name,
            constants::DW_AT_name,
        ];
        if let Some(name) = value(&names) {
            return self.read_text(name.value(), budget);
        }
        let hops = hops.checked_sub(1)?;
        match value(&[
            constants::DW_AT_abstract_origin,
            constants::DW_AT_specification,
        ])?
        .value()
        {
            AttributeValue::UnitRef(at) => self.name_at(at, hops, budget),
            // The name is in another unit.
            AttributeValue::DebugInfoRef(at) => {
                let mut units = self.dwarf.units();
                while let Some(header) = units.next().ok()? {
                    budget.take(1)?;
                    if let Some(inside) = at.to_unit_offset(&header) {
                        return DebugUnit::read(self.dwarf, header, budget)?
                            .name_at(inside, hops, budget);
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// Returns the text that an attribute contains or refers to.
    pub(super) fn read_text(
        &self,
        value: DwarfValue<'a>,
        budget: &mut ReadBudget,
    ) -> Option<String> {
        read_text(self.dwarf.attr_string(&self.inner, value).ok()?, budget)
    }
}

/// Returns the file and line at which an inlined function was called.
fn call_location(attributes: &[DwarfAttribute<'_>]) -> Option<FileLine> {
    let number = |name| {
        let attribute = attributes
            .iter()
            .find(|attribute| attribute.name() == name)?;
        match attribute.value() {
            AttributeValue::FileIndex(index) => Some(index),
            value => value.udata_value(),
        }
    };
    Some(FileLine {
        file: number(constants::DW_AT_call_file)?,
        line: number(constants::DW_AT_call_line).unwrap_or_default(),
    })
}
