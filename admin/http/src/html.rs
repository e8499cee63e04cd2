//! HTML responses: the headers, the layout and the stylesheet that all pages share.
//!
//! A page is a template in the `templates` of its crate that extends the layout in `common/templates`; askama escapes all values
//! in it. Pages run no scripts and load nothing. The pages themselves are in `pages`.

use std::sync::LazyLock;

use askama::Template;
use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse as _, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::{addresses::paths, error::ApiError};

/// The stylesheet, in two parts, which the layout inlines.
const STYLE: [&str; 2] = [
    include_str!("../../../common/templates/tokens.css").trim_ascii_end(),
    include_str!("../../../common/templates/style.css").trim_ascii_end(),
];

/// The `Content-Security-Policy`: allows the inlined stylesheet and forms to the console, but no scripts or framing.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE.concat()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

/// A page with a single message.
#[derive(Template)]
#[template(path = "message.html")]
pub struct MessagePage<'a> {
    /// The heading.
    pub title: &'a str,
    /// The text below the heading. Parts between backticks are code.
    pub sentence: &'a str,
    /// The link below the text.
    pub link: Option<PageLink<'a>>,
}

/// A link below a [`MessagePage`].
#[derive(Debug, Clone, Copy)]
pub struct PageLink<'a> {
    /// The address.
    pub href: &'a str,
    /// The link text.
    pub label: &'a str,
    /// Whether the link looks like a button, because following it is the page's main action.
    pub is_button: bool,
}

/// Renders a page with the layout's headers.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    page_with_forms_to(None, status, template)
}

/// Renders a page whose form may also lead to `origin`: browsers apply the policy to a form's redirects too.
pub fn page_with_forms_to(origin: Option<&str>, status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => respond(status, html.into(), origin),
        Err(error) => ApiError::internal(error).into_response(),
    }
}

/// Returns a page from HTML that [`Template::render`] produced earlier.
pub fn rendered(status: StatusCode, html: Bytes) -> Response {
    respond(status, html, None)
}

/// Renders a [`MessagePage`] with a link to the console's front page.
pub fn message(status: StatusCode, title: &str, sentence: &str) -> Response {
    let link = Some(PageLink { href: paths::HOME, label: "To the console", is_button: false });
    page(status, &MessagePage { title, sentence, link })
}

/// Redirects with 303 to `location`, which the caller has checked. Other origins do not receive a referrer.
pub fn see_other(location: &str) -> Response {
    let headers = [(header::REFERRER_POLICY, "no-referrer"), (header::CACHE_CONTROL, "no-store")];
    (headers, Redirect::to(location)).into_response()
}

fn respond(status: StatusCode, html: Bytes, form_origin: Option<&str>) -> Response {
    let policy = form_origin.map_or_else(|| POLICY.clone(), |origin| format!("{} {origin}", *POLICY));
    let headers = [
        (header::CONTENT_SECURITY_POLICY, &*policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`, with which browsers also omit the origin of a form.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Html(html)).into_response()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let sentence = "send `{\"<ok>\"}` & wait";
        let link = Some(PageLink { href: "/?a=\"><b>", label: "'x'", is_button: true });
        let html = MessagePage { title: "<a>", sentence, link }.render().unwrap();
        assert!(html.contains("<title>&#60;a&#62;</title>") && html.contains("<h1>&#60;a&#62;</h1>"), "{html}");
        assert!(html.contains("send <code>{&#34;&#60;ok&#62;&#34;}</code> &#38; wait"), "{html}");
        assert!(html.contains("href=\"/?a=&#34;&#62;&#60;b&#62;\" class=\"button\">&#39;x&#39;</a>"), "{html}");
    }

    #[test]
    fn the_policy_allows_the_style_that_pages_have() {
        let html = MessagePage { title: "", sentence: "", link: None }.render().unwrap();
        let (_, rest) = html.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(POLICY.contains(&format!("style-src 'sha256-{hash}'")), "{}", *POLICY);
    }

    fn each_file(folder: &Path, extension: &str, check: &mut impl FnMut(&Path, &str)) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
                each_file(&path, extension, check);
            } else if path.extension().is_some_and(|found| found == extension) {
                check(&path, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    const ELEMENTS: [&str; 27] = [
        "a", "body", "button", "code", "div", "em", "form", "h1", "h2", "h3", "head", "html", "input", "label", "li",
        "link", "main", "meta", "p", "pre", "script", "span", "strong", "style", "table", "title", "ul",
    ];

    /// Finds text that belongs only in templates: the start of an element, or an escaped character.
    fn markup(text: &str) -> Option<&str> {
        let is_element = |rest: &&str| {
            ELEMENTS.iter().any(|name| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(['>', ' '])))
        };
        let element = text.split('<').skip(1).find(is_element);
        element.or_else(|| ["&lt;", "&amp;", "&quot;", "&#39;", "<!doctype"].into_iter().find(|it| text.contains(it)))
    }

    #[test]
    fn markup_stands_in_templates_only() {
        assert!(markup("\"<p>x\"").is_some() && markup("<a href=").is_some() && markup("Vec<u8>").is_none());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = 0;
        for sources in ["admin", "edge", "certs/src", "cli/src", "common"] {
            each_file(&root.join(sources), "rs", &mut |path, text| {
                files += 1;
                // Test modules are not served.
                if ["tests.rs", "fixtures.rs"].iter().any(|name| path.ends_with(name)) {
                    return;
                }
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                assert_eq!(lines.find_map(markup), None, "{}", path.display());
            });
        }
        assert!(files > 200, "only {files} files were read");
    }

    /// The pages' policy forbids `style` attributes. Letters have no policy, and mail programs support nothing else.
    #[test]
    fn pages_are_styled_by_the_stylesheet_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for templates in ["admin", "edge", "common/templates"] {
            each_file(&root.join(templates), "html", &mut |path, text| {
                assert!(path.parent().unwrap().ends_with("mail") || !text.contains("style="), "{}", path.display());
                assert!(!text.contains("<script") && !text.contains("|safe"), "{}", path.display());
            });
        }
    }
}
