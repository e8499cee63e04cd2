//! The operator's tool for keys and certificates.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use certs::{
    local_ca::{self, LocalCa, Outcome},
    private_file,
};
use clap::{Parser, Subcommand};
use common::{config::Config, db, domain::Clock, secrets::MasterKey};

/// Makes and keeps the keys and certificates of an installation.
#[derive(Parser)]
#[command(name = "certs", version)]
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
        /// Where to; refused when it exists.
        file: PathBuf,
    },
    /// Makes or renews the certificate of the configured domains, with an authority kept in DIR, and stores it.
    LocalCa {
        /// The authority's folder: ca.pem, which visitors must trust, and ca.key.
        #[arg(long)]
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(said) => {
            // Standard output may be closed; the work is done all the same.
            let _ = writeln!(io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "certs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<String> {
    match &arguments.command {
        Command::MasterKey { file } => {
            private_file::create(file, &format!("{}\n", MasterKey::generate().to_base64()))
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(format!("wrote a new master key to {}", file.display()))
        }
        Command::LocalCa { dir } => {
            let config = Config::load(arguments.config.as_deref())?;
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(renew_local(&config, dir))
        }
    }
}

async fn renew_local(config: &Config, dir: &Path) -> anyhow::Result<String> {
    let now = Clock::system().now();
    let master_key = MasterKey::load(&config.secrets.master_key_file)?;
    let names = local_ca::names(&config.site);
    let ca = LocalCa::open_or_create(dir, &names, now)?;
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let shown = names.join(", ");
    Ok(match local_ca::renew(&db, &master_key, &ca, &names, now).await? {
        Outcome::Kept => format!("the certificate for {shown} is good for longer; kept it"),
        Outcome::Issued => {
            format!("stored a new certificate for {shown}; visitors must trust {}/ca.pem", dir.display())
        }
    })
}
