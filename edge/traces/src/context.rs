//! The ids of a span, and the client's trace that it continues (W3C Trace Context).

use http::HeaderMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) parent: Option<u64>,
    /// The client's `tracestate`, passed along with its trace.
    pub(super) state: Option<String>,
}

impl SpanContext {
    /// Creates the context of a request. Returns `None` if the client did not sample it or `percent` excludes it.
    pub(super) fn from_headers(headers: &HeaderMap, percent: u8) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let parent = text("traceparent").and_then(parse);
        if let Some((.., false)) = parent {
            return None;
        }
        let span = rand::random::<u64>().max(1);
        let context = match parent {
            Some((trace, parent, _)) => {
                Self { trace, span, parent: Some(parent), state: text("tracestate").map(str::to_owned) }
            }
            None => Self { trace: rand::random::<u128>().max(1), span, parent: None, state: None },
        };
        // Decided by the trace's id, so that all programs that do so choose the same traces.
        let share = (context.trace & u128::from(u64::MAX)) * 100 / (1 << 64);
        (share < percent.into()).then_some(context)
    }
}

/// Parses a `traceparent` into the trace, the span, and whether it is sampled.
fn parse(text: &str) -> Option<(u128, u64, bool)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex =
        |text: &str, len| text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_formed = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    // Only later versions may have more parts.
    if !is_formed || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    let flags = u8::from_str_radix(flags, 16).ok()?;
    (trace != 0 && span != 0).then_some((trace, span, flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parent: &str, percent: u8) -> Option<SpanContext> {
        SpanContext::from_headers(
            &HeaderMap::from_iter([("traceparent".parse().unwrap(), parent.parse().unwrap())]),
            percent,
        )
    }

    #[test]
    fn a_clients_trace_is_continued() {
        let context = of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 100).unwrap();
        assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(context.parent, Some(0xb7ad_6b71_6920_3331));
        assert_eq!(of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", 100), None, "it is not sampled");
        // 0x8448… is at 51 percent of the range.
        assert_eq!(of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 51), None);
        assert!(of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 52).is_some());
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        ] {
            assert_eq!(of(wrong, 100).unwrap().parent, None, "{wrong}");
        }
        assert!(SpanContext::from_headers(&HeaderMap::new(), 0).is_none());
    }
}
