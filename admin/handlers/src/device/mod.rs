//! The device-flow login: the client starts it and polls, and the person answers in a browser.
//!
//! [`start()`] and [`poll()`] are the client's endpoints; `pages::device` is the `local` code host's page.

mod poll;
mod start;

pub use poll::{__path_poll, poll};
pub use start::{__path_start, start};

use admin_http::error::ApiError;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

/// A device code that admin issued: 32 random bytes in base64url. Only its SHA-256 is stored.
struct DeviceCode(String);

impl DeviceCode {
    const LEN: usize = 43;

    fn generate() -> Self {
        let bytes: [u8; 32] = rand::RngExt::random(&mut rand::rng());
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn parse(text: String) -> Option<Self> {
        let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (text.len() == Self::LEN && text.bytes().all(url_safe)).then_some(Self(text))
    }

    fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}

/// Reads the code host's device code from its decrypted form.
fn parse_device_code(plain: Vec<u8>) -> Result<SecretString, ApiError> {
    String::from_utf8(plain).map(Into::into).map_err(ApiError::internal)
}

fn whole_seconds(duration: std::time::Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}
