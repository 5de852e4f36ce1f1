//! Records one by one, however many there are.

use std::iter::from_fn;

use super::{Record, StoreError};

/// How many records are in memory at once.
pub const PIECE: usize = 1024;

/// The records that `read` gives: at most so many of them after a place, and the place of the last. They end where it
/// gives no more.
pub fn each<'a>(
    mut from: u64,
    read: impl Fn(u64, usize) -> Result<(Vec<Record>, u64), StoreError> + 'a,
) -> impl Iterator<Item = Result<Record, StoreError>> + 'a {
    let mut piece = Vec::new().into_iter();
    let mut is_over = false;
    from_fn(move || {
        if let Some(record) = piece.next() {
            return Some(Ok(record));
        }
        if is_over {
            return None;
        }
        match read(from, PIECE) {
            Ok((records, last)) => {
                is_over = records.len() < PIECE;
                from = last;
                piece = records.into_iter();
                piece.next().map(Ok)
            }
            Err(error) => {
                is_over = true;
                Some(Err(error))
            }
        }
    })
}
