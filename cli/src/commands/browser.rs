//! Opening an address in the person's browser.

use std::{
    env,
    process::{Command, Stdio},
};

/// Opens `url`; false when no program for it was found.
pub(super) fn open(url: &str) -> bool {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if env::var_os("DISPLAY").is_some() || env::var_os("WAYLAND_DISPLAY").is_some() {
        "xdg-open"
    } else {
        return false;
    };
    Command::new(opener).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}
