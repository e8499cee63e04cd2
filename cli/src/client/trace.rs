//! The output of `--verbose` for a request. It never shows bodies, tokens, or links whose end is a secret.

use std::{error::Error as _, time::Instant};

use reqwest::{Client, RequestBuilder, Response};
use url::Url;

use crate::{credentials::RequestOutput, output};

/// Longer parts of a URL may be secrets. Names of projects and organizations have 40 characters at most.
const MAX_SHOWN_SEGMENT: usize = 40;

pub(super) async fn send(
    http: &Client,
    request: RequestBuilder,
    voice: RequestOutput,
) -> Result<Response, reqwest::Error> {
    let request = request.build()?;
    if !voice.is_verbose {
        return http.execute(request).await;
    }
    let (what, since) = (format!("{} {}", request.method(), redacted_url(request.url())), Instant::now());
    output::trace(&format!("> {what}"));
    let sent = http.execute(request).await;
    let took = since.elapsed().as_millis();
    output::trace(&match &sent {
        Ok(response) => {
            let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok());
            let id = id.map(|id| format!(", request {id}")).unwrap_or_default();
            format!("< {} in {took} ms{id}", response.status())
        }
        Err(error) => {
            // The outer error contains the whole URL; its causes do not.
            let mut cause = error.source();
            while let Some(below) = cause.and_then(|cause| cause.source()) {
                cause = Some(below);
            }
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("< no answer in {took} ms{cause}")
        }
    });
    sent
}

/// Formats a URL without the parts that may be secret.
fn redacted_url(url: &Url) -> String {
    let short = |part: &str| if part.len() > MAX_SHOWN_SEGMENT { "…".to_owned() } else { part.to_owned() };
    let path: Vec<String> = url.path().split('/').map(short).collect();
    let query: Vec<String> = url.query().map(|query| query.split('&').map(short).collect()).unwrap_or_default();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("{}{}{query}", url.origin().ascii_serialization(), path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_addresses_are_not_told() {
        let address = |end: &str| redacted_url(&format!("https://api.svc.localhost:8443{end}").parse().unwrap());
        let secret = "A".repeat(43);
        assert_eq!(address(&format!("/invites/{secret}/accept")), "https://api.svc.localhost:8443/invites/…/accept");
        assert_eq!(address(&format!("/x?cursor={secret}&limit=2")), "https://api.svc.localhost:8443/x?…&limit=2");
        assert_eq!(
            address("/projects/docs/stats?days=30"),
            "https://api.svc.localhost:8443/projects/docs/stats?days=30"
        );
    }
}
