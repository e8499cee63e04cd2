//! HTML answers: the headers, the layout and the stylesheet that pages share.
//!
//! A page is a template of `admin/templates` that extends the layout of `common/templates`; askama escapes every value in
//! it. Pages run no script and load nothing. Not here: which pages there are, which is [`crate::pages`].

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

/// The stylesheet as the layout inlines it, in two parts.
const STYLE: [&str; 2] = [
    include_str!("../../common/templates/tokens.css").trim_ascii_end(),
    include_str!("../../common/templates/style.css").trim_ascii_end(),
];

/// Allows the inlined stylesheet and forms to the console itself, and nothing else: no script, no frame around the page.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE.concat()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

/// A page that says one thing.
#[derive(Template)]
#[template(path = "message.html")]
pub struct Message<'a> {
    /// The heading.
    pub title: &'a str,
    /// The text below it. Parts between backticks are code.
    pub sentence: &'a str,
    /// The way on from there.
    pub link: Option<Link<'a>>,
}

/// A link below a [`Message`].
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The address.
    pub href: &'a str,
    /// The text of the link.
    pub label: &'a str,
    /// Whether the link looks like a button, because following it is what the page asks for.
    pub is_button: bool,
}

/// A page with the layout's headers.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    page_with_forms_to(None, status, template)
}

/// A page whose form may also lead to `origin`: browsers apply the policy to the redirects after a form as well.
pub fn page_with_forms_to(origin: Option<&str>, status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => respond(status, html.into(), origin),
        Err(error) => ApiError::internal(error).into_response(),
    }
}

/// A page that was rendered before, as [`Template::render`] has returned it.
pub fn rendered(status: StatusCode, html: Bytes) -> Response {
    respond(status, html, None)
}

/// A [`Message`] with a link to the console's front page.
pub fn message(status: StatusCode, title: &str, sentence: &str) -> Response {
    let link = Some(Link { href: paths::HOME, label: "To the console", is_button: false });
    page(status, &Message { title, sentence, link })
}

/// 303 to `location`, which the caller has checked. The browser does not tell that page which address led to it.
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
        // Not `no-referrer`: under it browsers also leave out which origin a form comes from.
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
        let link = Some(Link { href: "/?a=\"><b>", label: "'x'", is_button: true });
        let html = Message { title: "<a>", sentence, link }.render().unwrap();
        assert!(html.contains("<title>&#60;a&#62;</title>") && html.contains("<h1>&#60;a&#62;</h1>"), "{html}");
        assert!(html.contains("send <code>{&#34;&#60;ok&#62;&#34;}</code> &#38; wait"), "{html}");
        assert!(html.contains("href=\"/?a=&#34;&#62;&#60;b&#62;\" class=\"button\">&#39;x&#39;</a>"), "{html}");
    }

    #[test]
    fn the_policy_allows_the_style_that_pages_have() {
        let html = Message { title: "", sentence: "", link: None }.render().unwrap();
        let (_, rest) = html.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(POLICY.contains(&format!("style-src 'sha256-{hash}'")), "{}", *POLICY);
    }

    /// Calls `check` with every file below `folder` that ends in `extension`.
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

    /// What stands in `text` that only a template should hold: the start of an element, or an escaped character.
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = 0;
        for sources in ["admin/src", "edge/src", "certs/src", "cli/src", "common"] {
            each_file(&root.join(sources), "rs", &mut |path, text| {
                files += 1;
                // Modules of tests are not what is served.
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

    /// The policy of pages knows no `style` attributes; letters have no policy, and mail programs read nothing else.
    #[test]
    fn pages_are_styled_by_the_stylesheet_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for templates in ["admin/templates", "edge/templates", "common/templates"] {
            each_file(&root.join(templates), "html", &mut |path, text| {
                assert!(path.parent().unwrap().ends_with("mail") || !text.contains("style="), "{}", path.display());
                assert!(!text.contains("<script") && !text.contains("|safe"), "{}", path.display());
            });
        }
    }
}
