//! The operator's tool for keys and certificates.

mod commands;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use certs::acme::RevokeReason;
use clap::{Parser, Subcommand};

use self::commands::CommandOutcome;

/// Creates and manages the keys and certificates of an installation.
#[derive(Parser)]
#[command(name = "certs", version = env!("SVC_VERSION"))]
struct Arguments {
    /// The configuration file. Defaults to the file that `SVC_CONFIG` names, then to `svc.toml` in the current folder.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes a new master key to FILE, readable only by you. Keep a copy: without it no sealed value can be opened.
    MasterKey {
        /// The file to write. It must not exist.
        file: PathBuf,
    },
    /// Writes the part of the master key that edges need to FILE, readable only by you. An edge that has it
    /// (`secrets.edge_key_file`) needs no master key. Run it again after each step of `rotate-key`, which does so
    /// itself if the configuration names FILE.
    EdgeKey {
        /// The file to write. A file that already contains an edge's keys is replaced.
        file: PathBuf,
    },
    /// Replaces the master key by a new one while the programs run, and seals every stored secret again. It may be
    /// interrupted and run again. The old key stays in the key file for as long as it may be needed.
    RotateKey {
        #[command(flatten)]
        how: RotationArgs,
    },
    /// Creates or renews the certificate of the configured domains with an authority kept in DIR, and stores it.
    LocalCa {
        /// The authority's folder: ca.pem, which visitors must trust, and ca.key.
        #[arg(long)]
        dir: PathBuf,
        /// An additional hostname, to try a custom domain on this machine. It gets its own certificate. Repeatable.
        #[arg(long = "name", value_name = "HOST")]
        names: Vec<String>,
    },
    /// Stores a certificate of yours, which edges then present for its names. It may be run after every renewal.
    Import {
        /// PEM: the leaf, then its intermediates (fullchain.pem).
        #[arg(long, value_name = "FILE")]
        chain: PathBuf,
        /// PEM: the private key, without a passphrase (privkey.pem).
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Lists the stored certificates, earliest expiry first.
    List {
        /// Only certificates that expire within this many days and that no newer one replaces. Exits with 1 if any do.
        #[arg(long, value_name = "DAYS")]
        expiring: Option<u64>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Makes admin order certificates now, for names attached to projects or the platform's own names, and waits.
    Issue {
        /// The names: www.example.com, or the platform's own wildcard.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// The longest wait, in seconds. Admin continues even if this time runs out.
        #[arg(long, default_value_t = 120, value_name = "SECONDS")]
        wait: u64,
        /// Prints JSON at the end.
        #[arg(long)]
        json: bool,
    },
    /// Makes admin renew certificates now, regardless of their expiry. The current ones stay in use until then.
    Renew {
        /// The names.
        #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Renews every certificate that an authority issued.
        #[arg(long)]
        all: bool,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revokes every valid certificate of ours for a name, through the accounts that they were issued to, and makes
    /// admin order a new one with a new key.
    Revoke {
        /// The name.
        name: String,
        /// The reason: unspecified, key-compromise, superseded or cessation-of-operation.
        #[arg(long)]
        reason: Option<RevokeReason>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Replaces the keys of our accounts at the configured authorities. It may be interrupted and run again.
    RotateAccount {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks everything that issuing certificates depends on, with remedies. Exits with 1 if any check fails.
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The steps of a rotation to run.
#[derive(clap::Args)]
#[group(multiple = false)]
struct RotationArgs {
    /// Only adds a key, which opens but does not seal yet. With programs on several machines: prepare, copy the key
    /// file to all of them, then rotate.
    #[arg(long)]
    prepare: bool,
    /// Removes the old keys, once nothing is sealed with them. Copy the key file to all machines before and after.
    #[arg(long)]
    finish: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = io::Result::map_err(runtime(), anyhow::Error::from);
    match outcome.and_then(|runtime| runtime.block_on(commands::run(&arguments))) {
        Ok(CommandOutcome { said, is_good }) => {
            // Standard output may be closed; the work is done anyway.
            let _ = writeln!(io::stdout(), "{}", said.trim_end());
            if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "certs: {}", telemetry::one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
