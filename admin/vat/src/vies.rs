//! The REST API of VIES and its quirks: errors have status 200 and three shapes, and the field with the result is named
//! differently at each of the two endpoints.

use domain::billing::vat::VatNumber;
use http::{StatusCode, header};
use reqwest::Response;
use serde::{Deserialize, Serialize};

use super::{RegistryUnavailable, VatAnswer, VatRegistry};

const ANSWER_MAX: usize = 64 * 1024;
const TEXT_CHARS: usize = 500;
const CONSULTATION_CHARS: usize = 100;
const CODE_CHARS: usize = 60;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The registry has too many concurrent requests.
    Busy(RegistryUnavailable),
    /// The registry does not accept the requester's number.
    Requester(String),
    /// The registry, or the state's part of it, does not respond.
    Unavailable(RegistryUnavailable),
}

impl From<CallError> for RegistryUnavailable {
    fn from(failure: CallError) -> Self {
        match failure {
            CallError::Busy(unavailable) | CallError::Unavailable(unavailable) => unavailable,
            CallError::Requester(code) => Self::Registry(code),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckRequest<'a> {
    country_code: &'a str,
    vat_number: &'a str,
    requester_member_state_code: &'a str,
    requester_number: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckResponse {
    /// The result of `POST /check-vat-number`.
    valid: Option<bool>,
    /// The result of `GET /ms/{state}/vat/{number}`.
    is_valid: Option<bool>,
    /// `VALID` or `INVALID` with a result; any other value is an error, whatever the other fields say.
    user_error: Option<String>,
    /// False if `error_wrappers` is present.
    action_succeed: Option<bool>,
    #[serde(default)]
    error_wrappers: Vec<ErrorWrapper>,
    name: Option<String>,
    address: Option<String>,
    request_identifier: Option<String>,
}

#[derive(Deserialize)]
struct ErrorWrapper {
    error: Option<String>,
}

impl VatRegistry {
    /// Calls the registry once, in the name of `requester` if it is given.
    pub(super) async fn call_once(
        &self,
        number: &VatNumber,
        requester: Option<&VatNumber>,
    ) -> Result<VatAnswer, CallError> {
        let request = match requester {
            Some(requester) => {
                let question = CheckRequest {
                    country_code: number.prefix(),
                    vat_number: number.national(),
                    requester_member_state_code: requester.prefix(),
                    requester_number: requester.national(),
                };
                let question = serde_json::to_vec(&question).map_err(|error| registry_error(error.to_string()))?;
                let request = self.client.post(self.path(&["check-vat-number"]));
                request.header(header::CONTENT_TYPE, "application/json").body(question)
            }
            None => self.client.get(self.path(&["ms", number.prefix(), "vat", number.national()])),
        };
        let response = request.header(header::ACCEPT, "application/json").send().await;
        let response = response.map_err(|error| registry_error(without_url(error)))?;
        let status = response.status();
        read(status, &body(response).await?)
    }

    fn path(&self, segments: &[&str]) -> url::Url {
        let mut url = self.url.clone();
        // The program refuses at startup a URL that cannot carry a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

fn registry_error(reason: impl Into<String>) -> CallError {
    CallError::Unavailable(RegistryUnavailable::Registry(reason.into()))
}

/// Returns the whole chain of causes: the outermost only says that a request failed.
fn without_url(error: reqwest::Error) -> String {
    format!("{:#}", anyhow::Error::from(error.without_url()))
}

async fn body(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| registry_error(without_url(error)))? {
        if body.len() + chunk.len() > ANSWER_MAX {
            return Err(registry_error("a longer answer than any of its own"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Parses a response. Only a success, or the code for a malformed number, says anything about the number.
fn read(status: StatusCode, body: &[u8]) -> Result<VatAnswer, CallError> {
    let said: Result<CheckResponse, _> = serde_json::from_slice(body);
    let Ok(said) = said else { return Err(registry_error(format!("status {status}, not its JSON"))) };
    let wrapped = said.error_wrappers.iter().find_map(|wrapper| wrapper.error.as_deref());
    let user_error = said.user_error.as_deref().filter(|code| !matches!(*code, "" | "VALID" | "INVALID"));
    if let Some(code) = user_error.or(wrapped) {
        return refused(code);
    }
    if !status.is_success() || said.action_succeed == Some(false) {
        return Err(registry_error(format!("status {status}")));
    }
    match said.is_valid.or(said.valid) {
        None => Err(registry_error("an answer that does not say whether the number is valid")),
        Some(false) => Ok(VatAnswer::Unknown),
        Some(true) => Ok(VatAnswer::Valid {
            name: text(said.name, TEXT_CHARS),
            address: text(said.address, TEXT_CHARS),
            consultation: text(said.request_identifier, CONSULTATION_CHARS),
        }),
    }
}

/// Maps an error code of the registry. Its messages are translations of the code, and add nothing.
fn refused(code: &str) -> Result<VatAnswer, CallError> {
    let reason: String = code.chars().filter(|c| !c.is_control()).take(CODE_CHARS).collect();
    Err(match code {
        // A malformed number cannot belong to anybody.
        "INVALID_INPUT" => return Ok(VatAnswer::Unknown),
        "INVALID_REQUESTER_INFO" => CallError::Requester(reason),
        "MS_MAX_CONCURRENT_REQ" => CallError::Busy(RegistryUnavailable::State(reason)),
        "GLOBAL_MAX_CONCURRENT_REQ" => CallError::Busy(RegistryUnavailable::Registry(reason)),
        "MS_UNAVAILABLE" | "MS_MAX_CONCURRENT_REQ_TIME" | "TIMEOUT" => {
            CallError::Unavailable(RegistryUnavailable::State(reason))
        }
        _ => registry_error(reason),
    })
}

/// Returns a text on one line; `None` if it is empty or all dashes, which the registry writes for a missing value.
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

    fn said(status: u16, body: &Value) -> Result<VatAnswer, CallError> {
        read(StatusCode::from_u16(status).unwrap(), body.to_string().as_bytes())
    }

    fn state(code: &str) -> RegistryUnavailable {
        RegistryUnavailable::State(code.to_owned())
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
            ("MS_UNAVAILABLE", CallError::Unavailable(state("MS_UNAVAILABLE"))),
            ("TIMEOUT", CallError::Unavailable(state("TIMEOUT"))),
            ("MS_MAX_CONCURRENT_REQ_TIME", CallError::Unavailable(state("MS_MAX_CONCURRENT_REQ_TIME"))),
            ("MS_MAX_CONCURRENT_REQ", CallError::Busy(state("MS_MAX_CONCURRENT_REQ"))),
            (
                "GLOBAL_MAX_CONCURRENT_REQ",
                CallError::Busy(RegistryUnavailable::Registry("GLOBAL_MAX_CONCURRENT_REQ".to_owned())),
            ),
            ("SERVICE_UNAVAILABLE", registry_error("SERVICE_UNAVAILABLE")),
            ("GLOBAL_MAX_CONCURRENT_REQ_TIME", registry_error("GLOBAL_MAX_CONCURRENT_REQ_TIME")),
            ("IP_BLOCKED", registry_error("IP_BLOCKED")),
            ("VAT_BLOCKED", registry_error("VAT_BLOCKED")),
            ("A_CODE_OF_TOMORROW", registry_error("A_CODE_OF_TOMORROW")),
            ("INVALID_REQUESTER_INFO", CallError::Requester("INVALID_REQUESTER_INFO".to_owned())),
        ] {
            let wrapped = json!({ "actionSucceed": false, "errorWrappers": [{ "error": code, "message": "…" }] });
            // The same response for valid and invalid numbers.
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
            let says_nothing = matches!(found, Err(CallError::Unavailable(RegistryUnavailable::Registry(_))));
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
