//! The cost of attacks to an edge and to other clients: the figures that `tests/attacks/figures` prints, with targets.
//!
//! The attackers are those of the tests.

use std::fmt::Write as _;

use crate::{
    BenchEffort,
    printed::{self, TestSuite},
    world::BenchWorld,
};

struct AttackTable {
    /// The prefix of the names of the tests that print its rows.
    tests: &'static str,
    /// Its head, without the verdict.
    head: &'static str,
    /// The rule below the head, without the verdict's.
    rule: &'static str,
    wanted: &'static [ColumnTarget],
}

struct ColumnTarget {
    column: usize,
    name: &'static str,
    bound: TargetBound,
}

#[derive(Clone, Copy)]
enum TargetBound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

const TABLES: [AttackTable; 3] = [
    AttackTable {
        tests: "f",
        head: "| attack | resident MB at most | files at most | requests of another client | failed | p99 ms | slowest ms |",
        rule: "|---|--:|--:|--:|--:|--:|--:|",
        wanted: &[
            ColumnTarget { column: 1, name: "resident", bound: TargetBound::AtMost(700.0) },
            ColumnTarget { column: 3, name: "requests", bound: TargetBound::AtLeast(1.0) },
            ColumnTarget { column: 4, name: "failed", bound: TargetBound::AtMost(0.0) },
            ColumnTarget { column: 5, name: "p99", bound: TargetBound::Below(250.0) },
        ],
    },
    AttackTable {
        tests: "uploads",
        head: "| one account | deploys of 1 MB by another | median s | slowest s |",
        rule: "|---|--:|--:|--:|",
        wanted: &[ColumnTarget { column: 3, name: "slowest", bound: TargetBound::Below(3.0) }],
    },
    AttackTable {
        tests: "idle",
        head: "| idle connections, TLS, HTTP/1.1 | resident MB before | with them | a minute after they have gone |",
        rule: "|--:|--:|--:|--:|",
        wanted: &[
            ColumnTarget { column: 0, name: "connections", bound: TargetBound::AtLeast(15_000.0) },
            ColumnTarget { column: 2, name: "with them", bound: TargetBound::AtMost(512.0) },
        ],
    },
];

pub(crate) fn measure(world: &BenchWorld, _: BenchEffort) -> anyhow::Result<String> {
    let mut text = "An edge with `edge.memory` of 512 MB; its attackers, and the client and the account that are measured, are on \
                    the same two cores, and built for debugging. Each attack lasts a minute, on an edge of its own.\n"
        .to_owned();
    for table in &TABLES {
        let rows = printed::rows(world, TestSuite::BlackBox, &format!("attacks::figures::{}", table.tests))?;
        let rows: Vec<_> = rows.iter().map(|row| table.with_verdict(row)).collect();
        write!(text, "\n{} |\n{}---|\n{}\n", table.head, table.rule, rows.join("\n"))?;
    }
    Ok(text)
}

impl AttackTable {
    fn with_verdict(&self, row: &str) -> String {
        let cells: Vec<_> = row.trim().trim_start_matches('|').split('|').map(str::trim).collect();
        let missed = self.wanted.iter().filter(|wanted| !wanted.is_reached(&cells));
        let missed: Vec<_> = missed.map(ColumnTarget::to_string).collect();
        let verdict =
            if missed.is_empty() { "reached".to_owned() } else { format!("**not reached**: {}", missed.join(", ")) };
        // A test's remark follows the last cell.
        let (row, remark) = row.trim().rsplit_once('|').unwrap_or((row, ""));
        format!("{row}| {verdict}{} |", remark.trim_end())
    }
}

impl ColumnTarget {
    /// Returns whether the target is reached; a cell without a figure does not reach it.
    fn is_reached(&self, cells: &[&str]) -> bool {
        let figure: Option<f64> = cells.get(self.column).and_then(|cell| cell.parse().ok());
        figure.is_some_and(|figure| match self.bound {
            TargetBound::AtMost(bound) => figure <= bound,
            TargetBound::Below(bound) => figure < bound,
            TargetBound::AtLeast(bound) => figure >= bound,
        })
    }
}

impl std::fmt::Display for ColumnTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bound {
            TargetBound::AtMost(bound) => write!(f, "{} at most {bound}", self.name),
            TargetBound::Below(bound) => write!(f, "{} under {bound}", self.name),
            TargetBound::AtLeast(bound) => write!(f, "{} at least {bound}", self.name),
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
            assert_eq!(table.with_verdict(row), format!("{cells}{judged}"), "{row}");
        }
    }
}
