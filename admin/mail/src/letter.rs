//! The layout of all letters: a [`Letter`] is the content, and one template each renders it as text and as HTML.

use askama::Template;
use domain::BRAND;

/// The content of a letter to one person. Text chosen by people appears as text, never as markup or in a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Letter {
    /// The `Subject` header, unencoded.
    pub subject: String,
    /// The heading.
    pub heading: String,
    /// Paragraphs: what happened, then the consequences.
    pub paragraphs: Vec<String>,
    /// Names and values, shown as a list.
    pub facts: Vec<(&'static str, String)>,
    /// The page on which the recipient can act.
    pub button: Option<LinkButton>,
    /// The command with which the recipient can act.
    pub command: Option<String>,
    /// Further information in small print.
    pub advice: Option<String>,
}

/// A link that the recipient should follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkButton {
    /// The text of the link.
    pub label: &'static str,
    /// The URL.
    pub url: String,
}

/// The footer of a letter.
#[derive(Debug, Clone, Copy)]
pub struct LetterFooter<'a> {
    brand: &'a str,
    /// One sentence: the sender, and the reason for the letter.
    sender: &'a str,
    /// The URL for unsubscribing.
    unsubscribe: Option<&'a str>,
    /// The topic of the letters that `unsubscribe` ends.
    about: &'a str,
    /// The URL of the page on which the recipient chooses their letters.
    settings: Option<&'a str>,
}

impl<'a> LetterFooter<'a> {
    /// Creates the footer of a letter without a link for unsubscribing.
    pub fn new(sender: &'a str) -> Self {
        Self { brand: BRAND, sender, unsubscribe: None, about: "", settings: None }
    }

    /// Adds a link for unsubscribing from letters about a topic.
    #[must_use]
    pub fn with_unsubscribe(self, url: &'a str, about: &'a str) -> Self {
        Self { unsubscribe: Some(url), about, ..self }
    }

    /// Adds a link to the page on which the recipient chooses their letters.
    #[must_use]
    pub fn with_settings(self, url: &'a str) -> Self {
        Self { settings: Some(url), ..self }
    }
}

/// A letter rendered as text and as HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedLetter {
    /// The `Subject` header, unencoded.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
}

/// A value from which a letter can be composed.
pub trait ComposeLetter {
    /// Composes the letter.
    fn compose(&self) -> Letter;
}

#[derive(Template)]
#[template(path = "mail/letter.txt")]
struct TextTemplate<'a> {
    letter: &'a Letter,
    footer: LetterFooter<'a>,
}

#[derive(Template)]
#[template(path = "mail/letter.html")]
struct HtmlTemplate<'a> {
    letter: &'a Letter,
    footer: LetterFooter<'a>,
}

impl Letter {
    /// Renders the letter and its footer.
    pub fn render(self, footer: LetterFooter<'_>) -> askama::Result<RenderedLetter> {
        let text = TextTemplate { letter: &self, footer }.render()?;
        let html = HtmlTemplate { letter: &self, footer }.render()?;
        Ok(RenderedLetter { subject: self.subject, text, html })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Letter {
        Letter {
            subject: "A subject".to_owned(),
            heading: "A <heading>".to_owned(),
            paragraphs: vec!["It has happened.".to_owned(), "It means & matters.".to_owned()],
            facts: vec![("Label", "<i>".to_owned()), ("Amount", "€12.30".to_owned())],
            button: Some(LinkButton { label: "Open it", url: "https://app.example/x?a=1&b=\"".to_owned() }),
            command: Some("svc billing".to_owned()),
            advice: Some("Or leave it.".to_owned()),
        }
    }

    #[test]
    fn both_alternatives_say_the_same() {
        let footer =
            LetterFooter::new("Sent by svc.").with_unsubscribe("https://app.example/u?k=1&t=2", "about things");
        let footer = footer.with_settings("https://app.example/account");
        let RenderedLetter { subject, text, html } = full().render(footer).unwrap();
        assert_eq!(subject, "A subject");
        let expected = "A <heading>\n\nIt has happened.\n\nIt means & matters.\n\nLabel: <i>\nAmount: €12.30\n\n\
                        Open it:\nhttps://app.example/x?a=1&b=\"\n\n    svc billing\n\nOr leave it.\n\n\
                        -- \nSent by svc.\nNo more letters about things: https://app.example/u?k=1&t=2\n\
                        Choose your letters: https://app.example/account\n";
        assert_eq!(text, expected);
        for part in [
            "<title>A subject</title>",
            ">A &#60;heading&#62;</h1>",
            ">It means &#38; matters.</p>",
            ">&#60;i&#62;</td>",
            "href=\"https://app.example/x?a=1&#38;b=&#34;\"",
            ">svc billing</p>",
            "<a class=\"link\" href=\"https://app.example/u?k=1&#38;t=2\" style=\"color:#2b55d9\">No more letters about things</a>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        // The letter loads no external resources.
        assert!(!html.contains("src=") && !html.contains("url(") && !html.contains("@import"), "{html}");
    }

    #[test]
    fn a_letter_may_say_little() {
        let letter =
            Letter { heading: "Hello".to_owned(), paragraphs: vec!["That is all.".to_owned()], ..Letter::default() };
        let RenderedLetter { text, html, .. } = letter.render(LetterFooter::new("Sent by svc.")).unwrap();
        assert_eq!(text, "Hello\n\nThat is all.\n\n-- \nSent by svc.\n");
        assert!(!html.contains("<a ") && !html.contains("<th"), "{html}");
    }
}
