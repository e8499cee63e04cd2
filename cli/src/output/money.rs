//! Money as it is shown.

use domain::billing::Cents;

/// An amount of the AI gateway's in euros, with all its digits, of which there are at least two behind the point: what single completions
/// cost adds up to what is shown for a month.
pub(crate) fn euros(microcents: u64) -> String {
    const EURO: u64 = 100_000_000;
    let digits = format!("{:08}", microcents % EURO);
    let (cents, finer) = digits.split_at(2);
    format!("{}.{cents}{}", microcents / EURO, finer.trim_end_matches('0'))
}

/// What was spent at the AI gateway. A service of the version before says it in whole cents alone, rounded up.
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
