//! `report`: a saved run as one page.

use std::fs;

use super::{Failure, ReportArgs, note, print};
use crate::launch::report as gather;
use crate::report::html;

pub(super) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    let page = html::page(&gather(&args.path)?);
    match &args.output {
        Some(file) => {
            let failed = |error| Failure::internal(format!("cannot write `{}`: {error}", file.display()));
            fs::write(file, &page).map_err(failed)?;
            note(format_args!("the report is in `{}`", file.display()));
        }
        None => print(page.trim_end()),
    }
    Ok(0)
}
