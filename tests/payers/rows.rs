//! Every table of the schema has somebody who pays for its rows.

use domain::payer::TABLES;

use crate::world::World;

#[tokio::test]
async fn every_table_says_who_pays_for_its_rows() {
    let world = World::start().await;
    let tables = world
        .sql_text(
            "SELECT string_agg(c.relname, ' ' ORDER BY c.relname COLLATE \"C\") FROM pg_class c
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND c.relname <> '_sqlx_migrations'",
        )
        .await;
    let mut named: Vec<_> = TABLES.iter().map(|rows| rows.table).collect();
    named.sort_unstable();
    assert_eq!(
        tables.split(' ').collect::<Vec<_>>(),
        named,
        "common/domain/src/payer.rs says who pays for each table's rows"
    );
}
