//! The figures of billing: a night of renewals, limits enforced everywhere, years of faults without a cent lost, and
//! the cost of an invoice's documents. Except for the documents, `tests/billing/figures` and
//! `admin/billing/src/tests/years.rs` print them.

mod rendering;

use std::{fmt::Write as _, thread};

use anyhow::anyhow;

use crate::{
    BenchEffort,
    printed::{self, TestSuite},
    world::BenchWorld,
};

/// A table: the location of the tests, a part of the names of those that print its rows, and its head.
type BillingTable = (TestSuite, &'static str, &'static str);
const TABLES: [BillingTable; 3] = [
    (
        TestSuite::BlackBox,
        "billing::figures::renewals::",
        "Subscriptions whose month ends in the same moment; the provider takes 50 ms for each answer. admin is killed (`kill -9`) when \
         a third and when two thirds are charged, and another started, which waits for the lease of the one that was killed. \
         Invoices are rendered meanwhile, and the years below are lived through on the same cores:\n\n\
         | subscriptions | kills | minutes until all are paid | of these, waiting for leases | calls of the provider \
         | charged exactly once | one payment and one invoice | CPU s of admin | documents rendered by then |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ),
    (
        TestSuite::BlackBox,
        "billing::figures::limits::",
        "From the answer that reaches a limit, or the request that sets it, until the last of three edges has refused what is \
         beyond it; for bandwidth, from when a job has recorded that it is used up, until the last edge sends at the bounded rate:\n\n\
         | limit | times | median ms | slowest ms |\n|---|--:|--:|--:|",
    ),
    (
        TestSuite::Units,
        "billing::tests::years::ten_thousand_periods",
        "Two years of a subscription in each history, over leap days, ends of months and changes of VAT rates, with upgrades, \
         downgrades, refunds and charge-backs. While each month is charged, something goes wrong: the program is killed between two \
         of its steps, webhooks come again and in another order, the provider is busy, away, or its answers are lost, several \
         admins do the same. After each month, the ledger adds up; in the end, it is the provider's:\n\n\
         | seed | histories | months charged with a fault | kills that cut something off | charges | invoices and credit notes \
         | lost | doubled | minutes |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ),
];

pub(crate) fn measure(world: &BenchWorld, effort: BenchEffort) -> anyhow::Result<String> {
    let mut text = "The provider and whoever asks are on the same two cores, and built for debugging.\n".to_owned();
    write!(text, "\n{}", rendering::measure(effort)?)?;
    let [renewals, limits, years] = TABLES;
    let limited = rows(world, limits)?;
    // Renewals wait for the provider and for leases, the years for nothing.
    let (renewed, lived) = thread::scope(|scope| {
        let lived = scope.spawn(|| rows(world, years));
        (rows(world, renewals), lived.join())
    });
    let lived = lived.map_err(|_| anyhow!("the years ended early"))?;
    for table in [renewed?, limited, lived?] {
        write!(text, "\n{table}\n")?;
    }
    Ok(text)
}

fn rows(world: &BenchWorld, (suite, tests, head): BillingTable) -> anyhow::Result<String> {
    let rows = printed::rows(world, suite, tests)?;
    Ok(format!("{head}\n{}", rows.join("\n")))
}
