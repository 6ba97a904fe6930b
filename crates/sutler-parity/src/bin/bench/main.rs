//! `make bench`: the embedded API server on SQLite beside kube-apiserver and etcd, on the same
//! machine in the same run, by the same client. What counts are the ratios.
//!
//! `BENCH_OBJECTS` (25,000) and `BENCH_WATCHERS` (1,000) can be made smaller for a quick look.

mod load;
mod report;
mod servers;

use anyhow::Result;

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Size {
    objects: usize,
    updates: usize,
    watchers: usize,
}

fn main() -> Result<()> {
    let number = |name: &str, default: usize| {
        std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
    };
    let objects = number("BENCH_OBJECTS", 25_000);
    let watchers = number("BENCH_WATCHERS", 1_000);
    let size = Size { objects, updates: objects / 5, watchers };
    let runtime = sutler_parity::target::runtime();
    let mut figures = Vec::new();

    println!("in process: {} objects", size.objects);
    let in_process = runtime.block_on(servers::in_process())?;
    let creates = runtime.block_on(load::creates(&in_process.target, size.objects))?;
    drop(in_process);

    println!("over HTTPS: ours");
    let ours = servers::ours()?;
    let our_figures = runtime.block_on(load::all(&ours, size))?;
    drop(ours);

    println!("over HTTPS: kube-apiserver and etcd");
    match servers::real()? {
        Some(real) => {
            let real_figures = runtime.block_on(load::all(&real, size))?;
            figures.extend(report::compare(&our_figures, &real_figures, creates));
        }
        None => figures.extend(report::alone(&our_figures, creates)),
    }
    report::print(&figures);
    Ok(())
}
