//! What people are told when a plan leaves no room.

use db::quotas::{QuotaError, QuotaReached};

use crate::error::{ApiError, Code};

/// Units of sizes, the largest first: as plans are written, in powers of ten.
const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];

/// A sentence that names the limit and says what to do.
pub fn sentence(reached: QuotaReached) -> String {
    let (what, remedy) = match reached {
        QuotaReached::Projects(most) => (counted(most, "project"), "delete one that is no longer needed"),
        QuotaReached::Shares(most) => (counted(most, "live share"), "delete one, or wait until one expires"),
        QuotaReached::StoredBytes(most) => {
            (format!("{} of stored files", size(most)), "delete old deployments, shares or projects")
        }
    };
    format!("The plan allows {what}, and this would be more; {remedy}, or choose a larger plan.")
}

fn counted(most: u32, noun: &str) -> String {
    format!("{most} {noun}{}", if most == 1 { "" } else { "s" })
}

fn size(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

impl From<QuotaReached> for ApiError {
    fn from(reached: QuotaReached) -> Self {
        Self::new(Code::PlanLimitReached, sentence(reached))
    }
}

impl From<QuotaError> for ApiError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => reached.into(),
            QuotaError::Db(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_the_limit_and_the_way_out() {
        for (reached, wanted) in [
            (QuotaReached::Projects(100), "The plan allows 100 projects, and"),
            (QuotaReached::Shares(1), "The plan allows 1 live share, and"),
            (QuotaReached::StoredBytes(5_000_000_000), "The plan allows 5 GB of stored files, and"),
            (QuotaReached::StoredBytes(1_500_000_000), "The plan allows 1500 MB of stored files, and"),
            (QuotaReached::StoredBytes(12_345), "The plan allows 12345 bytes of stored files, and"),
        ] {
            let sentence = sentence(reached);
            assert!(sentence.starts_with(wanted) && sentence.ends_with("or choose a larger plan."), "{sentence}");
        }
    }
}
