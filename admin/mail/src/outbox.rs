//! Composes a queued row into a letter that is ready to be sent.

use db::letters::{InvoiceFiles, TakenLetter};
use domain::EmailAddress;
use secrets::MasterKey;

use super::{
    Mailer, SendError,
    letter::LetterFooter,
    links::LetterSubscription,
    message::{AttachedFile, OutgoingLetter},
    notices::Notice,
    words::{self, LetterContext},
};

/// The part of the console in which people choose their letters.
const SETTINGS: &str = "/account#letters";

/// Composes the letter of a row. Its `Message-ID` is the same each time, so that mail programs recognize a repeated
/// letter.
pub fn compose_row(
    mailer: &Mailer,
    master_key: &MasterKey,
    row: &TakenLetter,
    files: Option<InvoiceFiles>,
) -> Result<OutgoingLetter, SendError> {
    let unwritable = |error: &dyn std::fmt::Display| SendError::Letter(error.to_string());
    let to: EmailAddress = row.recipient.parse().map_err(|error| unwritable(&error))?;
    // A notice of a newer version waits for that version.
    let notice: Notice = serde_json::from_value(row.content.clone()).map_err(|error| unwritable(&error))?;
    let kind = notice.kind();
    let unsubscribe =
        LetterSubscription::for_recipient(&to, kind).map(|it| mailer.console_url(&it.unsubscribe(master_key)));
    let sender = mailer.sender_line();
    let footer = LetterFooter::new(&sender);
    let footer = unsubscribe.as_deref().map_or(footer, |url| footer.with_unsubscribe(url, kind.topic()));
    let settings = mailer.console_url(SETTINGS);
    let footer = if kind.is_optional() && !kind.is_for_operator() { footer.with_settings(&settings) } else { footer };
    let letter = words::compose_notice(&notice, &LetterContext::from_row(row))
        .render(footer)
        .map_err(|error| unwritable(&error))?;
    Ok(OutgoingLetter {
        to,
        id: Some(row.id.to_string()),
        letter,
        unsubscribe,
        attachments: files.map(attached).unwrap_or_default(),
    })
}

fn attached(files: InvoiceFiles) -> Vec<AttachedFile> {
    let InvoiceFiles { number, pdf, ubl } = files;
    vec![
        AttachedFile { name: format!("{number}.pdf"), media_type: "application/pdf", content: pdf },
        AttachedFile { name: format!("{number}.xml"), media_type: "application/xml", content: ubl.into_bytes() },
    ]
}
