//! Whether a database is fit to keep runs in.

use strata_records::error::StoreError;
use strata_records::{DatabaseReport, DatabaseRights};

use super::administer::read_settings;
use super::connection::Connection;
use super::database::Database;
use super::schema::has_current_tables;

/// Returns what a database has of what runs need.
pub fn examine(database: &Database) -> Result<DatabaseReport, StoreError> {
    let connection = database.connect()?;
    let has_tables = has_current_tables(&connection)?;
    let rights = has_tables.then(|| rights(&connection)).transpose()?;
    let (runs, settings) = if has_tables {
        let counted = connection.query_optional("SELECT count(*) FROM strata.run", &[])?;
        let runs = counted.map_or(0, |row| row.get::<_, i64>(0));
        (runs, Some(read_settings(&connection)?))
    } else {
        (0, None)
    };
    // Last, because it asks for the time.
    let sql = "SELECT current_setting('server_version_num')::bigint / 10000, \
                      pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean, \
                      current_setting('fsync')::boolean, \
                      current_setting('synchronous_commit'), \
                      has_database_privilege(current_database(), 'CREATE'), \
                      (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint \
                       FROM pg_stat_activity WHERE pid <> pg_backend_pid()), \
                      (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let row = connection.query_optional(sql, &[])?;
    let row = row.ok_or_else(|| StoreError::corrupt(connection.path(), "it answers nothing"))?;
    Ok(DatabaseReport {
        version: row.get(0),
        is_read_only: row.get(1),
        is_synced: row.get(2),
        synchronous_commit: row.get(3),
        can_create_tables: has_tables || row.get(4),
        longest_transaction_s: row.get(5),
        server_time_ms: row.get(6),
        runs,
        rights,
        settings,
    })
}

/// Returns what this user may do with the tables, which exist.
fn rights(connection: &Connection) -> Result<DatabaseRights, StoreError> {
    let sql = "SELECT bool_and(has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') \
                               AND has_table_privilege(c.oid, 'DELETE') AND has_table_privilege(c.oid, 'SELECT')), \
                      bool_and(pg_has_role(c.relowner, 'USAGE')) \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = 'strata' AND c.relkind = 'r'";
    let row = connection.query_optional(sql, &[])?;
    let granted = row.map_or((None, None), |row| (row.get(0), row.get(1)));
    Ok(match granted {
        (_, Some(true)) => DatabaseRights::Administer,
        (Some(true), _) => DatabaseRights::Run,
        _ => DatabaseRights::Read,
    })
}
