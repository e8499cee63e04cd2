//! Reads a site's password from the command line, a pipe or the keyboard.

use std::io::{self, Read as _};

use console::Term;
use domain::{access::SitePassword, limits};

use crate::{failure::Failure, output::Output};

/// The maximum bytes read from stdin: a password is one line, and more is a file given by mistake.
const STDIN_BYTES: u64 = 4 * 1024;

/// Reads a password. `-` means stdin, or a prompt on a terminal, so that it is not in the shell's history.
pub(super) fn read(text: &str, output: Output) -> anyhow::Result<SitePassword> {
    match text {
        "-" if output.can_ask() => {
            ask("Password: ")?.ok_or_else(|| Failure::usage("No password was given; nothing was changed.").into())
        }
        "-" => {
            let mut input = String::new();
            io::stdin().lock().take(STDIN_BYTES).read_to_string(&mut input)?;
            Ok(parse(input.trim_end_matches(['\r', '\n']))?)
        }
        text => Ok(parse(text)?),
    }
}

/// Prompts for a password without echo; returns `None` for an empty line.
pub(super) fn ask(question: &str) -> anyhow::Result<Option<SitePassword>> {
    let terminal = Term::stderr();
    terminal.write_str(question)?;
    let typed = terminal.read_secure_line()?;
    Ok(if typed.is_empty() { None } else { Some(parse(&typed)?) })
}

fn parse(text: &str) -> Result<SitePassword, Failure> {
    let (least, most) = (limits::PASSWORD_CHARS.start(), limits::PASSWORD_CHARS.end());
    SitePassword::try_from(text.to_owned())
        .map_err(|_| Failure::usage(format!("The password must have {least} to {most} characters.")))
}
