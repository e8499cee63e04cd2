//! The password form: its page, and its submission.

use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE, uri::PathAndQuery};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use http_types::{
    SiteBody, pages,
    reserved::{self, FORM_PATH},
};
use limits::GATE_FORM_BYTES;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FormNotice {
    None,
    Wrong,
}

#[derive(Template)]
#[template(path = "password.html")]
struct PasswordPage<'a> {
    status: StatusCode,
    title: &'a str,
    text: &'a str,
    return_to: &'a str,
    is_wrong: bool,
}

pub(super) struct PasswordForm {
    pub(super) password: String,
    /// The path on this site that the visitor was going to.
    pub(super) return_to: String,
}

/// Returns the page with the form. `return_to` is a checked path of this site.
pub(super) fn page(status: StatusCode, return_to: &str, note: FormNotice) -> Response<SiteBody> {
    let page = PasswordPage {
        status,
        title: "This site is protected",
        text: "Enter its password to see it.",
        return_to,
        is_wrong: note == FormNotice::Wrong,
    };
    pages::render(status, &page)
}

/// Returns `path` if it is local, else `/`. Browsers read a backslash as a slash, so neither may follow the first one.
pub(super) fn checked_return(path: &str) -> &str {
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic()) && path.parse::<PathAndQuery>().is_ok();
    if is_local && is_plain && !path.starts_with(reserved::PREFIX) { path } else { "/" }
}

impl PasswordForm {
    /// Reads the form. Fails with the response to send instead.
    pub(super) async fn read<B>(headers: &HeaderMap, body: B) -> Result<Self, Box<Response<SiteBody>>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_form = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"));
        if !is_form {
            return Err(Box::new(pages::page(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Not a form",
                "The password is sent as a form.",
            )));
        }
        let Ok(body) = Limited::new(body, GATE_FORM_BYTES).collect().await else {
            let text = "A password is shorter than that.";
            return Err(Box::new(pages::page(StatusCode::PAYLOAD_TOO_LARGE, "Too large", text)));
        };
        let mut submitted = Self { password: String::new(), return_to: "/".to_owned() };
        for (name, value) in url::form_urlencoded::parse(&body.to_bytes()) {
            match &*name {
                "password" => submitted.password = value.into_owned(),
                "return" => checked_return(&value).clone_into(&mut submitted.return_to),
                _ => {}
            }
        }
        Ok(submitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_on_this_site() {
        for good in ["/", "/a/b?c=d&e=%20", "/a//b", "/?next=https://x.example"] {
            assert_eq!(checked_return(good), good);
        }
        let bad = [
            "",
            "x",
            "//evil.example",
            "/\\evil.example",
            "/a\\b",
            "https://evil.example",
            "/a\r\nSet-Cookie: x",
            "/\t/evil.example",
            "/é",
            "/.svc/gate",
            "/.svc/gate?x",
            "/.svc/enter?ticket=x",
        ];
        for bad in bad {
            assert_eq!(checked_return(bad), "/", "{bad:?}");
        }
    }

    #[tokio::test]
    async fn text_cannot_leave_its_attribute() {
        let response = page(StatusCode::UNAUTHORIZED, "/?a=\"><script>&'", FormNotice::None);
        let html = response.into_body().collect().await.unwrap().to_bytes();
        let html = std::str::from_utf8(&html).unwrap();
        assert!(html.contains("name=\"return\" value=\"/?a=&#34;&#62;&#60;script&#62;&#38;&#39;\">"), "{html}");
    }
}
