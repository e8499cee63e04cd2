//! The figures of billing in bench/README.md that need the real programs. No time is asserted: `bench/run --only billing` runs
//! these against optimised programs and puts the rows that they print into the tables.
//!
//! Clients and provider share the machine with the programs that are measured.

mod limits;
mod provider;
mod renewals;

#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn print(row: &str) {
    println!("{row}");
}
