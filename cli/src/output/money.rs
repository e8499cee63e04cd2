//! Formats amounts of money.

use domain::billing::Cents;

/// Formats an AI gateway amount in euros with all its digits, at least two decimals, so that the costs of single
/// completions add up to the monthly total.
pub(crate) fn euros(microcents: u64) -> String {
    const EURO: u64 = 100_000_000;
    let digits = format!("{:08}", microcents % EURO);
    let (cents, finer) = digits.split_at(2);
    format!("{}.{cents}{}", microcents / EURO, finer.trim_end_matches('0'))
}

/// Formats the cost of AI gateway usage. The previous version of the service reports whole cents only, rounded up.
pub(crate) fn spent(cents: u64, microcents: Option<u64>) -> String {
    match microcents {
        Some(microcents) => format!("€{}", euros(microcents)),
        None => Cents(i64::try_from(cents).unwrap_or(i64::MAX)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_all_their_digits() {
        for (microcents, shown) in [
            (0, "0.00"),
            (1, "0.00000001"),
            (100_000, "0.001"),
            (1_000_000, "0.01"),
            (123_450_000, "1.2345"),
            (500_000_000, "5.00"),
        ] {
            assert_eq!(euros(microcents), shown);
        }
        assert_eq!(spent(1, Some(100_000)), "€0.001");
        assert_eq!(spent(1, None), "€0.01");
    }
}
