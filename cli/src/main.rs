//! `svc`, the command-line client.
//!
//! Start with [`args`] for the command line, `commands/<noun>.rs` for the commands, and [`client`] for the API calls.

mod args;
mod client;
mod commands;
mod complete;
mod credentials;
mod dispatch;
mod failure;
mod options;
mod output;
mod pack;
mod pointers;
mod project;
mod up;

use std::{env, process::ExitCode};

use clap::{Parser as _, error::ErrorKind};
use domain::Clock;

use crate::{
    args::Args,
    failure::{AlreadyReported, Failure},
    output::Output,
    pointers::UsageMistake,
};

/// The exit status that shells report for a program ended by Ctrl-C: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    complete::answer();
    let clock = Clock::system();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage_error(error, Output::new(env::args().any(|arg| arg == "--json"), clock.now())),
    };
    let output = Output::new(args.global.json, clock.now()).quiet(args.global.quiet).with_yes(args.global.yes);
    match run(args, output) {
        Ok(code) => code,
        Err(error) => {
            if let Some(AlreadyReported(kind)) = error.downcast_ref::<AlreadyReported>() {
                return ExitCode::from(*kind as u8);
            }
            let failure = failure::from_error(&error);
            output.failure(&failure);
            ExitCode::from(failure.kind as u8)
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(args: Args, output: Output) -> anyhow::Result<ExitCode> {
    tokio::select! {
        done = dispatch::run(args, output) => done.map(|()| ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => {
            output::leave_line();
            // Do not wait for blocking work (packing). Its temporary file has no name, so nothing is left behind.
            std::process::exit(INTERRUPTED)
        }
    }
}

/// Handles a parser error: `--help` and `--version` are results; everything else is a usage error.
fn usage_error(error: clap::Error, output: Output) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let UsageMistake { error, pointer } = pointers::explain(error, &words);
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if output.is_json() && !is_answer {
        let message = error.render().to_string();
        let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
        output.failure(&Failure::usage(message).with_hint(pointer.unwrap_or("See `svc --help`.")));
        return ExitCode::from(failure::FailureClass::Usage as u8);
    }
    // A closed stdout is not an error.
    let _ = error.print();
    if let Some(pointer) = pointer {
        output::print_stderr(&format!("\n{pointer}"));
    }
    ExitCode::from(if is_answer { 0 } else { failure::FailureClass::Usage as u8 })
}
