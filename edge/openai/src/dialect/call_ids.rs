//! Converts tool call ids to the form that a provider requires.

use std::borrow::Cow;

use config::gateway::CallIdForm;
use sha2::{Digest as _, Sha256};

use super::characters;

const ALPHANUMERICS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Converts the id of a call, a JSON string, to this form. A new id is derived from the hash of the old one, so that
/// the call and its result match in every turn. Values that are not strings are unchanged.
pub(super) fn convert_call_id(id: &[u8], form: CallIdForm) -> Cow<'_, [u8]> {
    let CallIdForm::NineAlphanumerics = form else { return id.into() };
    if !id.starts_with(b"\"") {
        return id.into();
    }
    let characters = characters(id);
    if characters.len() == 9 && characters.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.into();
    }
    let hash = Sha256::digest(characters.as_bytes());
    let mut number = hash.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut mapped = vec![b'"'];
    for _ in 0..9 {
        let letter = usize::try_from(number % 62).unwrap_or_default();
        mapped.extend(ALPHANUMERICS.get(letter));
        number /= 62;
    }
    mapped.push(b'"');
    mapped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_form_or_get_it() {
        let of = |id: &str| {
            String::from_utf8(convert_call_id(id.as_bytes(), CallIdForm::NineAlphanumerics).into_owned()).unwrap()
        };
        for kept in ["\"aB3dE6gH9\"", "null", "7", "[\"x\"]"] {
            assert_eq!(of(kept), kept);
        }
        // The hash must not change: conversations continue across versions of the gateway.
        assert_eq!(of("\"call_abc123\""), "\"OANJQSxzk\"");
        assert_eq!(of("\"call_\\u0061bc123\""), of("\"call_abc123\""), "the same id, written otherwise");
        for id in ["\"\"", "\"a\"", "\"toolu_01A\"", "\"aB3dE6gH-\"", "\"chatcmpl-tool-0123456789abcdef\"", "\"ééééa\""]
        {
            let mapped = of(id);
            assert!(mapped.len() == 11 && mapped[1..10].bytes().all(|byte| byte.is_ascii_alphanumeric()), "{mapped}");
            assert_eq!(of(&mapped), mapped);
            assert_ne!(mapped, of("\"call_abc123\""));
        }
        assert_eq!(convert_call_id(b"\"call_1\"", CallIdForm::Any), &b"\"call_1\""[..]);
    }
}
