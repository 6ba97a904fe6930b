//! Runs seeds from the command line.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use clap::Parser;
use sutler_control::rules::Rule;

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
    /// Threads
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
    /// Write logs of the controllers too
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.trace {
        tracing_subscriber::fmt().with_env_filter("sutler_control=trace").without_time().init();
    }
    let broken = args.broken.as_ref().map(|name| {
        let rule = Rule::ALL.into_iter().find(|rule| format!("{rule:?}") == *name);
        rule.unwrap_or_else(|| {
            eprintln!("there is no rule {name}; there are {:?}", Rule::ALL);
            std::process::exit(2)
        })
    });
    if let Some(seed) = args.seed {
        let outcome = sutler_dst::run(seed, broken, true);
        for line in &outcome.log {
            println!("{line}");
        }
        println!("seed {seed}: hash {:016x}, {} virtual seconds", outcome.hash, outcome.seconds);
        return verdict(&outcome);
    }
    let next = AtomicU64::new(args.from);
    let end = args.from + args.count;
    let failed = AtomicU64::new(u64::MAX);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || failed.load(Ordering::Relaxed) < seed && broken.is_some() {
                        return;
                    }
                    let outcome = sutler_dst::run(seed, broken, false);
                    if outcome.violation.is_some() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                        verdict(&outcome);
                    }
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let failed = failed.load(Ordering::Relaxed);
    println!("{} seeds in {seconds:.1} s", args.count);
    match failed == u64::MAX {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
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
