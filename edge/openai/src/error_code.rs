//! The error codes, each with its status and type.

use http::StatusCode;

/// Defines the error codes in one table, so that no list of them can miss one.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:ident, $kind:literal;)*) => {
        /// The code of an error of the gateway, on which clients act.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// All codes, in their order here.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the code as `OpenAI`'s format has it in `code`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the HTTP status of a response with this code.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// Returns the class of the error, as `OpenAI`'s format has it in `type`.
            pub const fn kind(self) -> &'static str {
                match self { $(Self::$name => $kind,)* }
            }
        }
    };
}

error_codes! {
    /// The body is not a JSON object, or broke off.
    InvalidJson = "invalid_json", BAD_REQUEST, "invalid_request_error";
    /// The request is not valid HTTP, or does not name exactly one host.
    MalformedRequest = "malformed_request", BAD_REQUEST, "invalid_request_error";
    /// The connection was made for another host.
    MisdirectedRequest = "misdirected_request", MISDIRECTED_REQUEST, "invalid_request_error";
    /// The cookies make the head of the request too large.
    HeadersTooLarge = "headers_too_large", REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request_error";
    /// A field that the endpoint requires is missing.
    MissingRequiredParameter = "missing_required_parameter", BAD_REQUEST, "invalid_request_error";
    /// A field has a value of another JSON type than the endpoint takes.
    InvalidType = "invalid_type", BAD_REQUEST, "invalid_request_error";
    /// A field has a value that is out of range, or that the provider refuses.
    InvalidValue = "invalid_value", BAD_REQUEST, "invalid_request_error";
    /// The prompt, or the prompt and the completion together, is longer than the model's context.
    ContextLengthExceeded = "context_length_exceeded", BAD_REQUEST, "invalid_request_error";
    /// The model's provider does not take a field as it was sent.
    UnsupportedParameter = "unsupported_parameter", BAD_REQUEST, "invalid_request_error";
    /// The content filter of the model's provider holds the request back.
    ContentFilter = "content_filter", BAD_REQUEST, "invalid_request_error";
    /// The request has no key or an invalid one, or the key's account is suspended.
    InvalidApiKey = "invalid_api_key", UNAUTHORIZED, "invalid_request_error";
    /// The gateway does not serve this path.
    UnknownUrl = "unknown_url", NOT_FOUND, "invalid_request_error";
    /// No model has this id or alias.
    ModelNotFound = "model_not_found", NOT_FOUND, "invalid_request_error";
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "invalid_request_error";
    /// The body did not arrive in time.
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "invalid_request_error";
    /// The idempotency key was used for another request.
    IdempotencyConflict = "idempotency_conflict", CONFLICT, "invalid_request_error";
    /// The answer for an idempotency key is no longer kept.
    CompletionGone = "completion_gone", GONE, "invalid_request_error";
    /// The body, counted after decompression, is larger than the plan or the key allows.
    RequestTooLarge = "request_too_large", PAYLOAD_TOO_LARGE, "invalid_request_error";
    /// The body's compression is not supported.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "invalid_request_error";
    /// The account has used up its requests for this minute, it has too many pending completions, or the client has
    /// sent too many invalid keys.
    RateLimitExceeded = "rate_limit_exceeded", TOO_MANY_REQUESTS, "requests";
    /// The account has too few tokens left today.
    DailyTokenLimitExceeded = "daily_token_limit_exceeded", TOO_MANY_REQUESTS, "tokens";
    /// The account has too little credit left this month.
    InsufficientQuota = "insufficient_quota", TOO_MANY_REQUESTS, "insufficient_quota";
    /// The monthly limit that the account set for the key or for all its keys does not suffice.
    LimitReached = "limit_reached", TOO_MANY_REQUESTS, "insufficient_quota";
    /// The model's provider failed, or its answer is empty or too large.
    UpstreamError = "upstream_error", BAD_GATEWAY, "upstream_error";
    /// The gateway has too many pending completions or too little memory, cannot check keys or limits, or is
    /// restarting.
    ServiceUnavailable = "service_unavailable", SERVICE_UNAVAILABLE, "server_error";
    /// The provider currently accepts no more of the operator's requests.
    UpstreamOverloaded = "upstream_overloaded", SERVICE_UNAVAILABLE, "server_error";
    /// The operator has set no key for the model's provider.
    ModelUnavailable = "model_unavailable", SERVICE_UNAVAILABLE, "server_error";
    /// The model's provider took too long.
    UpstreamTimeout = "upstream_timeout", GATEWAY_TIMEOUT, "server_error";
}
