//! What statistics cost PostgreSQL, how soon they are answered, and how true their visitors are: the figures that
//! `tests/stats/figures` prints.

use std::fmt::Write as _;

use crate::{Effort, printed, world::World};

/// A table: the test that prints its rows, and its head.
const TABLES: [(&str, &str); 3] = [
    (
        "load::much_traffic",
        "Three edges send what they count every two seconds; paths, visitors and sites by Zipf's law; three minutes, \
         with what admin makes of it once a minute:\n\n\
         | requests/s | sites | edges | PostgreSQL, % of a core | WAL, MB/s | slowest until it can be read, ms \
         | rows of the hour | waiting at the end |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|",
    ),
    (
        "year::year_of_many_sites",
        "A year of history, of which the last week by hour; the site of rank n has 500,000/n^1.4 requests a day, the \
         median site three. The 50 most visited sites and 350 others are asked about, twice, one answer after the \
         other:\n\n\
         | sites | rows of days | days GB | hours GB | database GB | answer | median ms | p99 ms | slowest ms |\n\
         |--:|--:|--:|--:|--:|--|--:|--:|--:|",
    ),
    (
        "visitors::visitors_of_a_day",
        "Visitors of a day, counted by three edges that share half of them; 20 days each:\n\n\
         | visitors | median error % | largest % | within 2% |\n|--:|--:|--:|--:|",
    ),
];

pub(crate) fn measure(world: &World, _: Effort) -> anyhow::Result<String> {
    let mut text = "Whoever sends and asks is on the same two cores, and built for debugging.\n".to_owned();
    for (test, head) in TABLES {
        let rows = printed::rows(world, &format!("stats::figures::{test}"))?;
        write!(text, "\n{head}\n{}\n", rows.join("\n"))?;
    }
    Ok(text)
}
