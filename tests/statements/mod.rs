//! Every statement of the programs, as it is planned in a database of a million sites and ten million deployments: none reads a table
//! that grows from its beginning to its end, but for those that are named here.
//!
//! The statements are those of `.sqlx`, so that a new one, of a job or an endpoint, is looked at as well. The rows are few, made up by
//! `large.sql`, and the planner is told that there are many. `SVC_TEST_PLAN_ROWS` makes more of them.

use std::{collections::HashMap, fs, path::Path};

use serde_json::Value;

use crate::world::dump::BareDatabase;

/// Rows of each table, unless `SVC_TEST_PLAN_ROWS` says another number.
const ROWS: u64 = 5_000;
/// Rows that the planner takes each table for, and the deployments.
const SITES: u64 = 1_000_000;
const DEPLOYMENTS: u64 = 10_000_000;
/// Rows up to which a table may be read whole: partitions of days to come.
const FEW_ROWS: f64 = 10_000.0;

/// Tables with few rows however many sites there are.
const SMALL: [&str; 21] = [
    // One row, or one for each job, account at an authority, day, series, agent, program, master key or role of edges.
    "database_name",
    "route_counter",
    "schema_floor",
    "store_sweep",
    "job_leases",
    "acme_accounts",
    "visitor_salts",
    "invoice_numbers",
    "agent_keys",
    "agent_networks",
    "agent_sources",
    "settled_edges",
    "master_key_checks",
    "edge_roles",
    // What is under way, or broken.
    "acme_challenges",
    "pending_route_changes",
    "pack_faults",
    "account_suspensions",
    "traffic_edges",
    // A row for each edge, or for each edge that noticed a failover.
    "edge_positions",
    "lost_changes",
];

/// Parts of the statements that may read a table that grows, and why.
const EXCUSED: [(&str, &str); 8] = [
    (
        "SELECT DISTINCT substring(sealed_",
        "a backup, and a rotation of the master key, name the keys of everything that is sealed",
    ),
    ("FROM 1 FOR 5) <> $1", "a rotation of the master key goes through everything that is sealed"),
    ("FROM certificate_orders GROUP BY state", "a metric; it is counted less often the longer it takes"),
    (
        r#"SELECT count(*) AS "count!" FROM certificate_orders WHERE certificate_id"#,
        "a metric; counted with the one before",
    ),
    ("OR lower(vcs_login) = lower($1)", "`admin suspend --account`, when an operator runs it"),
    ("SELECT name, due_by AS", "`certs doctor`, when an operator runs it"),
    (
        "c.names && ARRAY[d.domain",
        "a GIN index is taken for as dear as its real pages say; with 300,000 real rows it is used",
    ),
    ("r.seq >= COALESCE($1, c.last_seq)", "edges go on from where they are, which is near the end"),
];

/// The type of a parameter as SQL names it, and a value.
fn parameter(kind: &str) -> (String, String) {
    if let Some(element) = kind.strip_suffix("Array") {
        let values = match element {
            "Text" | "Varchar" => "{x17,x18}",
            "Int8" | "Int4" | "Int2" => "{17,18}",
            "Bool" => "{t,f}",
            "Timestamptz" | "Date" => "{2026-11-20}",
            _ => "{}",
        };
        return (format!("{}[]", parameter(element).0), format!("'{values}'"));
    }
    let (name, value) = match kind {
        "Int8" => ("bigint", "100"),
        "Int4" => ("integer", "100"),
        "Int2" => ("smallint", "2"),
        "Bool" => ("boolean", "true"),
        "Float8" => ("double precision", "1"),
        "Timestamptz" => ("timestamptz", "now() - interval '30 days'"),
        "Date" => ("date", "current_date - 362"),
        "Bytea" => ("bytea", r"'\xab'"),
        "Interval" => ("interval", "interval '1 hour'"),
        "Json" | "Jsonb" => ("jsonb", "'{}'"),
        "Text" | "Varchar" | "Name" => ("text", "'live'"),
        _ => panic!("a parameter of type {kind}: say here what it is in SQL"),
    };
    (name.to_owned(), value.to_owned())
}

/// A statement, and the types of its parameters.
fn statements() -> Vec<(String, Vec<String>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.sqlx");
    let read = |path: &Path| -> (String, Vec<String>) {
        let described: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let kinds = described["describe"]["parameters"]["Left"].as_array().cloned().unwrap_or_default();
        let kinds = kinds.iter().map(|kind| kind.as_str().unwrap_or("Text").to_owned()).collect();
        (described["query"].as_str().unwrap().to_owned(), kinds)
    };
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// The tables that a plan reads from their beginnings, unless it reads a bounded number of rows.
fn scanned(node: &Value, is_bounded: bool, tables: &mut Vec<String>) {
    let is_filtered = node.get("Filter").is_some();
    if node["Node Type"] == "Seq Scan" && (is_filtered || !is_bounded) {
        tables.push(node["Relation Name"].as_str().unwrap().to_owned());
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        scanned(child, node["Node Type"] == "Limit", tables);
    }
}

#[tokio::test]
async fn no_statement_reads_a_large_table_from_its_beginning_to_its_end() {
    let rows = std::env::var("SVC_TEST_PLAN_ROWS").map_or(ROWS, |text| text.parse().unwrap());
    let database = BareDatabase::new().await;
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    let pool = db::connect(&settings, database.url.as_str()).unwrap();
    let mut conn = pool.acquire().await.unwrap();
    let numbers = [("$ROWS", rows), ("$SITES", SITES), ("$DEPLOYMENTS", DEPLOYMENTS)];
    let fill = numbers
        .iter()
        .fold(include_str!("large.sql").to_owned(), |sql, (name, number)| sql.replace(name, &number.to_string()));
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(&mut *conn).await.unwrap();
    let sizes: Vec<(String, f32)> = sqlx::query_as("SELECT relname::text, reltuples FROM pg_class WHERE relkind = 'r'")
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    let sizes: HashMap<String, f32> = sizes.into_iter().collect();
    assert!(f64::from(sizes["deployments"]) > 5e6, "{} deployments", sizes["deployments"]);

    let (mut found, mut excused, mut looked_at) = (Vec::new(), vec![false; EXCUSED.len()], 0);
    for (statement, kinds) in statements() {
        let (types, mut values): (Vec<_>, Vec<_>) = kinds.iter().map(|kind| parameter(kind)).unzip();
        if statement.contains("'hex')") {
            // A hash as text.
            for value in &mut values {
                *value = value.replace("live", "ab");
            }
        }
        let list =
            |parts: Vec<String>| if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) };
        let plan: String = sqlx::query_scalar("SELECT plan_of($1, $2, $3)")
            .bind(list(types))
            .bind(&statement)
            .bind(list(values))
            .fetch_one(&mut *conn)
            .await
            .unwrap_or_else(|error| panic!("{error}: {statement}"));
        looked_at += 1;
        let plan: Value = serde_json::from_str(&plan).unwrap();
        let mut tables = Vec::new();
        scanned(&plan[0]["Plan"], false, &mut tables);
        tables.retain(|table| {
            let is_large = sizes.get(table).is_some_and(|rows| f64::from(*rows) > FEW_ROWS);
            is_large && !table.starts_with("pg_") && !SMALL.contains(&table.as_str())
        });
        match EXCUSED.iter().position(|(part, _)| statement.contains(part)) {
            _ if tables.is_empty() => {}
            Some(number) => excused[number] = true,
            None => found.push(format!("{tables:?} by {statement}")),
        }
    }
    assert!(looked_at > 400, "{looked_at} statements");
    assert!(found.is_empty(), "tables are read from their beginnings to their ends:\n{}", found.join("\n\n"));
    let idle: Vec<_> = EXCUSED.iter().zip(excused).filter(|(_, is_needed)| !is_needed).collect();
    assert!(idle.is_empty(), "these excuses are not needed any more: {idle:?}");
    drop(conn);
    pool.close().await;
    database.remove().await;
}
