//! Recomputes the checksums of a database after it was changed. The checksums are not secret, so a
//! stranger can do the same.

use rusqlite::types::Value;
use rusqlite::{Connection, Result, params_from_iter};

/// A table: its name, its columns except the checksum, beginning with the numeric ones, and the
/// column with the checksum.
struct Table {
    name: &'static str,
    numbers: &'static [&'static str],
    bytes: Option<&'static str>,
    sum: &'static str,
}

/// All tables with checksums over numbers, that is all except the definition.
const TABLES: [Table; 7] = [
    Table {
        name: "lineage",
        numbers: &[
            "id",
            "run",
            "number",
            "origin",
            "leaves_at",
            "events",
            "last",
            "forgotten",
            "spent",
            "since",
        ],
        bytes: Some("name"),
        sum: "sum",
    },
    Table {
        name: "run",
        numbers: &["id", "epoch", "lineage", "line"],
        bytes: Some("name"),
        sum: "sum",
    },
    Table {
        name: "event",
        numbers: &["n", "line", "lines", "time_ms", "marks"],
        bytes: Some("body"),
        sum: "sum",
    },
    Table {
        name: "gap",
        numbers: &["n", "last", "step"],
        bytes: None,
        sum: "sum",
    },
    Table {
        name: "snapshot",
        numbers: &["n"],
        bytes: Some("bundles"),
        sum: "bundles_sum",
    },
    Table {
        name: "snapshot",
        numbers: &["n"],
        bytes: Some("body"),
        sum: "sum",
    },
    // The other number, that of messages, is in the list of bundles.
    Table {
        name: "bundle",
        numbers: &["n"],
        bytes: Some("body"),
        sum: "sum",
    },
];

/// Changes cells, one for each twelve bytes, which name the table, row, column, and the new number,
/// or the bytes to overwrite and their position. Invalid edits are ignored.
pub(super) fn change(conn: &Connection, edits: &[u8]) {
    for edit in edits.chunks_exact(12) {
        let table = &TABLES[usize::from(edit[0]) % TABLES.len()];
        let _ = change_cell(conn, table, edit);
    }
}

fn change_cell(conn: &Connection, table: &Table, edit: &[u8]) -> Result<()> {
    let (name, columns) = (
        table.name,
        table.numbers.iter().chain(&table.bytes).collect::<Vec<_>>(),
    );
    let column = columns[usize::from(edit[2]) % columns.len()];
    let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| {
        row.get(0)
    })?;
    let at = i64::from(edit[1]).checked_rem(rows).unwrap_or(0);
    let found = format!("SELECT rowid, {column} FROM {name} ORDER BY rowid LIMIT 1 OFFSET {at}");
    let (id, cell): (i64, Value) =
        conn.query_row(&found, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let number = i64::from_be_bytes(edit[4..].try_into().unwrap_or_default());
    let changed = match cell {
        Value::Blob(mut bytes) if !bytes.is_empty() => {
            let at = (number >> 8).unsigned_abs() as usize % bytes.len();
            bytes[at] ^= number as u8;
            Value::Blob(bytes)
        }
        Value::Integer(_) | Value::Null => Value::Integer(number),
        other => other,
    };
    conn.execute(
        &format!("UPDATE {name} SET {column} = ?1 WHERE rowid = ?2"),
        (changed, id),
    )
    .map(drop)
}

/// Corrects all checksums that can be corrected. Returns how many were wrong.
pub(super) fn seal(conn: &Connection) -> Result<usize> {
    let bundles = counts(conn)?;
    let mut changed = 0;
    for table in &TABLES {
        let Table {
            name,
            numbers,
            bytes,
            sum,
        } = table;
        let columns = [numbers, &[bytes.unwrap_or("x''"), sum][..]]
            .concat()
            .join(", ");
        let mut rows = conn.prepare(&format!("SELECT rowid, {columns} FROM {name}"))?;
        let read = |row: &rusqlite::Row<'_>| {
            (0..numbers.len() + 3)
                .map(|i| row.get(i))
                .collect::<Result<Vec<Value>>>()
        };
        let rows: Vec<Vec<Value>> = rows.query_map([], read)?.filter_map(Result::ok).collect();
        for row in rows {
            let mut covered: Vec<i64> = row[1..=numbers.len()].iter().map(number).collect();
            if *name == "bundle" {
                covered.extend(
                    bundles
                        .iter()
                        .find(|(n, _)| *n == covered[0])
                        .map(|(_, count)| *count),
                );
            }
            let right = Value::Integer(i64::from(checksum(&covered, &row[numbers.len() + 1])));
            if right != row[numbers.len() + 2] {
                let sql = format!("UPDATE {name} SET {sum} = ?1 WHERE rowid = ?2");
                changed += conn.execute(&sql, params_from_iter([right, row[0].clone()]))?;
            }
        }
    }
    Ok(changed)
}

/// Returns the number of messages in each bundle, as stored in the lists.
fn counts(conn: &Connection) -> Result<Vec<(i64, i64)>> {
    let mut lists = conn.prepare("SELECT bundles FROM snapshot")?;
    let lists = lists
        .query_map([], |row| row.get::<_, Vec<u8>>(0))?
        .filter_map(Result::ok);
    let numbers = |list: Vec<u8>| {
        // The format and the length, and then two numbers per bundle, the first with its sign in
        // the last bit.
        let mut numbers = varints(list.get(1..).unwrap_or_default())
            .into_iter()
            .skip(1);
        let pair = move || Some((numbers.next()?, numbers.next()?));
        std::iter::from_fn(pair)
            .map(|(n, count)| ((n >> 1) as i64 ^ -((n & 1) as i64), count as i64))
            .collect::<Vec<_>>()
    };
    Ok(lists.flat_map(numbers).collect())
}

fn varints(bytes: &[u8]) -> Vec<u64> {
    let (mut all, mut number, mut shift) = (Vec::new(), 0, 0);
    for byte in bytes {
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            all.push(number);
            (number, shift) = (0, 0);
        }
    }
    all
}

/// Returns the number in a value, or -1 for null.
fn number(value: &Value) -> i64 {
    if let Value::Integer(number) = value {
        *number
    } else {
        -1
    }
}

fn checksum(numbers: &[i64], bytes: &Value) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    numbers
        .iter()
        .for_each(|number| hasher.update(&number.to_le_bytes()));
    match bytes {
        Value::Blob(bytes) => hasher.update(bytes),
        Value::Text(text) => hasher.update(text.as_bytes()),
        _ => {}
    }
    hasher.finalize()
}
