//! The cost of attacks to an edge and to other clients: the figures that `tests/attacks/figures` prints, with targets.
//!
//! The attackers are those of the tests.

use std::fmt::Write as _;

use crate::{
    Effort,
    printed::{self, Suite},
    world::World,
};

struct Table {
    /// The prefix of the names of the tests that print its rows.
    tests: &'static str,
    /// Its head, without the verdict.
    head: &'static str,
    /// The rule below the head, without the verdict's.
    rule: &'static str,
    wanted: &'static [Wanted],
}

struct Wanted {
    column: usize,
    name: &'static str,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

const TABLES: [Table; 3] = [
    Table {
        tests: "f",
        head: "| attack | resident MB at most | files at most | requests of another client | failed | p99 ms | slowest ms |",
        rule: "|---|--:|--:|--:|--:|--:|--:|",
        wanted: &[
            Wanted { column: 1, name: "resident", bound: Bound::AtMost(700.0) },
            Wanted { column: 3, name: "requests", bound: Bound::AtLeast(1.0) },
            Wanted { column: 4, name: "failed", bound: Bound::AtMost(0.0) },
            Wanted { column: 5, name: "p99", bound: Bound::Below(250.0) },
        ],
    },
    Table {
        tests: "uploads",
        head: "| one account | deploys of 1 MB by another | median s | slowest s |",
        rule: "|---|--:|--:|--:|",
        wanted: &[Wanted { column: 3, name: "slowest", bound: Bound::Below(3.0) }],
    },
    Table {
        tests: "idle",
        head: "| idle connections, TLS, HTTP/1.1 | resident MB before | with them | a minute after they have gone |",
        rule: "|--:|--:|--:|--:|",
        wanted: &[
            Wanted { column: 0, name: "connections", bound: Bound::AtLeast(15_000.0) },
            Wanted { column: 2, name: "with them", bound: Bound::AtMost(512.0) },
        ],
    },
];

pub(crate) fn measure(world: &World, _: Effort) -> anyhow::Result<String> {
    let mut text = "An edge with `edge.memory` of 512 MB; its attackers, and the client and the account that are measured, are on \
                    the same two cores, and built for debugging. Each attack lasts a minute, on an edge of its own.\n"
        .to_owned();
    for table in &TABLES {
        let rows = printed::rows(world, Suite::BlackBox, &format!("attacks::figures::{}", table.tests))?;
        let rows: Vec<_> = rows.iter().map(|row| table.judged(row)).collect();
        write!(text, "\n{} |\n{}---|\n{}\n", table.head, table.rule, rows.join("\n"))?;
    }
    Ok(text)
}

impl Table {
    fn judged(&self, row: &str) -> String {
        let cells: Vec<_> = row.trim().trim_start_matches('|').split('|').map(str::trim).collect();
        let missed = self.wanted.iter().filter(|wanted| !wanted.is_reached(&cells));
        let missed: Vec<_> = missed.map(Wanted::to_string).collect();
        let verdict =
            if missed.is_empty() { "reached".to_owned() } else { format!("**not reached**: {}", missed.join(", ")) };
        // A test's remark follows the last cell.
        let (row, remark) = row.trim().rsplit_once('|').unwrap_or((row, ""));
        format!("{row}| {verdict}{} |", remark.trim_end())
    }
}

impl Wanted {
    /// Returns whether the target is reached; a cell without a figure does not reach it.
    fn is_reached(&self, cells: &[&str]) -> bool {
        let figure: Option<f64> = cells.get(self.column).and_then(|cell| cell.parse().ok());
        figure.is_some_and(|figure| match self.bound {
            Bound::AtMost(bound) => figure <= bound,
            Bound::Below(bound) => figure < bound,
            Bound::AtLeast(bound) => figure >= bound,
        })
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bound {
            Bound::AtMost(bound) => write!(f, "{} at most {bound}", self.name),
            Bound::Below(bound) => write!(f, "{} under {bound}", self.name),
            Bound::AtLeast(bound) => write!(f, "{} at least {bound}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whether_what_is_wanted_is_reached() {
        let [attacks, uploads, idle] = &TABLES;
        for (table, row, judged) in [
            (attacks, "| F1: x | 700 | 38 | 2683 | 0 | 249.9 | 1000.0 |", "| reached |"),
            (attacks, "| F1: x | 701 | 38 | 2683 | 0 | 6.0 | 21.0 |", "| **not reached**: resident at most 700 |"),
            (
                attacks,
                "| F1: x | 28 | 38 | 2683 | 1 | 250.0 | 21.0 |",
                "| **not reached**: failed at most 0, p99 under 250 |",
            ),
            (attacks, "| F1: x | 28 | 38 | 0 | 0 | 0.0 | 0.0 |", "| **not reached**: requests at least 1 |"),
            (uploads, "| held | 10 | 0.06 | 2.99 |", "| reached |"),
            (uploads, "| held | 10 | 0.06 | 3.00 |", "| **not reached**: slowest under 3 |"),
            (uploads, "| held | 10 | ? | |", "| **not reached**: slowest under 3 |"),
            (idle, "| 15000 | 25 | 282 | 32 |", "| reached |"),
            (
                idle,
                "| 14999 | 25 | 282 | 32 |, some of them closed since",
                "| **not reached**: connections at least 15000, some of them closed since |",
            ),
        ] {
            let cells = row.rsplit_once('|').unwrap().0;
            assert_eq!(table.judged(row), format!("{cells}{judged}"), "{row}");
        }
    }
}
