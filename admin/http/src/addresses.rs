//! Addresses that admin creates: the console's pages ([`ConsoleAddresses`], [`paths`]), the pages that it may redirect to
//! ([`ConsolePath`]), and a project's ([`project_url`]).

use std::sync::Arc;

use db::projects::Project;
use domain::addresses::PlatformAddresses;
use url::{Position, Url, form_urlencoded};

/// The paths of the console's pages.
pub mod paths {
    /// The front page.
    pub const HOME: &str = "/";
    /// The sign-in page, and the target of the form for the `local` code host.
    pub const SIGN_IN: &str = "/sign-in";
    /// The redirect to the code host.
    pub const BEGIN: &str = "/sign-in/code-host";
    /// The page that the code host redirects back to.
    pub const CALLBACK: &str = "/sign-in/callback";
    /// The form that ends this browser's session.
    pub const SIGN_OUT: &str = "/sign-out";
    /// The form that ends all of the person's sessions.
    pub const SIGN_OUT_EVERYWHERE: &str = "/sign-out/everywhere";
    /// The form that ends another of the person's sessions.
    pub const END_SESSION: &str = "/sign-out/session";
    /// The page to which edges redirect visitors of a gated site.
    pub const GATE: &str = "/gate";
    /// The parent of the pages of invites, each named by its token.
    pub const INVITES: &str = "/invites";
    /// The page, and the form, that unsubscribe from a kind of letter.
    pub const UNSUBSCRIBE: &str = "/letters/unsubscribe";
    /// The form that subscribes to a kind of letter again.
    pub const SUBSCRIBE: &str = "/letters/subscribe";
    /// The parent of the public statistics pages, each named by its token.
    pub const STATS: &str = "/stats";
    /// The parent of the pages for paying with play money, each named by its payment's id.
    pub const PLAY: &str = "/play";
}

const OWN_PATH_BYTES: usize = 8 * 1024;

/// A checked path of the console: with its query, never another host, and never a step of signing in or out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolePath(String);

impl ConsolePath {
    /// Returns the front page.
    pub fn home() -> Self {
        Self(paths::HOME.to_owned())
    }

    /// Parses a path. Anything that must not be redirected to becomes the front page.
    pub fn parse(text: &str) -> Self {
        Self::checked(text).unwrap_or_else(Self::home)
    }

    fn checked(text: &str) -> Option<Self> {
        let is_plain = text.len() <= OWN_PATH_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        // Browsers treat a backslash as a slash, and two slashes as the start of another host.
        if !is_plain || !text.starts_with('/') || text.starts_with("//") || text.contains('\\') {
            return None;
        }
        // Resolve as a browser does: without dot segments, and on the same origin.
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

    /// Returns the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the site's host, if the path leads through a site's gate.
    pub fn gated_host(&self) -> Option<String> {
        let query = self.0.strip_prefix(paths::GATE)?.strip_prefix('?')?;
        form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "host").map(|(_, host)| host.into_owned())
    }
}

/// The console's own addresses.
#[derive(Debug, Clone)]
pub struct ConsoleAddresses {
    origin: Arc<str>,
    /// `:8443`, or empty if sites use the scheme's default port.
    port_suffix: Arc<str>,
}

impl ConsoleAddresses {
    /// Creates the console's addresses from the configuration.
    pub fn new(site: &config::Site) -> Self {
        let port = site.base_url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Self { origin: site.console_url.origin().ascii_serialization().into(), port_suffix: port.into() }
    }

    /// Returns the console's origin, as browsers send it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the full address of a page.
    pub fn url(&self, path: &ConsolePath) -> String {
        format!("{}{}", self.origin, path.as_str())
    }

    /// Returns the address of the sign-in page, which redirects to `back` afterwards.
    pub fn sign_in(&self, back: &ConsolePath) -> String {
        format!("{}{}", self.origin, with_return_path(paths::SIGN_IN, back))
    }

    /// Returns the address that the code host redirects back to.
    pub fn callback(&self) -> String {
        format!("{}{}", self.origin, paths::CALLBACK)
    }

    /// Returns the address of the public statistics page for this token.
    pub fn public_stats(&self, token: &str) -> String {
        format!("{}{}/{token}", self.origin, paths::STATS)
    }

    /// Returns the address of the page for paying this play money payment.
    pub fn play(&self, payment: &str) -> String {
        format!("{}{}/{payment}", self.origin, paths::PLAY)
    }

    /// Returns the origin of the site at `host`.
    pub fn site_origin(&self, host: &str) -> String {
        format!("https://{host}{}", self.port_suffix)
    }
}

/// Adds the page to return to, `back`, to a page's path.
pub fn with_return_path(path: &str, back: &ConsolePath) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("return_to", back.as_str()).finish();
    format!("{path}?{query}")
}

/// Returns the address at which the project's active deployment is served.
pub fn project_url(addresses: &PlatformAddresses, project: &Project) -> String {
    match &project.share_name {
        Some(words) => addresses.share_url(words),
        None => addresses.project_url(&project.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_led_to_pages_of_the_console_only() {
        for good in ["/", "/gate?host=a.b&return=%2F%2Fx", "/invites/x?y=//z", "/a/b#c", "/?next=https://x.example"] {
            assert_eq!(ConsolePath::parse(good).as_str(), good.split('#').next().unwrap());
        }
        assert_eq!(ConsolePath::parse("/a/../b").as_str(), "/b");
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
            assert_eq!(ConsolePath::parse(bad), ConsolePath::home(), "{bad:?}");
        }
        assert_eq!(ConsolePath::parse("/sign-inside").as_str(), "/sign-inside");
    }

    #[test]
    fn the_gated_host_is_read_from_the_way_back() {
        assert_eq!(ConsolePath::parse("/gate?return=%2F&host=a.example").gated_host().as_deref(), Some("a.example"));
        assert_eq!(ConsolePath::parse("/gates?host=a.example").gated_host(), None);
        assert_eq!(ConsolePath::parse("/?host=a.example").gated_host(), None);
    }
}
