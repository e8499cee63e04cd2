//! The few pages that admin shows to people: one layout, no script, nothing from elsewhere.

use std::fmt::Write as _;

use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse as _, Redirect, Response},
};

/// Inline styles only; forms to nobody but those that follow; never in a frame.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; \
                      form-action 'self'";

const STYLE: &str = include_str!("pages.css");

/// A page of ours. `body` is HTML: whatever comes from outside has gone through [`escape`].
pub fn page(status: StatusCode, title: &str, body: &str) -> Response {
    page_with_forms_to(None, status, title, body)
}

/// A page whose form may lead, in the end, to this origin too.
pub fn page_with_forms_to(origin: Option<&str>, status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
        escape(title)
    );
    let policy = origin.map_or_else(|| POLICY.to_owned(), |origin| format!("{POLICY} {origin}"));
    let headers = [
        (header::CONTENT_SECURITY_POLICY, &*policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: with it browsers do not say either which origin a form comes from.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Html(html)).into_response()
}

/// 303 to `location`, which was checked. No address that led here goes along.
pub fn see_other(location: &str) -> Response {
    let headers = [(header::REFERRER_POLICY, "no-referrer"), (header::CACHE_CONTROL, "no-store")];
    (headers, Redirect::to(location)).into_response()
}

/// Text as HTML, fit for elements and quoted attributes.
pub fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(c),
        }
    }
    html
}

/// Escaped text in which `` `code` `` becomes an element.
pub fn prose(text: &str) -> String {
    let mut html = String::new();
    for (i, part) in text.split('`').enumerate() {
        let part = escape(part);
        // Writing to a string cannot fail.
        let _ = if i % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(prose("send `{\"ok\"}` & wait"), "send <code>{&quot;ok&quot;}</code> &amp; wait");
    }
}
