//! Addresses that admin makes: the console's pages ([`Console`], [`paths`]), the pages that people may be redirected to
//! ([`OwnPath`]), and a project's ([`of_project`]).

use std::sync::Arc;

use db::projects::Project;
use domain::addresses::Addresses;
use url::{Position, Url, form_urlencoded};

/// The paths of the console's pages.
pub mod paths {
    /// The front page.
    pub const HOME: &str = "/";
    /// The sign-in page, to which the local kind's form is sent as well.
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
    /// The page to which a gated site sends its visitors.
    pub const GATE: &str = "/gate";
    /// The parent of invites' pages, each of which has its token as its name.
    pub const INVITES: &str = "/invites";
    /// The page, and the form, that unsubscribe from a kind of letter.
    pub const UNSUBSCRIBE: &str = "/letters/unsubscribe";
    /// The form that subscribes to a kind of letter again.
    pub const SUBSCRIBE: &str = "/letters/subscribe";
    /// The parent of public pages of statistics, each of which has its token as its name.
    pub const STATS: &str = "/stats";
    /// The parent of the pages on which play money is paid, each of which has its payment's id as its name.
    pub const PLAY: &str = "/play";
}

/// Longest path that people are redirected back to.
const OWN_PATH_BYTES: usize = 8 * 1024;

/// A page of the console that people may be redirected to: a path with its query, never another host, and never a step
/// of signing in or out. Holding one means that it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPath(String);

impl OwnPath {
    /// The front page.
    pub fn home() -> Self {
        Self(paths::HOME.to_owned())
    }

    /// Parses a path. Anything that may not be redirected to becomes the front page.
    pub fn parse(text: &str) -> Self {
        Self::checked(text).unwrap_or_else(Self::home)
    }

    fn checked(text: &str) -> Option<Self> {
        let is_plain = text.len() <= OWN_PATH_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        // Browsers read a backslash as a slash, and two slashes as the start of another host.
        if !is_plain || !text.starts_with('/') || text.starts_with("//") || text.contains('\\') {
            return None;
        }
        // As a browser resolves it: without dot segments, and on the same origin.
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

    /// The site's host, when the path leads through a site's gate.
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
    /// Takes the console's addresses from the configuration.
    pub fn new(site: &config::Site) -> Self {
        let port = site.base_url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Self { origin: site.console_url.origin().ascii_serialization().into(), port_suffix: port.into() }
    }

    /// The console's origin, as browsers name it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Makes the whole address of a page.
    pub fn url(&self, path: &OwnPath) -> String {
        format!("{}{}", self.origin, path.as_str())
    }

    /// Makes the address of the sign-in page, which redirects to `back` afterwards.
    pub fn sign_in(&self, back: &OwnPath) -> String {
        format!("{}{}", self.origin, with_back(paths::SIGN_IN, back))
    }

    /// Makes the address that the code host redirects back to.
    pub fn callback(&self) -> String {
        format!("{}{}", self.origin, paths::CALLBACK)
    }

    /// Makes the address of the public page of statistics that this token opens.
    pub fn public_stats(&self, token: &str) -> String {
        format!("{}{}/{token}", self.origin, paths::STATS)
    }

    /// Makes the address of the page on which this payment of play money is paid.
    pub fn play(&self, payment: &str) -> String {
        format!("{}{}/{payment}", self.origin, paths::PLAY)
    }

    /// Makes the origin of the site at `host`.
    pub fn site_origin(&self, host: &str) -> String {
        format!("https://{host}{}", self.port_suffix)
    }
}

/// Adds the page to return to, `back`, to the path of a page.
pub fn with_back(path: &str, back: &OwnPath) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("return_to", back.as_str()).finish();
    format!("{path}?{query}")
}

/// Makes the address at which the project's active deployment is served.
pub fn of_project(addresses: &Addresses, project: &Project) -> String {
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
