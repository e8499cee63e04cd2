//! Detects whether a page has subresources of its own site that every browser loads: a style, a script, or an image.
//!
//! The page is scanned only as far as needed, not parsed like in a browser. In doubt the answer is no, so that a
//! visitor who loads the page is not expected to load more.

/// Elements whose content is not markup or not shown.
const OPAQUE: [&str; 7] = ["script", "style", "noscript", "template", "textarea", "title", "svg"];

/// Returns whether a browser that shows `page` loads subresources from the same site.
pub(super) fn loads_parts(page: &[u8]) -> bool {
    let text = String::from_utf8_lossy(page);
    let mut rest = &*text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = after(comment, "-->");
            continue;
        }
        let Some(tag) = StartTag::read(&mut rest) else { continue };
        // Relative addresses may then point elsewhere.
        if tag.is_named("base") && tag.attribute("href").is_some() {
            return false;
        }
        if tag.loads_own() {
            return true;
        }
        if let Some(name) = OPAQUE.iter().find(|name| tag.is_named(name)) {
            rest = after_element(rest, name);
        }
    }
    false
}

struct StartTag<'t> {
    name: &'t str,
    attributes: Vec<(&'t str, &'t str)>,
}

impl<'t> StartTag<'t> {
    /// Reads the tag whose `<` precedes `rest`, and advances `rest` past it. Returns `None` for an end tag.
    fn read(rest: &mut &'t str) -> Option<Self> {
        let name = take(rest, |byte| byte.is_ascii_alphanumeric() || byte == '-');
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        let mut attributes = Vec::new();
        loop {
            take(rest, |byte| byte.is_whitespace() || byte == '/');
            if rest.is_empty() || rest.starts_with('>') {
                return Some(Self { name, attributes });
            }
            let name = take(rest, |byte| !byte.is_whitespace() && !['=', '>', '/'].contains(&byte));
            take(rest, char::is_whitespace);
            let Some(value) = rest.strip_prefix('=') else {
                // A `/` within the tag, or an attribute without a value.
                attributes.push((name, ""));
                continue;
            };
            *rest = value.trim_start();
            let quote = rest.chars().next().filter(|quote| ['"', '\''].contains(quote));
            let value = match quote {
                Some(quote) => {
                    *rest = &rest[1..];
                    let value = take(rest, |byte| byte != quote);
                    *rest = rest.get(1..).unwrap_or_default();
                    value
                }
                None => take(rest, |byte| !byte.is_whitespace() && byte != '>'),
            };
            attributes.push((name, value));
        }
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn attribute(&self, name: &str) -> Option<&'t str> {
        let found = self.attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    fn loads_own(&self) -> bool {
        let has_own = |name| self.attribute(name).is_some_and(is_same_site);
        if self.is_named("script") {
            return has_own("src") && self.attribute("nomodule").is_none();
        }
        if self.is_named("img") {
            let is_late = self.attribute("loading").is_some_and(|loading| loading.eq_ignore_ascii_case("lazy"));
            return has_own("src") && !is_late;
        }
        if self.is_named("link") {
            let relations = self.attribute("rel").unwrap_or_default().split_ascii_whitespace();
            let is_style = relations.into_iter().any(|relation| relation.eq_ignore_ascii_case("stylesheet"));
            return is_style && has_own("href") && self.attribute("disabled").is_none();
        }
        false
    }
}

/// Returns whether an address is of the site itself. An absolute URL may be too, but counts as foreign.
fn is_same_site(address: &str) -> bool {
    let scheme = address.split(['/', '?', '#']).next().unwrap_or_default();
    !address.is_empty() && !address.starts_with("//") && !address.starts_with('#') && !scheme.contains(':')
}

/// Splits off the leading characters of `rest` that match.
fn take<'t>(rest: &mut &'t str, is_wanted: impl Fn(char) -> bool) -> &'t str {
    let end = rest.find(|byte| !is_wanted(byte)).unwrap_or(rest.len());
    let (taken, left) = rest.split_at(end);
    *rest = left;
    taken
}

fn after<'t>(text: &'t str, end: &str) -> &'t str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// Returns the text after the end tag of the element `name`.
fn after_element<'t>(mut text: &'t str, name: &str) -> &'t str {
    while let Some(at) = text.find("</") {
        text = &text[at + 2..];
        if text.get(..name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name)) {
            return &text[name.len()..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_site_are_seen() {
        for page in [
            "<!doctype html><head><link rel=stylesheet href=style.css>",
            "<LINK HREF='/a/style.css?v=1' REL='preload Stylesheet' />",
            "<script type=\"module\" crossorigin src=\"/assets/index.js\"></script>",
            "<p>hi<img alt=\"a > b\" src=./pic.png>",
            "<img\n  src = \"pic.png\"\n>",
            "<script>if (1 < 2) { '<img src=x>' }</script><script src=app.js></script>",
            "<!-- <b> --><img src=x>",
            "<a href=x><<img src=x>",
            "<img / src=x>",
        ] {
            assert!(loads_parts(page.as_bytes()), "{page}");
        }
    }

    #[test]
    fn what_is_of_others_or_not_loaded_is_no_part() {
        for page in [
            "",
            "plain text",
            "<h1>hi</h1><a href=next.html>next</a>",
            "<link rel=icon href=icon.png><link rel=canonical href=/><link rel=stylesheet>",
            "<link rel=stylesheet href=https://cdn.example/style.css><script src=//cdn.example/x.js></script>",
            "<img src=data:image/png;base64,AAAA><img src=''><img srcset='a.png 1x'>",
            "<img loading=lazy src=pic.png>",
            "<script nomodule src=old.js></script>",
            "<script>document.write('<img src=x>')</script>",
            "<!-- <script src=app.js></script> -->",
            "<!-- <script src=app.js></script>",
            "<noscript><img src=pixel.gif></noscript><template><img src=x></template>",
            "<base href=https://cdn.example/><script src=app.js></script>",
            "<title><img src=x></title>",
            "<imgx src=x><",
        ] {
            assert!(!loads_parts(page.as_bytes()), "{page}");
        }
    }

    proptest::proptest! {
        #[test]
        fn anything_can_be_searched(page in proptest::prelude::any::<Vec<u8>>(), tags in "[<>/='\"a-c !-]{0,200}") {
            loads_parts(&page);
            loads_parts(tags.as_bytes());
            loads_parts(format!("<script {tags}").as_bytes());
        }
    }
}
