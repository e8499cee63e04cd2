//! The letter to those whose project has lost a custom domain to somebody who has proved that it is theirs.

use askama::Template;
use domain::{BRAND, Hostname, ProjectName};

use super::{Compose, Letter};

/// A domain that a project has lost. Who has it now is not told.
#[derive(Debug, Clone, Copy)]
pub struct DomainMoved<'a> {
    /// The domain.
    pub domain: &'a Hostname,
    /// The project that had it.
    pub project: &'a ProjectName,
}

#[derive(Template)]
#[template(path = "mail/domain_moved.txt")]
struct Text<'a> {
    sentence: &'a str,
    advice: &'a str,
}

#[derive(Template)]
#[template(path = "mail/domain_moved.html")]
struct Html<'a> {
    subject: &'a str,
    sentence: &'a str,
    advice: &'a str,
}

impl Compose for DomainMoved<'_> {
    fn compose(&self) -> askama::Result<Letter> {
        let Self { domain, project } = self;
        let subject = format!("{domain} is no longer attached to {project}");
        let sentence = format!(
            "The domain {domain} was attached to your project {project} on {BRAND}, and its DNS did not lead there. \
             Somebody has now proved by a DNS record that the domain is theirs, so it was moved to theirs."
        );
        let advice = format!(
            "If the domain is yours, run svc domains add {domain} --project {project} again: it says which DNS record \
             brings it back."
        );
        let (sentence, advice) = (sentence.as_str(), advice.as_str());
        let text = Text { sentence, advice }.render()?;
        let html = Html { subject: &subject, sentence, advice }.render()?;
        Ok(Letter { subject, text, html })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_says_what_happened_and_what_to_do() {
        let letter = DomainMoved { domain: &"www.example.com".parse().unwrap(), project: &"engine".parse().unwrap() };
        let letter = letter.compose().unwrap();
        assert_eq!(letter.subject, "www.example.com is no longer attached to engine");
        for text in [&letter.text, &letter.html] {
            assert!(text.contains("svc domains add www.example.com --project engine"), "{text}");
            assert!(text.contains("is theirs"), "{text}");
        }
    }
}
