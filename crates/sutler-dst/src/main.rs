//! Runs seeds from the command line.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use sutler_control::rules::Rule;
use sutler_dst::{Scenario, fork::Farm};

/// A run is mostly small objects that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(60);

/// Runs seeds of the simulation.
#[derive(Debug, Parser)]
struct Args {
    /// One seed, with its whole log
    #[arg(long)]
    seed: Option<u64>,
    /// The first of several seeds
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds
    #[arg(long, default_value_t = 2000)]
    count: u64,
    /// Break this rule, and say which seed notices first
    #[arg(long)]
    broken: Option<String>,
    /// Only seeds that are about this
    #[arg(long)]
    theme: Option<String>,
    /// Seeds that run at the same time
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
    /// A crash at every single step of one machine's life, on every kind of platform
    #[arg(long)]
    table: bool,
    /// Write logs of the controllers too
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.trace {
        tracing_subscriber::fmt()
            .with_env_filter("sutler_control=trace,sutler_nodes=trace")
            .without_time()
            .init();
    }
    let broken = args.broken.as_ref().map(|name| {
        let rule = Rule::ALL.into_iter().find(|rule| format!("{rule:?}") == *name);
        rule.unwrap_or_else(|| {
            eprintln!("there is no rule {name}; there are {:?}", Rule::ALL);
            std::process::exit(2)
        })
    });
    let mut farm = Farm::new(args.threads);
    if let Some(seed) = args.seed {
        let Some(outcome) = farm.run(seed, broken, true) else { return ExitCode::FAILURE };
        for line in &outcome.log {
            println!("{line}");
        }
        println!("seed {seed}: hash {:016x}, {} virtual seconds", outcome.hash, outcome.seconds);
        return verdict(&outcome);
    }
    if args.table {
        return table(&mut farm);
    }
    let begun = Instant::now();
    let (mut next, end) = (args.from, args.from + args.count);
    let (mut failures, mut hash) = (0u64, 0u64);
    let (mut done, mut said) = (0u64, begun);
    while next < end || !farm.is_idle() {
        // With a rule broken, one seed that notices is enough.
        if failures > 0 && broken.is_some() {
            next = end;
        }
        while farm.has_room() && next < end {
            let scenario = Scenario::of(next);
            let meant = |theme: &String| format!("{:?}", scenario.theme) == *theme;
            if args.theme.as_ref().is_none_or(meant) {
                farm.begin(next, scenario, broken, false);
            }
            next += 1;
        }
        let Some(outcome) = farm.take() else { continue };
        hash ^= outcome.hash.rotate_left((outcome.seed % 64) as u32);
        if outcome.violation.is_some() {
            failures += 1;
            verdict(&outcome);
        }
        done += 1;
        if said.elapsed() >= PROGRESS {
            said = Instant::now();
            let pace = done as f64 / begun.elapsed().as_secs_f64();
            let (at, count) = (outcome.seed, args.count);
            eprintln!(
                "{done} of {count} seeds, {failures} violations, at {at}, {pace:.1} a second"
            );
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{done} seeds in {seconds:.1} s, {failures} violations, hash {hash:016x}");
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Crashes at the first call, the second, and so on, until a life needs fewer calls than that.
fn table(farm: &mut Farm) -> ExitCode {
    let mut lives = 0u64;
    for class in 0..6 {
        let (mut step, mut over) = (0u32, false);
        while !over || !farm.is_idle() {
            while !over && farm.has_room() {
                step += 1;
                farm.begin(u64::from(step), Scenario::table(class, step), None, true);
            }
            let Some(outcome) = farm.take() else { continue };
            lives += 1;
            if outcome.violation.is_some() {
                println!("platform {class}:\n{}", outcome.log.join("\n"));
                return verdict(&outcome);
            }
            over |= !outcome.log.iter().any(|line| line.contains("crashes"));
        }
    }
    println!("{lives} lives, and one machine or none in each");
    ExitCode::SUCCESS
}

fn verdict(outcome: &sutler_dst::Outcome) -> ExitCode {
    match &outcome.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("seed {}: {violation}", outcome.seed);
            ExitCode::FAILURE
        }
    }
}
