//! `checkpoints`: the states that can be gone back to, oldest first.

use super::{Failure, SavedArgs, print};
use crate::launch::reader;
use crate::narrator::rfc3339;
use crate::store::CheckpointRow;

pub(super) fn checkpoints(args: &SavedArgs) -> Result<u8, Failure> {
    let rows = reader(&args.path)?.checkpoints()?;
    if args.json {
        let rows: Vec<_> = rows.iter().map(json).collect();
        print(&serde_json::Value::Array(rows).to_string());
        return Ok(0);
    }
    print(&format!("{:<14} {:>6}  {:<14} {:<10} {:<14} time", "id", "step", "parent", "source", "status"));
    for row in &rows {
        let parent = row.parent.as_ref().map_or("-", |id| id.0.as_str());
        let time = row.time_ms.map_or_else(String::new, rfc3339);
        let (source, status) = (row.source.name(), row.status.name());
        print(&format!("{:<14} {:>6}  {parent:<14} {source:<10} {status:<14} {time}", row.id.0, row.step));
    }
    Ok(0)
}

fn json(row: &CheckpointRow) -> serde_json::Value {
    serde_json::json!({
        "id": row.id.0, "step": row.step, "parent": row.parent.as_ref().map(|id| &id.0),
        "source": row.source.name(), "status": row.status.name(), "time": row.time_ms.map(rfc3339),
    })
}
