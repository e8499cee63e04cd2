//! Range requests (RFC 9110, section 14).

use std::ops::Range;

use limits::RANGES;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RangeRequest {
    /// The whole body: the header is malformed, uses another unit, or requests more ranges than a real client would.
    Whole,
    /// These parts, in the requested order, each at least one byte long.
    Parts(Vec<Range<u64>>),
    /// 416: every requested part lies beyond the end.
    Unsatisfiable,
}

pub(crate) fn parse_range(header: &str, len: u64) -> RangeRequest {
    let Some((unit, list)) = header.split_once('=') else { return RangeRequest::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return RangeRequest::Whole;
    }
    let mut parts = Vec::new();
    let mut asked = 0;
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        asked += 1;
        // No real client requests more; the rest is not parsed.
        if asked > RANGES {
            return RangeRequest::Whole;
        }
        match parse_part(item, len) {
            Some(part) if part.is_empty() => {}
            Some(part) => parts.push(part),
            None => return RangeRequest::Whole,
        }
    }
    match (asked, parts.is_empty()) {
        (0, _) => RangeRequest::Whole,
        (_, true) => RangeRequest::Unsatisfiable,
        _ if overlap(&parts) => RangeRequest::Whole,
        _ => RangeRequest::Parts(parts),
    }
}

/// Parses one part. Returns an empty range if it lies beyond the end, `None` if it is malformed.
fn parse_part(item: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = item.split_once('-')?;
    if first.is_empty() {
        return Some(len.saturating_sub(number(last)?)..len);
    }
    let first = number(first)?;
    if last.is_empty() {
        return Some(first.min(len)..len);
    }
    let last = number(last)?;
    (first <= last).then(|| first.min(len)..last.saturating_add(1).min(len))
}

/// Parses digits only. A number that overflows lies beyond every end.
fn number(digits: &str) -> Option<u64> {
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(u64::MAX))
}

fn overlap(parts: &[Range<u64>]) -> bool {
    let mut sorted: Vec<_> = parts.iter().collect();
    sorted.sort_by_key(|part| part.start);
    sorted.windows(2).any(|pair| pair[0].end > pair[1].start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_hundred_bytes() {
        let parts = |parts: &[(u64, u64)]| RangeRequest::Parts(parts.iter().map(|&(a, b)| a..b).collect());
        let cases = [
            ("bytes=0-0", parts(&[(0, 1)])),
            ("Bytes=0-9", parts(&[(0, 10)])),
            ("bytes=90-", parts(&[(90, 100)])),
            ("bytes=90-1000", parts(&[(90, 100)])),
            ("bytes=-10", parts(&[(90, 100)])),
            ("bytes=-1000", parts(&[(0, 100)])),
            ("bytes=0-0, 5-6 ,-1", parts(&[(0, 1), (5, 7), (99, 100)])),
            ("bytes=50-59,0-9", parts(&[(50, 60), (0, 10)])),
            ("bytes=0-0,200-300", parts(&[(0, 1)])),
            ("bytes=0-99999999999999999999999999", parts(&[(0, 100)])),
            ("bytes=100-", RangeRequest::Unsatisfiable),
            ("bytes=99999999999999999999999999-", RangeRequest::Unsatisfiable),
            ("bytes=100-200,300-", RangeRequest::Unsatisfiable),
            ("bytes=-0", RangeRequest::Unsatisfiable),
            ("bytes=9-0", RangeRequest::Whole),
            ("bytes=0-9,5-15", RangeRequest::Whole),
            ("bytes=", RangeRequest::Whole),
            ("bytes=-", RangeRequest::Whole),
            ("bytes=a-b", RangeRequest::Whole),
            ("bytes=+1-2", RangeRequest::Whole),
            ("bytes=1", RangeRequest::Whole),
            ("lines=0-9", RangeRequest::Whole),
            ("0-9", RangeRequest::Whole),
        ];
        for (header, expected) in cases {
            assert_eq!(parse_range(header, 100), expected, "{header}");
        }
        assert_eq!(parse_range("bytes=0-", 0), RangeRequest::Unsatisfiable);
        let many: Vec<_> = (0..1000).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
        assert_eq!(parse_range(&format!("bytes={}", many.join(",")), 10_000), RangeRequest::Whole);
    }
}
