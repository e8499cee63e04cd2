//! Human-readable sizes in the unit of the contract's limits: a KB has 1,024 bytes, an MB 1,024 KB, a GB 1,024 MB.

use super::limits::{GB, KB, MB};

const UNITS: [(u64, &str); 3] = [(GB, "GB"), (MB, "MB"), (KB, "KB")];

/// Formats bytes: `999 B`, `25 MB`, `1.5 GB`. Fractional sizes below 100 have one rounded decimal; GB is the largest
/// unit.
pub fn size(bytes: u64) -> String {
    for (place, (unit, name)) in UNITS.into_iter().enumerate() {
        // Tenths of the unit in integers, which avoids floating-point error.
        let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
        let whole = (u128::from(bytes) + u128::from(unit) / 2) / u128::from(unit);
        // A size that would round up to 1,024 of the next smaller unit is shown in this one.
        let is_next = place + 1 < UNITS.len() && {
            let smaller = u128::from(UNITS[place + 1].0);
            (u128::from(bytes) + smaller / 2) / smaller >= 1_024
        };
        if bytes >= unit || is_next {
            return match (tenths / 10, tenths % 10) {
                (100.., _) => format!("{whole} {name}"),
                (number, 0) => format!("{number} {name}"),
                (number, tenth) => format!("{number}.{tenth} {name}"),
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::super::limits;
    use super::*;

    #[test]
    fn limits_read_as_the_contract_writes_them() {
        for (bytes, read) in [
            (limits::FILE_BYTES, "25 MB"),
            (limits::UPLOAD_BYTES, "100 MB"),
            (limits::DEPLOYMENT_BYTES, "250 MB"),
            (limits::ICON_BYTES as u64, "512 KB"),
            (5 * GB, "5 GB"),
            (5_000 * GB, "5000 GB"),
        ] {
            assert_eq!(size(bytes), read);
        }
    }

    #[test]
    fn sizes_are_written_with_the_unit_that_keeps_them_short() {
        for (bytes, read) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1 KB"),
            (1_536, "1.5 KB"),
            (99 * KB + 900, "99.9 KB"),
            (100 * KB + 900, "101 KB"),
            (1_023 * KB, "1023 KB"),
            (MB - 1, "1 MB"),
            (67_200_000, "64.1 MB"),
            (GB + GB / 2, "1.5 GB"),
            (u64::MAX, "17179869184 GB"),
        ] {
            assert_eq!(size(bytes), read, "{bytes}");
        }
    }
}
