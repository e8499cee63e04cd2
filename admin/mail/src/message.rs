//! A letter as a message (RFC 5322): headers, alternatives, attachments.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::EmailAddress;
use lettre::{
    Address, Message,
    message::{
        Attachment, Mailbox, MultiPart,
        header::{ContentType, HeaderName, HeaderValue},
    },
};

use super::{letter::RenderedLetter, smtp::SendError};

/// The bytes of text in one encoded word: base64-encoded, with its delimiters and `Subject: ` before it, the line stays
/// below 76 characters.
const ENCODED_WORD_BYTES: usize = 39;

/// A letter that is ready to be sent.
#[derive(Debug, Clone)]
pub struct OutgoingLetter {
    /// The recipient.
    pub to: EmailAddress,
    /// The part of the `Message-ID` before the `@`, by which mail programs recognize a repeated letter. If it is
    /// `None`, a new one is generated.
    pub id: Option<String>,
    /// The subject and the text.
    pub letter: RenderedLetter,
    /// The URL that unsubscribes with a POST (RFC 8058).
    pub unsubscribe: Option<String>,
    /// The attached files, in order.
    pub attachments: Vec<AttachedFile>,
}

/// A file attached to a letter.
#[derive(Debug, Clone)]
pub struct AttachedFile {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: Vec<u8>,
}

impl OutgoingLetter {
    pub(super) fn message(self, from: &Mailbox) -> Result<Message, SendError> {
        let unwritable = |error: &dyn std::fmt::Display| SendError::Letter(error.to_string());
        // The address only: a display name could be chosen by anybody.
        let to = Mailbox::new(None, self.to.as_str().parse::<Address>().map_err(|error| unwritable(&error))?);
        let mut message = Message::builder()
            .from(from.clone())
            .to(to)
            .message_id(self.id.map(|id| format!("<{id}@{}>", from.email.domain())))
            // RFC 3834: this suppresses automatic replies.
            .raw_header(plain("Auto-Submitted", "auto-generated"))
            .raw_header(subject(self.letter.subject));
        if let Some(url) = self.unsubscribe {
            message = message
                .raw_header(plain("List-Unsubscribe", &format!("<{url}>")))
                .raw_header(plain("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"));
        }
        let alternatives = MultiPart::alternative_plain_html(self.letter.text, self.letter.html);
        if self.attachments.is_empty() {
            return message.multipart(alternatives).map_err(|error| unwritable(&error));
        }
        let mut parts = MultiPart::mixed().multipart(alternatives);
        for AttachedFile { name, media_type, content } in self.attachments {
            let media_type = ContentType::parse(media_type).map_err(|error| unwritable(&error))?;
            parts = parts.singlepart(Attachment::new(name).body(content, media_type));
        }
        message.multipart(parts).map_err(|error| unwritable(&error))
    }
}

/// Returns a header of ASCII text on one line of any length.
fn plain(name: &'static str, text: &str) -> HeaderValue {
    let text: String = text.chars().filter(char::is_ascii).filter(|c| !c.is_ascii_control()).collect();
    HeaderValue::dangerous_new_pre_encoded(HeaderName::new_from_ascii_str(name), text.clone(), text)
}

/// Returns the `Subject` header. Mail programs decode everything that looks like an encoded word (RFC 2047), even into
/// line breaks, so a text that contains one is encoded as a whole.
fn subject(text: String) -> HeaderValue {
    let name = || HeaderName::new_from_ascii_str("Subject");
    if !text.contains("=?") {
        return HeaderValue::new(name(), text);
    }
    let mut words: Vec<String> = Vec::new();
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if word.len() + c.len_utf8() <= ENCODED_WORD_BYTES => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let encoded: Vec<String> = words.iter().map(|word| format!("=?utf-8?b?{}?=", STANDARD.encode(word))).collect();
    HeaderValue::dangerous_new_pre_encoded(name(), text, encoded.join("\r\n "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(subject: &str) -> OutgoingLetter {
        let letter = RenderedLetter { subject: subject.to_owned(), text: "text".to_owned(), html: "html".to_owned() };
        let to = "ada@example.com".parse().unwrap();
        OutgoingLetter { to, id: None, letter, unsubscribe: None, attachments: Vec::new() }
    }

    fn lines(outgoing: OutgoingLetter) -> Vec<String> {
        let from = "Hosting <mail@hosting.example>".parse().unwrap();
        let message = String::from_utf8(outgoing.message(&from).unwrap().formatted()).unwrap();
        message.split("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn no_subject_becomes_another_header() {
        for hostile in ["a\r\nBcc: eve@example.com", "=?utf-8?q?a=0D=0ABcc:_eve@example.com?=", "a\nBcc: x", "\u{0}b"] {
            let lines = lines(outgoing(hostile));
            assert!(!lines.iter().any(|line| line.starts_with("Bcc")), "{lines:?}");
            assert!(lines.iter().all(|line| !line.contains(['\r', '\n'])), "{lines:?}");
        }
    }

    #[test]
    fn a_letter_keeps_its_name_and_says_how_to_unsubscribe() {
        let url = format!("https://app.example/letters/unsubscribe?recipient={}", "x".repeat(300));
        let id = Some("eml_x".to_owned());
        let lines = lines(OutgoingLetter { id, unsubscribe: Some(url.clone()), ..outgoing("A subject") });
        for line in [
            "Message-ID: <eml_x@hosting.example>",
            &format!("List-Unsubscribe: <{url}>"),
            "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
            "To: ada@example.com",
            "Subject: A subject",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} is not in {lines:?}");
        }
        // A line of a message has at most 998 characters (RFC 5322).
        assert!(lines.iter().all(|line| line.len() <= 998));
    }

    #[test]
    fn files_are_attached_beside_the_alternatives() {
        let file = AttachedFile { name: "a.xml".to_owned(), media_type: "application/xml", content: b"<a/>".to_vec() };
        let lines = lines(OutgoingLetter { attachments: vec![file], ..outgoing("A subject") });
        let position = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
        assert!(position("Content-Type: multipart/mixed") < position("Content-Type: multipart/alternative"));
        assert!(lines.iter().any(|line| line == "Content-Disposition: attachment; filename=\"a.xml\""), "{lines:?}");
    }
}
