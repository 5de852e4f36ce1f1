//! All memories and tables of a store, summed, and what was refused of them.

use wasmtime::ResourceLimiter;

use super::bytes;
use crate::plugin::{Limit, Limits};

/// Linear memories of one component: its own and those of what it is composed of.
pub(in crate::sandbox) const MEMORIES: u32 = 8;
/// Tables of one component: one for each language runtime and adapter in it, and some to spare.
pub(in crate::sandbox) const TABLES: u32 = 16;
/// Core instances of one component; a component of a large runtime has about ten.
pub(in crate::sandbox) const INSTANCES: u32 = 64;
/// Bytes that a table element takes in the host.
const ELEMENT_BYTES: u64 = 8;

/// Sums all memories and tables of a store, and remembers what it refused: to the guest a refusal is a return value,
/// and the trap that follows does not say why.
#[derive(Debug)]
pub(in crate::sandbox) struct Memory {
    limit: u64,
    limit_elements: u64,
    used: u64,
    elements: u64,
    peak: u64,
    /// What the last growth took: bytes, and elements of tables.
    granted_last: (u64, u64),
    refused: Option<(Limit, u64)>,
}

impl Memory {
    pub(in crate::sandbox) fn new(limits: &Limits) -> Self {
        Self {
            limit: limits.memory_bytes,
            limit_elements: limits.table_elements,
            used: 0,
            elements: 0,
            peak: 0,
            granted_last: (0, 0),
            refused: None,
        }
    }

    /// The most that was in use, in bytes.
    pub(in crate::sandbox) fn peak(&self) -> u64 {
        self.peak
    }

    /// Says what was refused, and by which limit, unless the guest has got along without it since.
    pub(in crate::sandbox) fn refusal(&self) -> Option<(Limit, String)> {
        let (limit, asked) = self.refused?;
        let text = match limit {
            Limit::TableElements => {
                format!("limit of {} table elements reached (asked for {asked})", self.limit_elements)
            }
            _ => format!("memory limit of {} reached (asked for {})", bytes(self.limit), bytes(asked)),
        };
        Some((limit, text))
    }

    fn grow(&mut self, more: u64, elements: u64) -> bool {
        let asked = (self.used.saturating_add(more), self.elements.saturating_add(elements));
        if asked.1 > self.limit_elements {
            self.refused = Some((Limit::TableElements, asked.1));
            return false;
        }
        if asked.0 > self.limit {
            self.refused = Some((Limit::Memory, asked.0));
            return false;
        }
        self.refused = None;
        (self.used, self.elements) = asked;
        self.granted_last = (more, elements);
        self.peak = self.peak.max(self.used);
        true
    }

    fn give_back(&mut self) {
        self.used -= self.granted_last.0;
        self.elements -= self.granted_last.1;
        self.granted_last = (0, 0);
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current) as u64, 0))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.give_back();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        Ok(self.grow(more.saturating_mul(ELEMENT_BYTES), more))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.give_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_are_one_sum_and_a_failed_growth_is_given_back() {
        let mut memory = Memory::new(&Limits { memory_bytes: 1000, table_elements: 60, ..Limits::default() });
        assert!(memory.memory_growing(0, 400, None).unwrap());
        assert!(memory.table_growing(0, 50, None).unwrap());
        assert!(!memory.memory_growing(400, 601, None).unwrap());
        let told = |memory: &Memory| memory.refusal().unwrap();
        assert_eq!(told(&memory), (Limit::Memory, "memory limit of 1000 bytes reached (asked for 1001 bytes)".into()));
        assert!(!memory.table_growing(50, 61, None).unwrap());
        let expected = "limit of 60 table elements reached (asked for 61)";
        assert_eq!(told(&memory), (Limit::TableElements, expected.into()));
        assert!(memory.memory_growing(400, 600, None).unwrap());
        assert_eq!(memory.refusal(), None);
        memory.memory_grow_failed(wasmtime::format_err!("full")).unwrap();
        assert!(memory.memory_growing(400, 600, None).unwrap());
        assert_eq!(memory.peak(), 1000);
        assert!(memory.memory_growing(0, 0, None).unwrap());
        memory.table_grow_failed(wasmtime::format_err!("full")).unwrap();
        assert!(!memory.table_growing(50, 61, None).unwrap());
    }
}
