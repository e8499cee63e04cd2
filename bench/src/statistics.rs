//! The load of statistics on PostgreSQL, their response times, the accuracy of visitor counts, and the rate of changes:
//! the figures that `tests/stats/figures`, `tests/stats/outage.rs` and `tests/changes.rs` print.

use std::fmt::Write as _;

use crate::{
    printed::{self, TestSuite},
    world::BenchWorld,
};

type StatisticsTable = (TestSuite, &'static str, &'static str);

/// The cost of counting in an edge's memory and in PostgreSQL.
pub(crate) const LOAD: &[StatisticsTable] = &[
    (
        TestSuite::Units,
        "traffic::tests::memory_of_busy_projects",
        "What one edge keeps in memory until it is collected, when every visit is to another page; the process before and after:\n\n\
         | projects | visits | keys MB may take | resident MB more |\n|--:|--:|--:|--:|",
    ),
    (
        TestSuite::BlackBox,
        "stats::figures::load::much_traffic",
        "Three edges send what they count every two seconds; paths, visitors and sites by Zipf's law; three minutes, \
         with what admin makes of it once a minute:\n\n\
         | requests/s | sites | edges | PostgreSQL, % of a core | WAL, MB/s | slowest until it can be read, ms \
         | rows of the hour | waiting at the end |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|",
    ),
];

pub(crate) const CHANGES: &[StatisticsTable] = &[(
    TestSuite::BlackBox,
    "changes::changes_a_second",
    "16 changes at a time, each a row of its own and a line for the edges, committed to the disk; five rounds of four \
         seconds each way, in turns:\n\n\
         | a change gets its number | least a second | median | most | median, as a ratio |\n|---|--:|--:|--:|--:|",
)];

/// A year of history: its size and its response times.
pub(crate) const HISTORY: &[StatisticsTable] = &[(
    TestSuite::BlackBox,
    "stats::figures::year::year_of_many_sites",
    "A year of history, of which the last week by hour; the site of rank n has 500,000/n^1.4 requests a day, the \
         median site three. Its days are written at once, and admin makes months of those that are old. Then the 50 \
         most visited sites and 350 others are asked about, twice, one answer after the other:\n\n\
         | sites | days of sites | of them rows | rows of months | minutes until months are made | days GB | months GB \
         | hours GB | database GB | answer | median ms | p99 ms | slowest ms |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|--|--:|--:|--:|",
)];

/// Visitor counts compared to the truth.
pub(crate) const VISITORS: &[StatisticsTable] = &[(
    TestSuite::BlackBox,
    "stats::figures::visitors::visitors_of_a_day",
    "Visitors of a day, counted by three edges that share half of them; 20 days each:\n\n\
         | visitors | median error % | largest % | within 2% |\n|--:|--:|--:|--:|",
)];

pub(crate) const OUTAGE: &[StatisticsTable] = &[(
    TestSuite::BlackBox,
    "stats::outage::ten_minutes_without_postgres",
    "PostgreSQL is away while three edges are visited, and one of them is killed after half of the time:\n\n\
         | s without PostgreSQL | requests | MB in the edges' journals | edge MB at most | s until all is written | lost |\n\
         |--:|--:|--:|--:|--:|--:|",
)];

pub(crate) fn measure(world: &BenchWorld, tables: &[StatisticsTable]) -> anyhow::Result<String> {
    let mut text = "Whoever sends and asks is on the same two cores, and built for debugging.\n".to_owned();
    for (suite, module, head) in tables {
        let rows = printed::rows(world, *suite, module)?;
        write!(text, "\n{head}\n{}\n", rows.join("\n"))?;
    }
    Ok(text)
}
