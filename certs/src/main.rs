//! The operator's tool for keys and certificates.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use certs::{
    local_ca::{self, LocalCa, Outcome},
    private_file, rotation,
};
use clap::{Parser, Subcommand};
use common::{
    config::Config,
    db,
    domain::Clock,
    secrets::{MasterKey, master_key::Key},
};

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
    },
}

/// How far a rotation goes.
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
            private_file::create(file, &format!("{}\n", Key::generate().to_base64()))
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(format!("wrote a new master key to {}", file.display()))
        }
        Command::RotateKey { how } => {
            let config = Config::load(arguments.config.as_deref())?;
            let file = &config.secrets.master_key_file;
            let rotate = async {
                let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
                Ok(match how {
                    Rotation { prepare: true, .. } => rotation::prepare(file)?.to_string(),
                    Rotation { finish: true, .. } => rotation::finish(&db, file).await?.to_string(),
                    Rotation { .. } => rotation::rotate(&db, file).await?.to_string(),
                })
            };
            runtime()?.block_on(rotate)
        }
        Command::LocalCa { dir } => {
            let config = Config::load(arguments.config.as_deref())?;
            runtime()?.block_on(renew_local(&config, dir))
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
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
