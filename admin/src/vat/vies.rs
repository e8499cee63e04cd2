//! The REST API of VIES, with its quirks: errors come with status 200, in three shapes, and the field with the answer has
//! another name at each of the two endpoints.

use domain::billing::vat::VatNumber;
use http::{StatusCode, header};
use reqwest::Response;
use serde::{Deserialize, Serialize};

use super::{Unavailable, VatAnswer, VatRegistry};

/// Largest answer that is read.
const ANSWER_MAX: usize = 64 * 1024;
/// Characters of a name or an address that are kept.
const TEXT_CHARS: usize = 500;
/// Characters of a consultation number that are kept.
const CONSULTATION_CHARS: usize = 100;
/// Characters of an error code that are kept, for the log.
const CODE_CHARS: usize = 60;

/// Why a call brought no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Too many others ask at the same time.
    Busy(Unavailable),
    /// The number in whose name was asked is not accepted.
    Requester(String),
    /// There is no answer at the moment.
    Unavailable(Unavailable),
}

impl From<Failure> for Unavailable {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Busy(unavailable) | Failure::Unavailable(unavailable) => unavailable,
            Failure::Requester(code) => Self::Registry(code),
        }
    }
}

/// The question of `POST /check-vat-number`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    country_code: &'a str,
    vat_number: &'a str,
    requester_member_state_code: &'a str,
    requester_number: &'a str,
}

/// An answer of either endpoint.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    /// The answer of `POST /check-vat-number`.
    valid: Option<bool>,
    /// The answer of `GET /ms/{state}/vat/{number}`.
    is_valid: Option<bool>,
    /// `VALID` or `INVALID` beside an answer; everything else is an error, whatever the other fields say.
    user_error: Option<String>,
    /// False with `error_wrappers`.
    action_succeed: Option<bool>,
    #[serde(default)]
    error_wrappers: Vec<Wrapper>,
    name: Option<String>,
    address: Option<String>,
    request_identifier: Option<String>,
}

#[derive(Deserialize)]
struct Wrapper {
    error: Option<String>,
}

impl VatRegistry {
    /// Calls the registry once, in the name of `requester` if there is one.
    pub(super) async fn ask(&self, number: &VatNumber, requester: Option<&VatNumber>) -> Result<VatAnswer, Failure> {
        let request = match requester {
            Some(requester) => {
                let question = Question {
                    country_code: number.prefix(),
                    vat_number: number.national(),
                    requester_member_state_code: requester.prefix(),
                    requester_number: requester.national(),
                };
                let question = serde_json::to_vec(&question).map_err(|error| unanswered(error.to_string()))?;
                let request = self.client.post(self.path(&["check-vat-number"]));
                request.header(header::CONTENT_TYPE, "application/json").body(question)
            }
            None => self.client.get(self.path(&["ms", number.prefix(), "vat", number.national()])),
        };
        let response = request.header(header::ACCEPT, "application/json").send().await;
        let response = response.map_err(|error| unanswered(without_url(error)))?;
        let status = response.status();
        read(status, &body(response).await?)
    }

    fn path(&self, segments: &[&str]) -> url::Url {
        let mut url = self.url.clone();
        // A URL that cannot carry a path is refused when the program starts.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

fn unanswered(reason: impl Into<String>) -> Failure {
    Failure::Unavailable(Unavailable::Registry(reason.into()))
}

/// The whole chain of causes: the outermost only says that a request failed.
fn without_url(error: reqwest::Error) -> String {
    format!("{:#}", anyhow::Error::from(error.without_url()))
}

async fn body(mut response: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unanswered(without_url(error)))? {
        if body.len() + chunk.len() > ANSWER_MAX {
            return Err(unanswered("a longer answer than any of its own"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads an answer. Only a success says anything of the number; only the code that calls a number malformed makes an error one.
fn read(status: StatusCode, body: &[u8]) -> Result<VatAnswer, Failure> {
    let said: Result<Wire, _> = serde_json::from_slice(body);
    let Ok(said) = said else { return Err(unanswered(format!("status {status}, not its JSON"))) };
    let wrapped = said.error_wrappers.iter().find_map(|wrapper| wrapper.error.as_deref());
    let user_error = said.user_error.as_deref().filter(|code| !matches!(*code, "" | "VALID" | "INVALID"));
    if let Some(code) = user_error.or(wrapped) {
        return refused(code);
    }
    if !status.is_success() || said.action_succeed == Some(false) {
        return Err(unanswered(format!("status {status}")));
    }
    match said.is_valid.or(said.valid) {
        None => Err(unanswered("an answer that does not say whether the number is valid")),
        Some(false) => Ok(VatAnswer::Unknown),
        Some(true) => Ok(VatAnswer::Valid {
            name: text(said.name, TEXT_CHARS),
            address: text(said.address, TEXT_CHARS),
            consultation: text(said.request_identifier, CONSULTATION_CHARS),
        }),
    }
}

/// Reads a code of the registry's error. The sentences that go with them are translated, and say no more.
fn refused(code: &str) -> Result<VatAnswer, Failure> {
    let reason: String = code.chars().filter(|c| !c.is_control()).take(CODE_CHARS).collect();
    Err(match code {
        // The number cannot be anybody's.
        "INVALID_INPUT" => return Ok(VatAnswer::Unknown),
        "INVALID_REQUESTER_INFO" => Failure::Requester(reason),
        "MS_MAX_CONCURRENT_REQ" => Failure::Busy(Unavailable::State(reason)),
        "GLOBAL_MAX_CONCURRENT_REQ" => Failure::Busy(Unavailable::Registry(reason)),
        "MS_UNAVAILABLE" | "MS_MAX_CONCURRENT_REQ_TIME" | "TIMEOUT" => Failure::Unavailable(Unavailable::State(reason)),
        _ => unanswered(reason),
    })
}

/// A text on one line; `None` for what the registry writes when it has none: nothing, or dashes.
fn text(text: Option<String>, most: usize) -> Option<String> {
    let text = text?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line: String = lines.collect::<Vec<_>>().join(", ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(most).collect();
    (!line.chars().all(|c| c == '-')).then_some(line)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(status: u16, body: &Value) -> Result<VatAnswer, Failure> {
        read(StatusCode::from_u16(status).unwrap(), body.to_string().as_bytes())
    }

    fn state(code: &str) -> Unavailable {
        Unavailable::State(code.to_owned())
    }

    #[test]
    fn both_endpoints_are_understood() {
        let posted = json!({
            "countryCode": "DE", "vatNumber": "123456789", "requestDate": "2026-11-23T10:00:00.000Z", "valid": true,
            "requestIdentifier": "WAPIAAAAY1", "name": "---", "address": "---", "traderName": "---",
            "traderNameMatch": "NOT_PROCESSED",
        });
        let valid = |name: Option<&str>, address: Option<&str>, consultation: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            Ok(VatAnswer::Valid { name: owned(name), address: owned(address), consultation: owned(consultation) })
        };
        assert_eq!(said(200, &posted), valid(None, None, Some("WAPIAAAAY1")));
        let asked = json!({
            "isValid": true, "requestDate": "2026-11-23T10:00:00.000Z", "userError": "VALID", "name": "ACME BV",
            "address": "\nKEIZERSGRACHT 00001\n1016AA AMSTERDAM\n", "requestIdentifier": "", "originalVatNumber": "1",
            "viesApproximate": { "name": "---", "matchName": 3 },
        });
        assert_eq!(said(200, &asked), valid(Some("ACME BV"), Some("KEIZERSGRACHT 00001, 1016AA AMSTERDAM"), None));
        for unknown in [
            json!({ "isValid": false, "userError": "INVALID", "name": "---", "address": "---" }),
            json!({ "valid": false, "name": "---", "address": "---", "requestIdentifier": "" }),
            json!({ "isValid": false, "userError": "INVALID_INPUT" }),
            json!({ "actionSucceed": false, "errorWrappers": [{ "error": "INVALID_INPUT" }] }),
        ] {
            assert_eq!(said(200, &unknown), Ok(VatAnswer::Unknown), "{unknown}");
        }
        assert_eq!(
            said(400, &json!({ "actionSucceed": false, "errorWrappers": [{ "error": "INVALID_INPUT" }] })),
            Ok(VatAnswer::Unknown)
        );
    }

    #[test]
    fn an_error_says_nothing_of_the_number() {
        for (code, failure) in [
            ("MS_UNAVAILABLE", Failure::Unavailable(state("MS_UNAVAILABLE"))),
            ("TIMEOUT", Failure::Unavailable(state("TIMEOUT"))),
            ("MS_MAX_CONCURRENT_REQ_TIME", Failure::Unavailable(state("MS_MAX_CONCURRENT_REQ_TIME"))),
            ("MS_MAX_CONCURRENT_REQ", Failure::Busy(state("MS_MAX_CONCURRENT_REQ"))),
            ("GLOBAL_MAX_CONCURRENT_REQ", Failure::Busy(Unavailable::Registry("GLOBAL_MAX_CONCURRENT_REQ".to_owned()))),
            ("SERVICE_UNAVAILABLE", unanswered("SERVICE_UNAVAILABLE")),
            ("GLOBAL_MAX_CONCURRENT_REQ_TIME", unanswered("GLOBAL_MAX_CONCURRENT_REQ_TIME")),
            ("IP_BLOCKED", unanswered("IP_BLOCKED")),
            ("VAT_BLOCKED", unanswered("VAT_BLOCKED")),
            ("A_CODE_OF_TOMORROW", unanswered("A_CODE_OF_TOMORROW")),
            ("INVALID_REQUESTER_INFO", Failure::Requester("INVALID_REQUESTER_INFO".to_owned())),
        ] {
            let wrapped = json!({ "actionSucceed": false, "errorWrappers": [{ "error": code, "message": "…" }] });
            // As valid as it is invalid.
            for (status, body) in [
                (200, json!({ "isValid": false, "userError": code, "name": "---" })),
                (200, json!({ "valid": false, "userError": code })),
                (200, json!({ "valid": true, "userError": code })),
                (200, wrapped.clone()),
                (500, wrapped),
            ] {
                let found = said(status, &body);
                assert_eq!(format!("{found:?}"), format!("{:?}", Err::<VatAnswer, _>(&failure)), "{status} {body}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_says_nothing_of_the_number() {
        for (status, body) in [
            (200, ""),
            (200, "<html>Service Temporarily Unavailable</html>"),
            (200, "null"),
            (200, "[]"),
            (200, "{}"),
            (200, r#"{"valid": null}"#),
            (200, r#"{"valid": "false"}"#),
            (200, r#"{"valid": false"#),
            (200, r#"{"actionSucceed": false, "valid": false}"#),
            (200, r#"{"actionSucceed": false, "errorWrappers": []}"#),
            (302, r#"{"valid": false}"#),
            (404, r#"{"isValid": false}"#),
            (429, r#"{"isValid": false}"#),
            (500, r#"{"isValid": false}"#),
            (503, "Service Unavailable"),
        ] {
            let found = read(StatusCode::from_u16(status).unwrap(), body.as_bytes());
            let says_nothing = matches!(found, Err(Failure::Unavailable(Unavailable::Registry(_))));
            assert!(says_nothing, "{status} {body}: {found:?}");
        }
    }

    #[test]
    fn texts_of_the_registry_are_bounded_and_on_one_line() {
        let text_of = |written: &str| text(Some(written.to_owned()), 20);
        assert_eq!(text_of("---"), None);
        assert_eq!(text_of(" \n"), None);
        assert_eq!(text_of("a\r\n b\u{7}\u{1b}[2J\n\n"), Some("a, b[2J".to_owned()));
        assert_eq!(text_of(&"é".repeat(30)), Some("é".repeat(20)));
    }
}
