//! The request fields that distinguish browsers from programs that pretend to be one.
//!
//! Besides their name, browsers send the purpose of a request (`Sec-Fetch-*`, only over TLS), their versions
//! (`Sec-CH-UA`) and their user's languages. A field is expected only from versions known to send it, and only when the
//! `User-Agent` matches a known browser completely, so that a real browser of any age is never contradicted by its own
//! fields. Start with [`ClientFields::contradicts`].

use http::{HeaderMap, HeaderValue, Method};

use super::text::BrowserKind;

#[derive(Default)]
pub(crate) struct ClientFields<'r> {
    pub(in super::super) user_agent: Option<&'r HeaderValue>,
    pub(in super::super) referer: Option<&'r HeaderValue>,
    pub(super) is_signed: bool,
    accept: Option<&'r HeaderValue>,
    accept_language: Option<&'r HeaderValue>,
    brands: Option<&'r HeaderValue>,
    site: Option<&'r HeaderValue>,
    mode: Option<&'r HeaderValue>,
    dest: Option<&'r HeaderValue>,
    user: Option<&'r HeaderValue>,
    has_range: bool,
}

impl<'r> ClientFields<'r> {
    pub(in super::super) fn from_headers(headers: &'r HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            let place = match name.as_str() {
                "user-agent" => &mut fields.user_agent,
                "referer" => &mut fields.referer,
                "accept" => &mut fields.accept,
                "accept-language" => &mut fields.accept_language,
                "sec-ch-ua" => &mut fields.brands,
                "sec-fetch-site" => &mut fields.site,
                "sec-fetch-mode" => &mut fields.mode,
                "sec-fetch-dest" => &mut fields.dest,
                "sec-fetch-user" => &mut fields.user,
                "signature-agent" => {
                    fields.is_signed = true;
                    continue;
                }
                "range" => {
                    fields.has_range = true;
                    continue;
                }
                _ => continue,
            };
            *place = Some(value);
        }
        fields
    }

    /// Returns whether the fields contradict that `browser` sent the request with `method`, over TLS or not.
    pub(super) fn contradicts(&self, browser: BrowserKind, method: &Method, tls: bool) -> bool {
        self.has_purpose_conflict(browser, method)
            || self.has_brand_conflict(browser)
            || (tls && self.lacks_purpose(browser))
            || self.lacks_language(browser, method)
    }

    /// Returns whether the stated purpose of the request contradicts itself.
    fn has_purpose_conflict(&self, browser: BrowserKind, method: &Method) -> bool {
        let Some(mode) = self.mode.map(HeaderValue::as_bytes) else {
            // Browsers send all of these fields or none; a single one was added by hand.
            return browser != BrowserKind::Other
                && (self.site.is_some() || self.dest.is_some() || self.user.is_some());
        };
        let dest = self.dest.map(HeaderValue::as_bytes);
        let is_part = matches!(
            dest,
            Some(
                b"script"
                    | b"style"
                    | b"image"
                    | b"font"
                    | b"audio"
                    | b"video"
                    | b"track"
                    | b"manifest"
                    | b"worker"
                    | b"sharedworker"
                    | b"serviceworker"
            )
        );
        match mode {
            // A service worker that passes on a navigation leaves the destination empty.
            b"navigate" => is_part || !matches!(*method, Method::GET | Method::POST),
            b"no-cors" | b"cors" => dest == Some(b"document") || self.user.is_some(),
            _ => false,
        }
    }

    fn has_brand_conflict(&self, browser: BrowserKind) -> bool {
        let Some(brands) = self.brands.map(HeaderValue::as_bytes) else { return false };
        if memchr::memmem::find(brands, b"HeadlessChrome").is_some() {
            return true;
        }
        match browser {
            // The first versions that sent the field also put other values there.
            BrowserKind::Chromium(version @ 90..) => {
                brand_version(brands, b"\"Chromium\";v=\"").is_some_and(|said| said != version)
            }
            BrowserKind::Chromium(_) | BrowserKind::Other => false,
            // Neither browser has ever sent it.
            BrowserKind::Firefox(_) | BrowserKind::Safari(_) => true,
        }
    }

    /// Returns whether the request lacks the purpose that this browser states in every request.
    fn lacks_purpose(&self, browser: BrowserKind) -> bool {
        // The operating system continues downloads in the browser's name.
        if self.mode.is_some() || self.has_range {
            return false;
        }
        match browser {
            BrowserKind::Chromium(80..) | BrowserKind::Firefox(90..) => true,
            // Another component of Safari fetches icons.
            BrowserKind::Safari(17..) => self.accepts_pages(),
            _ => false,
        }
    }

    /// Returns whether a browser requests a page without naming a language.
    fn lacks_language(&self, browser: BrowserKind, method: &Method) -> bool {
        let is_page = *method == Method::GET
            && self.mode.map_or_else(|| self.accepts_pages(), |mode| mode.as_bytes() == b"navigate");
        browser != BrowserKind::Other && is_page && self.accept_language.is_none_or(HeaderValue::is_empty)
    }

    fn accepts_pages(&self) -> bool {
        self.accept.is_some_and(|accept| accept.as_bytes().starts_with(b"text/html"))
    }
}

fn brand_version(brands: &[u8], brand: &[u8]) -> Option<u16> {
    let at = memchr::memmem::find(brands, brand)? + brand.len();
    let digits = brands[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&brands[at..at + digits]).ok()?.parse().ok()
}
