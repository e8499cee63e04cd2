//! The headers that tell clients what is left of their limits, and the provider's `Retry-After`.

use std::{
    fmt::{self, Write as _},
    time::{Duration, UNIX_EPOCH},
};

use bytes::BytesMut;
use domain::Clock;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::meter::RateLimits;
use crate::limits;

/// Adds the `x-ratelimit-*` headers.
pub(super) fn insert(headers: &mut HeaderMap, rate_limits: &RateLimits) {
    const REQUESTS: [HeaderName; 3] = [
        HeaderName::from_static("x-ratelimit-limit-requests"),
        HeaderName::from_static("x-ratelimit-remaining-requests"),
        HeaderName::from_static("x-ratelimit-reset-requests"),
    ];
    const TOKENS: [HeaderName; 3] = [
        HeaderName::from_static("x-ratelimit-limit-tokens"),
        HeaderName::from_static("x-ratelimit-remaining-tokens"),
        HeaderName::from_static("x-ratelimit-reset-tokens"),
    ];
    // One allocation for all of the values.
    let mut text = BytesMut::with_capacity(limits::RATE_HEADER_BYTES);
    let mut write = |name, value: fmt::Arguments<'_>| {
        if text.write_fmt(value).is_ok()
            && let Ok(value) = HeaderValue::from_maybe_shared(text.split().freeze())
        {
            headers.insert(name, value);
        }
    };
    for ([limit, remaining, reset], of) in [(REQUESTS, &rate_limits.requests), (TOKENS, &rate_limits.tokens)] {
        write(limit, format_args!("{}", of.limit));
        write(remaining, format_args!("{}", of.remaining));
        write(reset, format_args!("{}", Reset(of.reset)));
    }
}

/// A duration as `OpenAI` writes it: `6m0s`, `1s`, `20ms`.
struct Reset(Duration);

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, 0) => write!(f, "{}ms", self.0.subsec_millis()),
            (0, 0, seconds) => write!(f, "{seconds}s"),
            (0, minutes, seconds) => write!(f, "{minutes}m{seconds}s"),
            (hours, minutes, seconds) => write!(f, "{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// The `Retry-After` of a provider, cut to [`limits::PROVIDER_RETRY_AFTER`]: some clients sleep as long as they are told.
pub(super) fn parse_retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        at.saturating_sub(Duration::from_millis(clock.now().unix_millis()))
    };
    Some(wait.clamp(Duration::from_secs(1), limits::PROVIDER_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    #[test]
    fn durations_are_written_as_openai_does() {
        for (millis, written) in
            [(0, "0ms"), (20, "20ms"), (1_000, "1s"), (59_999, "59s"), (360_000, "6m0s"), (86_399_000, "23h59m59s")]
        {
            assert_eq!(Reset(Duration::from_millis(millis)).to_string(), written);
        }
    }

    #[test]
    fn a_providers_retry_after_is_read_in_both_forms_and_clamped() {
        let now = Timestamp::from_unix_millis(784_111_777_000);
        let clock = Clock::from_fn(move || now);
        for (sent, parsed) in [
            ("7", Some(7)),
            ("0", Some(1)),
            ("999999", Some(limits::PROVIDER_RETRY_AFTER.as_secs())),
            ("Sun, 06 Nov 1994 08:49:57 GMT", Some(20)),
            ("Sat, 06 Nov 1993 08:49:57 GMT", Some(1)),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, sent.parse().unwrap())]);
            assert_eq!(parse_retry_after(&headers, &clock).map(|wait| wait.as_secs()), parsed, "{sent}");
        }
    }
}
