//! Opens an address in the browser.

use std::{
    env,
    process::{Command, Stdio},
};

use url::Url;

use crate::credentials::is_this_machine;

/// Opens `url`, which comes from a server. Returns false if it is not a website's address or no opener was found.
pub(super) fn open(url: &str) -> bool {
    let Some(url) = website(url) else { return false };
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if env::var_os("DISPLAY").is_some() || env::var_os("WAYLAND_DISPLAY").is_some() {
        "xdg-open"
    } else {
        return false;
    };
    Command::new(opener)
        .arg(url.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}

/// Returns the URL if it is one that a browser opens over the network. Openers would also start programs for files,
/// mail and any other registered scheme.
fn website(url: &str) -> Option<Url> {
    let url: Url = url.parse().ok()?;
    match url.scheme() {
        "https" => Some(url),
        "http" if is_this_machine(&url) => Some(url),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_websites_are_opened() {
        for good in ["https://svc.example/device?code=AB-CD", "http://app.svc.localhost:8080/", "http://127.0.0.1:1/"] {
            assert!(website(good).is_some(), "{good}");
        }
        for bad in [
            "http://svc.example/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "vscode://x",
            "--version",
            "/bin/sh",
            "mailto:a@b.example",
            "http://localhost.evil.example/",
            "ssh://h",
            "",
        ] {
            assert!(website(bad).is_none(), "{bad}");
        }
    }
}
