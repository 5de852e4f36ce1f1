//! Limits the sum of all memories and tables of a store, and remembers refused growths.

use strata_base::text::units::format_bytes;
use wasmtime::ResourceLimiter;

use strata_services::plugin::{Limit, LimitReached, Limits};

/// The maximum number of linear memories of one component, including those of the components it is
/// composed of.
pub(crate) const MAX_MEMORIES: u32 = 8;
/// The maximum number of tables of one component: one for each language runtime and adapter, with a
/// reserve.
pub(crate) const MAX_TABLES: u32 = 16;
/// The maximum number of core instances of one component. A component of a large runtime has about
/// ten.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// The size of a table element in the host, in bytes.
const ELEMENT_BYTES: u64 = 8;

/// The memories and tables of a store, and the growth that was refused last: the guest sees a
/// refusal only as a return value, and the trap that follows does not give the reason.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    byte_limit: u64,
    element_limit: u64,
    used: u64,
    elements: u64,
    peak: u64,
    last_refusal: Option<RefusedGrowth>,
}

/// A growth that was refused.
#[derive(Clone, Copy, Debug)]
struct RefusedGrowth {
    limit: LimitReached,
    /// How many bytes more it asked for.
    more: u64,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            byte_limit: limits.memory_bytes,
            element_limit: limits.table_elements,
            used: 0,
            elements: 0,
            peak: 0,
            last_refusal: None,
        }
    }

    /// Returns the peak of memory in use, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns which growth was refused and by which limit, unless the guest has managed with less since: a
    /// growth by at least half of that has succeeded. Smaller ones do not count, because a guest also
    /// needs some memory to report that it got none.
    pub(crate) fn refusal(&self) -> Option<(LimitReached, String)> {
        let reached = self.last_refusal?.limit;
        let demand = reached.demand.unwrap_or_default();
        let text = match reached.limit {
            Limit::TableElements => {
                format!(
                    "limit of {} table elements reached (asked for {demand})",
                    self.element_limit
                )
            }
            _ => format!(
                "memory limit of {} reached (asked for {})",
                format_bytes(self.byte_limit),
                format_bytes(demand)
            ),
        };
        Some((reached, text))
    }

    fn grow(&mut self, more: u64, elements: u64) -> bool {
        let demand = (
            self.used.saturating_add(more),
            self.elements.saturating_add(elements),
        );
        if demand.1 > self.element_limit {
            let limit = LimitReached::with_demand(Limit::TableElements, demand.1);
            self.last_refusal = Some(RefusedGrowth { limit, more });
            return false;
        }
        if demand.0 > self.byte_limit {
            let limit = LimitReached::with_demand(Limit::Memory, demand.0);
            self.last_refusal = Some(RefusedGrowth { limit, more });
            return false;
        }
        self.last_refusal = self
            .last_refusal
            .filter(|refused| more < refused.more.div_ceil(2));
        (self.used, self.elements) = demand;
        self.peak = self.peak.max(self.used);
        true
    }
}

/// Returns whether a growth exceeds the declared maximum of the memory or table. It then fails in
/// any case, so it must not count and is no refusal of the host.
fn exceeds_maximum(maximum: Option<usize>, desired: usize) -> bool {
    maximum.is_some_and(|maximum| desired > maximum)
}

/// A granted growth is never subtracted again: wasmtime also reports failures of growths that it
/// did not ask about, so a guest could reduce its sum at will. A granted growth fails only if the
/// system has no memory, and then still counts.
impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(!exceeds_maximum(maximum, desired)
            && self.grow(desired.saturating_sub(current) as u64, 0))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        Ok(!exceeds_maximum(maximum, desired)
            && self.grow(more.saturating_mul(ELEMENT_BYTES), more))
    }

    fn instances(&self) -> usize {
        MAX_CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> wasmtime::Error {
        wasmtime::format_err!("overflow calculating new table size")
    }

    #[test]
    fn memories_and_tables_are_one_sum() {
        let mut memory = MemoryLimiter::new(&Limits {
            memory_bytes: 1000,
            table_elements: 60,
            ..Limits::default()
        });
        assert!(memory.memory_growing(0, 400, None).unwrap());
        assert!(memory.table_growing(0, 50, None).unwrap());
        assert!(!memory.memory_growing(400, 601, None).unwrap());
        let told = |memory: &MemoryLimiter| memory.refusal().unwrap();
        let expected = "memory limit of 1000 bytes reached (asked for 1001 bytes)";
        assert_eq!(
            told(&memory),
            (
                LimitReached::with_demand(Limit::Memory, 1001),
                expected.into()
            )
        );
        assert!(!memory.table_growing(50, 61, None).unwrap());
        let expected = "limit of 60 table elements reached (asked for 61)";
        assert_eq!(
            told(&memory),
            (
                LimitReached::with_demand(Limit::TableElements, 61),
                expected.into()
            )
        );
        assert!(memory.memory_growing(400, 600, None).unwrap());
        assert_eq!(memory.refusal(), None);
        assert_eq!(memory.peak(), 1000);
    }

    #[test]
    fn a_refusal_is_remembered_until_the_guest_gets_at_least_half_of_it() {
        let mut memory = MemoryLimiter::new(&Limits {
            memory_bytes: 1000,
            ..Limits::default()
        });
        assert!(!memory.memory_growing(0, 1200, None).unwrap());
        assert!(memory.memory_growing(0, 100, None).unwrap());
        assert!(memory.refusal().is_some());
        assert!(memory.memory_growing(100, 700, None).unwrap());
        assert_eq!(memory.refusal(), None);
    }

    #[test]
    fn a_growth_beyond_its_own_maximum_is_none_and_does_not_count() {
        let mut memory = MemoryLimiter::new(&Limits {
            memory_bytes: 1000,
            table_elements: 60,
            ..Limits::default()
        });
        assert!(!memory.memory_growing(0, 800, Some(799)).unwrap());
        assert!(!memory.table_growing(0, 50, Some(49)).unwrap());
        assert_eq!((memory.peak(), memory.refusal()), (0, None));
        assert!(memory.memory_growing(0, 800, Some(800)).unwrap());
        assert!(memory.table_growing(0, 25, Some(25)).unwrap());
        assert_eq!(memory.peak(), 1000);
    }

    #[test]
    fn no_failure_gives_anything_back() {
        let mut memory = MemoryLimiter::new(&Limits {
            memory_bytes: 1000,
            table_elements: 60,
            ..Limits::default()
        });
        assert!(memory.memory_growing(0, 1000, None).unwrap());
        memory.table_grow_failed(failed()).unwrap();
        memory.memory_grow_failed(failed()).unwrap();
        assert!(!memory.memory_growing(1000, 1001, None).unwrap());
        assert!(!memory.table_growing(0, 1, None).unwrap());
    }
}
