//! The codes of errors, each with its status and type.

use http::StatusCode;

/// Defines the error codes in one table, so that no list of them can miss one.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:ident, $kind:literal;)*) => {
        /// The `code` of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::gateway) enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code.
            #[cfg(test)]
            pub(in crate::gateway) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code on the wire.
            pub(in crate::gateway) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The status of every answer with this code.
            pub(in crate::gateway) const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// The `type` of every error with this code.
            pub(in crate::gateway) const fn kind(self) -> &'static str {
                match self { $(Self::$name => $kind,)* }
            }
        }
    };
}

error_codes! {
    /// The body is no JSON object, or broke off.
    InvalidJson = "invalid_json", BAD_REQUEST, "invalid_request_error";
    /// The request is not of HTTP's form, or does not name one host.
    MalformedRequest = "malformed_request", BAD_REQUEST, "invalid_request_error";
    /// The connection was made for another host.
    MisdirectedRequest = "misdirected_request", MISDIRECTED_REQUEST, "invalid_request_error";
    /// The head of the request is too large.
    HeadersTooLarge = "headers_too_large", REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request_error";
    /// A field that every request needs is missing.
    MissingRequiredParameter = "missing_required_parameter", BAD_REQUEST, "invalid_request_error";
    /// A field has a value of the wrong type.
    InvalidType = "invalid_type", BAD_REQUEST, "invalid_request_error";
    /// A field has a value that is out of range, or that the provider refuses.
    InvalidValue = "invalid_value", BAD_REQUEST, "invalid_request_error";
    /// The prompt is longer than the model's context.
    ContextLengthExceeded = "context_length_exceeded", BAD_REQUEST, "invalid_request_error";
    /// The provider does not support a field.
    UnsupportedParameter = "unsupported_parameter", BAD_REQUEST, "invalid_request_error";
    /// The provider's content filter holds the prompt back.
    ContentFilter = "content_filter", BAD_REQUEST, "invalid_request_error";
    /// The request shows no key, or one that is not valid here, or whose account is suspended.
    InvalidApiKey = "invalid_api_key", UNAUTHORIZED, "invalid_request_error";
    /// The path does not exist.
    UnknownUrl = "unknown_url", NOT_FOUND, "invalid_request_error";
    /// The model does not exist.
    ModelNotFound = "model_not_found", NOT_FOUND, "invalid_request_error";
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "invalid_request_error";
    /// The body did not arrive in time.
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "invalid_request_error";
    /// The idempotency key was used for another request.
    IdempotencyConflict = "idempotency_conflict", CONFLICT, "invalid_request_error";
    /// The answer of an idempotency key is not kept any more.
    CompletionGone = "completion_gone", GONE, "invalid_request_error";
    /// The body is larger than allowed.
    RequestTooLarge = "request_too_large", PAYLOAD_TOO_LARGE, "invalid_request_error";
    /// The body is compressed in a way that is not read.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "invalid_request_error";
    /// The account's requests of this minute are used up, it has too many completions under way, or the client has shown too many
    /// keys that are not valid.
    RateLimitExceeded = "rate_limit_exceeded", TOO_MANY_REQUESTS, "requests";
    /// The account's tokens of this day do not suffice.
    DailyTokenLimitExceeded = "daily_token_limit_exceeded", TOO_MANY_REQUESTS, "tokens";
    /// The account's credit of this month does not suffice.
    InsufficientQuota = "insufficient_quota", TOO_MANY_REQUESTS, "insufficient_quota";
    /// A limit of this month that the account has set itself, for the key or for all its keys, does not suffice.
    LimitReached = "limit_reached", TOO_MANY_REQUESTS, "insufficient_quota";
    /// The provider failed.
    UpstreamError = "upstream_error", BAD_GATEWAY, "upstream_error";
    /// The gateway has too many completions under way, no memory for the body or the answer, cannot check keys or limits, or is restarting.
    ServiceUnavailable = "service_unavailable", SERVICE_UNAVAILABLE, "server_error";
    /// The provider accepts no more of the operator's requests for now.
    UpstreamOverloaded = "upstream_overloaded", SERVICE_UNAVAILABLE, "server_error";
    /// The operator has set no key for the model's provider.
    ModelUnavailable = "model_unavailable", SERVICE_UNAVAILABLE, "server_error";
    /// The provider took too long.
    UpstreamTimeout = "upstream_timeout", GATEWAY_TIMEOUT, "server_error";
}
