//! The operator's tool for keys and certificates.

mod commands;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use certs::acme::Reason;
use clap::{Parser, Subcommand};

use self::commands::Outcome;

/// Makes and keeps the keys and certificates of an installation.
#[derive(Parser)]
#[command(name = "certs", version = env!("SVC_VERSION"))]
struct Arguments {
    /// The configuration file; else the one `SVC_CONFIG` names, else `svc.toml` here.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes a new master key to FILE, readable by you alone. Keep a copy: without it nothing sealed opens again.
    MasterKey {
        /// The file to write; refused when it exists.
        file: PathBuf,
    },
    /// Writes what edges need of the master key to FILE, readable by you alone. An edge that has it (`secrets.edge_key_file`) needs no
    /// master key. Run it again after each step of `rotate-key`, which does so itself where the configuration names FILE.
    EdgeKey {
        /// The file to write; one that holds keys of an edge already is replaced.
        file: PathBuf,
    },
    /// Exchanges the master key for a new one while the programs run, and seals every stored secret anew. May be
    /// interrupted and run again. The old key stays in the key file, as long as it may be needed.
    RotateKey {
        #[command(flatten)]
        how: Rotation,
    },
    /// Makes or renews the certificate of the configured domains, with an authority kept in DIR, and stores it.
    LocalCa {
        /// The authority's folder: ca.pem, which visitors must trust, and ca.key.
        #[arg(long)]
        dir: PathBuf,
        /// A hostname beside them, to try a custom domain on this machine: it gets a certificate of its own.
        /// Repeatable.
        #[arg(long = "name", value_name = "HOST")]
        names: Vec<String>,
    },
    /// Stores a certificate of yours, which edges then present for the names in it. May be run after every renewal.
    Import {
        /// PEM: the leaf, then its intermediates (fullchain.pem).
        #[arg(long, value_name = "FILE")]
        chain: PathBuf,
        /// PEM: its private key, without a passphrase (privkey.pem).
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Lists the stored certificates; those that end first come first.
    List {
        /// Only those that end within so many days and that no newer one replaces. Exits with 1 when there are any.
        #[arg(long, value_name = "DAYS")]
        expiring: Option<u64>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Has admin order certificates now, for names that are attached to projects or the platform's own, and waits.
    Issue {
        /// The names: www.example.com, or the platform's own wildcard.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Longest wait, in seconds. Admin goes on whether it comes to an end in that time or not.
        #[arg(long, default_value_t = 120, value_name = "SECONDS")]
        wait: u64,
        /// Prints JSON, at the end.
        #[arg(long)]
        json: bool,
    },
    /// Has admin renew certificates now, whenever they end. The present ones stay in use until then.
    Renew {
        /// The names.
        #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Every certificate that an authority issued.
        #[arg(long)]
        all: bool,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revokes every valid certificate of ours for a name, through the accounts that they were issued to, and has admin
    /// order a new one, with a new key.
    Revoke {
        /// The name.
        name: String,
        /// Why: unspecified, key-compromise, superseded or cessation-of-operation.
        #[arg(long)]
        reason: Option<Reason>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Exchanges the keys of our accounts at the configured authorities for new ones. May be interrupted and run again.
    RotateAccount {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks what issuing certificates depends on, a line each, with what helps. Exits with 1 when anything fails.
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The extent of a rotation.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Rotation {
    /// Only adds a key, which opens but does not seal yet. With programs on several machines: prepare, copy the key
    /// file to all of them, then rotate.
    #[arg(long)]
    prepare: bool,
    /// Forgets the old keys, once nothing is sealed with them any more. Copy the key file to all machines again before
    /// and after.
    #[arg(long)]
    finish: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = io::Result::map_err(runtime(), anyhow::Error::from);
    match outcome.and_then(|runtime| runtime.block_on(commands::run(&arguments))) {
        Ok(Outcome { said, is_good }) => {
            // Standard output may be closed; the work is done all the same.
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
