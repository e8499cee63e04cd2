//! Addresses of the console, and the only kind of address that it leads people to by itself.

use std::sync::Arc;

use url::{Position, Url, form_urlencoded};

/// The paths of the console's pages.
pub mod paths {
    /// Where everything starts.
    pub const HOME: &str = "/";
    /// The sign-in page; and where the local kind's form goes.
    pub const SIGN_IN: &str = "/sign-in";
    /// Leads to the code host.
    pub const BEGIN: &str = "/sign-in/code-host";
    /// Where the code host leads back to.
    pub const CALLBACK: &str = "/sign-in/callback";
    /// Ends this browser's session.
    pub const SIGN_OUT: &str = "/sign-out";
    /// Ends all of the person's sessions.
    pub const SIGN_OUT_EVERYWHERE: &str = "/sign-out/everywhere";
    /// Ends one other of them.
    pub const END_SESSION: &str = "/sign-out/session";
    /// Where a gated site sends its visitors.
    pub const GATE: &str = "/gate";
    /// Where invites lead, each with its token below.
    pub const INVITES: &str = "/invites";
}

/// Longest path that people are led back to.
const OWN_PATH_BYTES: usize = 8 * 1024;

/// A page of the console: a path with its query, never another host, and never a step of signing in or out. The type is
/// the check: nothing else is redirected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPath(String);

impl OwnPath {
    /// The home page.
    pub fn home() -> Self {
        Self(paths::HOME.to_owned())
    }

    /// `text` if it is such a path, else the home page.
    pub fn parse(text: &str) -> Self {
        Self::checked(text).unwrap_or_else(Self::home)
    }

    fn checked(text: &str) -> Option<Self> {
        let is_plain = text.len() <= OWN_PATH_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        // Browsers read a backslash as a slash, and two slashes as the start of another host.
        if !is_plain || !text.starts_with('/') || text.starts_with("//") || text.contains('\\') {
            return None;
        }
        // As a browser will read it: without dots in it, and still here.
        let base = Url::parse("https://console.invalid/").ok()?;
        let url = base.join(text).ok().filter(|url| url.origin() == base.origin())?;
        let path = url.path();
        let is_step = [paths::SIGN_IN, paths::SIGN_OUT, "/api"]
            .iter()
            .any(|step| path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        if is_step || path.starts_with("//") {
            return None;
        }
        Some(Self(url[Position::BeforePath..Position::AfterQuery].to_owned()))
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host that the person wants to see, when the path leads through a site's gate.
    pub fn gated_host(&self) -> Option<String> {
        let query = self.0.strip_prefix(paths::GATE)?.strip_prefix('?')?;
        form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "host").map(|(_, host)| host.into_owned())
    }
}

/// The console's own addresses.
#[derive(Debug, Clone)]
pub struct Console {
    origin: Arc<str>,
    /// `:8443`, or nothing when sites are on the scheme's own port.
    port_suffix: Arc<str>,
}

impl Console {
    /// From the configuration.
    pub fn new(site: &config::Site) -> Self {
        let port = site.base_url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Self { origin: site.console_url.origin().ascii_serialization().into(), port_suffix: port.into() }
    }

    /// The origin, as browsers name it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The whole address of a page.
    pub fn url(&self, path: &OwnPath) -> String {
        format!("{}{}", self.origin, path.as_str())
    }

    /// The sign-in page, which leads to `back` afterwards.
    pub fn sign_in(&self, back: &OwnPath) -> String {
        format!("{}{}", self.origin, with_back(paths::SIGN_IN, back))
    }

    /// Where the code host leads back to.
    pub fn callback(&self) -> String {
        format!("{}{}", self.origin, paths::CALLBACK)
    }

    /// The origin of a site at `host`.
    pub fn site_origin(&self, host: &str) -> String {
        format!("https://{host}{}", self.port_suffix)
    }
}

/// `path`, told where to lead afterwards.
pub fn with_back(path: &str, back: &OwnPath) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("return_to", back.as_str()).finish();
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_led_to_pages_of_the_console_only() {
        for good in ["/", "/gate?host=a.b&return=%2F%2Fx", "/invites/x?y=//z", "/a/b#c", "/?next=https://x.example"] {
            assert_eq!(OwnPath::parse(good).as_str(), good.split('#').next().unwrap());
        }
        assert_eq!(OwnPath::parse("/a/../b").as_str(), "/b");
        for bad in [
            "",
            "x",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/a\\..\\b",
            "https://evil.example",
            "https:/evil.example",
            "https:evil.example",
            "javascript:alert(1)",
            "//",
            "/\t/evil.example",
            "/\n/evil.example",
            " /",
            "/ /evil.example",
            "/é",
            "/..//evil.example",
            "/.//evil.example",
            "/a/..//evil.example",
            "/%2e%2e//evil.example",
            "/a\r\nSet-Cookie: x",
            "?x",
            "#x",
            "/sign-in",
            "/sign-in?return_to=/x",
            "/sign-in/callback?code=x",
            "/sign-out",
            "/a/../sign-out",
            "/api/me",
            "@evil.example",
            ".evil.example",
            "/\0",
            &format!("/{}", "a".repeat(OWN_PATH_BYTES)),
        ] {
            assert_eq!(OwnPath::parse(bad), OwnPath::home(), "{bad:?}");
        }
        assert_eq!(OwnPath::parse("/sign-inside").as_str(), "/sign-inside");
    }

    #[test]
    fn the_gated_host_is_read_from_the_way_back() {
        assert_eq!(OwnPath::parse("/gate?return=%2F&host=a.example").gated_host().as_deref(), Some("a.example"));
        assert_eq!(OwnPath::parse("/gates?host=a.example").gated_host(), None);
        assert_eq!(OwnPath::parse("/?host=a.example").gated_host(), None);
    }
}
