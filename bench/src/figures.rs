//! Medians and percentiles.

/// Returns the value below which `share` (0 to 1) of the values lie, by nearest rank; 0 without values.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the difference between the largest and the smallest value, relative to the median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    (quantile(values, 1.0) - quantile(values, 0.0)) / median(values).max(f64::MIN_POSITIVE)
}

pub(crate) fn format_rounds(values: &[f64]) -> String {
    format!("{} ({:.0}%)", format_number(median(values)), spread(values) * 100.0)
}

/// Names the rounds that differ by more than a tenth, as a warning to the reader. Empty if there are none.
pub(crate) fn uneven_rounds<'r>(rounds: impl Iterator<Item = (String, &'r [f64])>) -> String {
    let (uneven, even): (Vec<_>, Vec<_>) = rounds.partition(|(_, values)| spread(values) > 0.1);
    let names = |rounds: &[(String, _)]| rounds.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("; ");
    // Uses the shorter of the two lists.
    let which = match (uneven.len(), even.len()) {
        (0, _) => return String::new(),
        (_, 0) => "all of them".to_owned(),
        (many, few) if few < many => format!("all but {}", names(&even)),
        _ => names(&uneven),
    };
    format!("\n**Rounds differed by more than a tenth**, so the machine did something else as well: {which}.\n")
}

/// Formats a number with three significant digits and thousands separators.
pub(crate) fn format_number(value: f64) -> String {
    if value >= 1_000.0 {
        let whole = format!("{value:.0}");
        let (head, tail) = whole.split_at(whole.len() - 3);
        return if head.len() > 3 { format!("{},{tail}", shown_head(head)) } else { format!("{head},{tail}") };
    }
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn shown_head(digits: &str) -> String {
    let (head, tail) = digits.split_at(digits.len() - 3);
    format!("{head},{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(median(&values).to_bits(), 3.0_f64.to_bits());
        assert_eq!(quantile(&values, 0.99).to_bits(), 5.0_f64.to_bits());
        assert_eq!(quantile(&[], 0.5).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn rounds_that_differ_are_named() {
        assert_eq!(format_rounds(&[95.0, 100.0, 103.0]), "100 (8%)");
        let rounds = [("a".to_owned(), [95.0, 100.0, 103.0]), ("b".to_owned(), [80.0, 100.0, 101.0])];
        let all = |count: usize| {
            uneven_rounds(rounds[..count].iter().map(|(name, values)| (name.clone(), values.as_slice())))
        };
        assert_eq!(all(1), "");
        assert!(all(2).ends_with("as well: b.\n"), "{}", all(2));
        assert_eq!(spread(&[]).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(format_number(1_234_567.0), "1,234,567");
        assert_eq!(format_number(12_345.6), "12,346");
        assert_eq!(format_number(123.4), "123");
        assert_eq!(format_number(1.234), "1.23");
    }
}
