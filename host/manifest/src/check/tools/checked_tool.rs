//! A tool of a role that was checked.

use std::ops::Range;

use strata_core::team::tools::Tool;
use strata_services::tools::RoleTool;

/// A tool as the core and as the model know it, and where it is named.
pub(super) struct CheckedTool {
    pub(super) core: Tool,
    pub(super) settings: RoleTool,
    pub(super) span: Range<usize>,
}
