//! The headers that report the remaining limits to clients, and the provider's `Retry-After`.

use std::{
    fmt::{self, Write as _},
    time::{Duration, UNIX_EPOCH},
};

use bytes::BytesMut;
use domain::Clock;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use meter::RateLimits;

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
    // One allocation for all values.
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
        write(reset, format_args!("{}", ResetDuration(of.reset)));
    }
}

/// A duration as `OpenAI` writes it: `6m0s`, `1s`, `20ms`.
struct ResetDuration(Duration);

impl fmt::Display for ResetDuration {
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

/// Parses a provider's `Retry-After`, capped at [`limits::PROVIDER_RETRY_AFTER`] because some clients sleep that long.
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

/// Returns when a provider's exhausted limit resets, from its `x-ratelimit-*` headers, with the same cap.
pub(super) fn parse_reset(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let resets = ["requests", "tokens"].into_iter().filter_map(|of| {
        let is_used_up = text(&format!("x-ratelimit-remaining-{of}"))?.parse::<f64>().is_ok_and(|left| left < 1.0);
        text(&format!("x-ratelimit-reset-{of}")).filter(|_| is_used_up).and_then(parse_duration)
    });
    resets.max().map(|wait| wait.min(limits::PROVIDER_RETRY_AFTER))
}

/// Parses a duration as `OpenAI` writes it (`1m30s`, `20ms`), or a number of seconds.
fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        rest = after;
    }
    Some(total)
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
            assert_eq!(ResetDuration(Duration::from_millis(millis)).to_string(), written);
        }
    }

    #[test]
    fn a_limit_that_is_used_up_says_when_it_is_there_again() {
        for (remaining, reset, parsed) in [
            ("0", "1m30s", Some(60_000)),
            ("0", "20ms", Some(20)),
            ("0", "1.5", Some(1_500)),
            ("0", "2s500ms", Some(2_500)),
            ("1", "1s", None),
            ("0", "soon", None),
            ("0", "1e400", None),
            ("0", "1s2", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-remaining-requests", remaining.parse().unwrap());
            headers.insert("x-ratelimit-reset-requests", reset.parse().unwrap());
            assert_eq!(parse_reset(&headers).map(|wait| wait.as_millis()), parsed, "{remaining} {reset}");
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
