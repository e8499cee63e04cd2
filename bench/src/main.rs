//! `bench`: measures svc against other servers and gateways, and against its own targets. See README.md.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program of the command line speaks there")]

mod activation;
mod attacks;
mod billing;
mod certificates;
mod counting;
mod cpu;
mod deploys;
mod events;
mod figures;
mod gateway;
mod load;
mod machine;
mod peers;
mod platform;
mod printed;
mod ranges;
mod report;
mod routing;
mod serving;
mod statistics;
mod training;
mod wire;
mod world;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::{machine::Machine, world::BenchWorld};

/// Measures svc on this machine, all on loopback, and writes the tables of bench/README.md and bench/tables.md.
#[derive(Parser)]
struct Arguments {
    /// Runs short rounds and prints the tables instead of writing them.
    #[arg(long)]
    quick: bool,
    /// The parts to run; all if omitted.
    #[arg(long, value_enum)]
    only: Vec<BenchPart>,
    /// The edge that `deploy/release` built; without it, the edge built with the bench is measured.
    #[arg(long, value_name = "PROGRAM")]
    trained_edge: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Opens connections one after another; the bench runs this on the load core.
    #[command(hide = true)]
    Dial { port: u16, host: String, seconds: u32, ca_file: PathBuf },
    /// Runs the provider behind the gateways.
    #[command(hide = true)]
    Provide { port: u16 },
    /// Runs the clients of a gateway.
    #[command(hide = true)]
    Ask(gateway::ask::ClientArguments),
    /// Runs the load that trains a build of the edge.
    #[command(hide = true)]
    Train { edge: PathBuf },
    /// Prints whether the parts to run measure a trained edge.
    #[command(hide = true)]
    WantsTraining,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchPart {
    Serving,
    Deploys,
    Activation,
    Routing,
    Platform,
    Gateway,
    Certificates,
    Changes,
    Counting,
    Statistics,
    History,
    Visitors,
    Outage,
    Events,
    Billing,
    Attacks,
}

impl BenchPart {
    /// Returns whether it starts its own edges; the others measure what `deploy/up` started, or debug builds.
    fn has_edges(self) -> bool {
        matches!(
            self,
            Self::Serving | Self::Activation | Self::Routing | Self::Platform | Self::Gateway | Self::Counting
        )
    }
}

/// Measures a part, and returns its section of tables.md.
type MeasureFn = fn(&BenchWorld, &Machine, BenchEffort) -> anyhow::Result<String>;

/// The durations and the number of rounds.
#[derive(Clone, Copy)]
pub(crate) struct BenchEffort {
    rounds: usize,
    seconds: u32,
    activations: usize,
    sites: &'static [u32],
    /// Whether the results are written to files.
    is_kept: bool,
}

const FULL: BenchEffort =
    BenchEffort { rounds: 5, seconds: 3, activations: 300, sites: &[1_000, 10_000, 100_000, 250_000], is_kept: true };
const QUICK: BenchEffort =
    BenchEffort { rounds: 1, seconds: 1, activations: 50, sites: &[1_000, 10_000], is_kept: false };

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Explicit, because both of rustls' providers are compiled in, one of them by Pingora.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let effort = if arguments.quick { QUICK } else { FULL };
    let parts = if arguments.only.is_empty() { BenchPart::value_variants() } else { arguments.only.as_slice() };
    match arguments.command {
        Some(Command::Dial { port, host, seconds, ca_file }) => {
            println!("{}", load::dial(port, &host, seconds, &ca_file)?);
            return Ok(());
        }
        Some(Command::Provide { port }) => return gateway::provider::run(port),
        Some(Command::Ask(asking)) => return gateway::ask::run(&asking),
        Some(Command::Train { edge }) => return training::run(&BenchWorld::start(Some(edge))?),
        Some(Command::WantsTraining) => {
            println!("{}", effort.is_kept && parts.iter().any(|part| part.has_edges()));
            return Ok(());
        }
        None => {}
    }
    eprintln!("starting svc");
    let edge = match arguments.trained_edge {
        Some(_) => " Measured is an edge by `deploy/release`.",
        None => " Measured is an edge without training.",
    };
    let world = BenchWorld::start(arguments.trained_edge)?;
    for part in parts {
        let (name, measure): (_, MeasureFn) = match part {
            BenchPart::Serving => ("serving", serving::measure),
            BenchPart::Deploys => ("deploys", |world, _, effort| deploys::measure(world, effort)),
            BenchPart::Activation => ("activation", |world, _, effort| activation::measure(world, effort)),
            BenchPart::Routing => ("routing", |world, _, effort| routing::measure(world, effort)),
            BenchPart::Platform => ("platform", |world, _, effort| platform::measure(world, effort)),
            BenchPart::Gateway => ("gateway", gateway::measure),
            BenchPart::Certificates => ("certificates", |world, _, effort| certificates::measure(world, effort)),
            BenchPart::Changes => ("changes", |world, _, _| statistics::measure(world, statistics::CHANGES)),
            BenchPart::Counting => ("counting", |world, _, effort| counting::measure(world, effort)),
            BenchPart::Statistics => ("statistics", |world, _, _| statistics::measure(world, statistics::LOAD)),
            BenchPart::History => ("history", |world, _, _| statistics::measure(world, statistics::HISTORY)),
            BenchPart::Visitors => ("visitors", |world, _, _| statistics::measure(world, statistics::VISITORS)),
            BenchPart::Outage => ("outage", |world, _, _| statistics::measure(world, statistics::OUTAGE)),
            BenchPart::Events => ("events", |world, _, effort| events::measure(world, effort)),
            BenchPart::Billing => ("billing", |world, _, effort| billing::measure(world, effort)),
            BenchPart::Attacks => ("attacks", |world, _, effort| attacks::measure(world, effort)),
        };
        eprintln!("{name}");
        // Before each part, because a machine with neighbors does not stay the same for long.
        let machine = Machine::here();
        let edge = if part.has_edges() { edge } else { "" };
        let section = format!("{machine}{edge}\n\n{}", measure(&world, &machine, effort)?);
        println!("\n{section}");
        if effort.is_kept {
            report::write(name, &section)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_knows_the_parts() {
        let list =
            include_str!("../run").lines().find_map(|line| line.strip_prefix("readonly PARTS=(")?.strip_suffix(')'));
        let names: Vec<_> = BenchPart::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<_> = names.iter().map(clap::builder::PossibleValue::get_name).collect();
        assert_eq!(list.unwrap().split(' ').collect::<Vec<_>>(), names);
    }
}
