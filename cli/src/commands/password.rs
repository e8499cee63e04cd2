//! A site's password, from the command line, a pipe or the keyboard.

use std::io::{self, Read as _};

use common::domain::{access::SitePassword, limits};
use console::Term;

use crate::{failure::Failure, output::Output};

/// A password on stdin is one line; more is a mistake (a file, not a password).
const STDIN_BYTES: u64 = 4 * 1024;

/// `-` reads it from stdin, or asks when stdin is a terminal, so that it is not in the shell's history.
pub(super) fn read(text: &str, output: Output) -> anyhow::Result<SitePassword> {
    let text = match text {
        "-" if output.can_ask() => {
            let terminal = Term::stderr();
            terminal.write_str("Password: ")?;
            terminal.read_secure_line()?
        }
        "-" => {
            let mut input = String::new();
            io::stdin().lock().take(STDIN_BYTES).read_to_string(&mut input)?;
            input.trim_end_matches(['\r', '\n']).to_owned()
        }
        text => text.to_owned(),
    };
    let (least, most) = (limits::PASSWORD_CHARS.start(), limits::PASSWORD_CHARS.end());
    SitePassword::try_from(text)
        .map_err(|_| Failure::usage(format!("The password must have {least} to {most} characters.")).into())
}
