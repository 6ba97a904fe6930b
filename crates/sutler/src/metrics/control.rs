//! What the controllers count.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};
use sutler_control::metrics::{ProviderSnapshot, Snapshot};

use crate::serve::controllers::Shared;

/// The controllers' own counts, read when somebody asks. A process that does not lead says so and
/// has nothing else to tell.
pub(crate) struct ControlMetrics(pub(crate) Shared);

impl fmt::Debug for ControlMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlMetrics").finish_non_exhaustive()
    }
}

impl Collector for ControlMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let context = self.0.get();
        encoder
            .encode_descriptor(
                "sutler_leading",
                "Whether this process acts",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&i64::from(context.is_some()))?;
        let Some(context) = context else { return Ok(()) };
        let snapshot = context.metrics();
        encode_control(&mut encoder, &snapshot)?;
        encode_calls(&mut encoder, &snapshot)?;
        encode_gauges(&mut encoder, &snapshot)
    }
}

fn encode_control(encoder: &mut DescriptorEncoder<'_>, all: &Snapshot) -> fmt::Result {
    let kind = MetricType::Counter;
    let help = "Looks at an object";
    let mut counter = encoder.encode_descriptor("sutler_reconciles", help, None, kind)?;
    for (kind, count) in &all.reconciles {
        counter
            .encode_family(&[("kind", *kind)])?
            .encode_counter::<NoLabelSet, u64, u64>(count, None)?;
    }
    let help = "Operations that ended";
    let mut counter = encoder.encode_descriptor("sutler_operations", help, None, kind)?;
    for (state, count) in &all.operations {
        counter
            .encode_family(&[("state", *state)])?
            .encode_counter::<NoLabelSet, u64, u64>(count, None)?;
    }
    for (name, help, count) in [
        ("sutler_control_api_errors", "Looks that ended with an error of the API", all.api_errors),
        ("sutler_orphans_reaped", "Machines without a record that were removed", all.reaped),
    ] {
        encoder
            .encode_descriptor(name, help, None, kind)?
            .encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
    }
    Ok(())
}

fn encode_calls(encoder: &mut DescriptorEncoder<'_>, all: &Snapshot) -> fmt::Result {
    let kind = MetricType::Counter;
    let name = "sutler_provider_calls";
    let mut counter = encoder.encode_descriptor(name, "Calls that ended, by how", None, kind)?;
    for (provider, one) in &all.providers {
        for (call, stats) in &one.calls.calls {
            for (outcome, tally) in &stats.outcomes {
                counter
                    .encode_family(&[
                        ("provider", provider.as_str()),
                        ("call", call),
                        ("outcome", outcome.as_str()),
                    ])?
                    .encode_counter::<NoLabelSet, u64, u64>(&tally.count, None)?;
            }
        }
    }
    let (name, help) = ("sutler_provider_call", "Time that platforms took for calls");
    let unit = Some(&Unit::Seconds);
    let mut counter = encoder.encode_descriptor(name, help, unit, kind)?;
    for (provider, one) in &all.providers {
        for (call, stats) in &one.calls.calls {
            let spent: f64 = stats.outcomes.values().map(|tally| tally.time.as_secs_f64()).sum();
            counter
                .encode_family(&[("provider", provider.as_str()), ("call", call)])?
                .encode_counter::<NoLabelSet, f64, u64>(&spent, None)?;
        }
    }
    let (name, help) = ("sutler_provider_lists", "Lists of everything that were begun");
    let mut counter = encoder.encode_descriptor(name, help, None, kind)?;
    for (provider, one) in &all.providers {
        counter
            .encode_family(&[("provider", provider.as_str())])?
            .encode_counter::<NoLabelSet, u64, u64>(&one.lists, None)?;
    }
    Ok(())
}

/// One number of each provider: its name, what it means, and where it comes from.
type Number = (&'static str, &'static str, fn(&ProviderSnapshot) -> i64);

const GAUGES: [Number; 7] = [
    ("sutler_provider_healthy", "Whether health checks succeed; -1 is not known", |one| {
        one.healthy.map_or(-1, i64::from)
    }),
    ("sutler_provider_breaker", "0 closed, 1 open, 2 half open", |one| one.breaker.into()),
    ("sutler_provider_queued", "Calls that wait to be sent", |one| number(one.calls.queued())),
    ("sutler_provider_in_flight", "Calls sent and not answered yet", |one| {
        number(one.calls.in_flight())
    }),
    ("sutler_provider_machines", "Machines on the platform", |one| number(one.machines)),
    ("sutler_provider_records", "Records that name the provider", |one| number(one.records)),
    ("sutler_provider_orphans", "Machines with our token and no record", |one| number(one.orphans)),
];

fn encode_gauges(encoder: &mut DescriptorEncoder<'_>, all: &Snapshot) -> fmt::Result {
    for (name, help, read) in GAUGES {
        let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (provider, one) in &all.providers {
            gauge
                .encode_family(&[("provider", provider.as_str()), ("type", one.type_.as_str())])?
                .encode_gauge(&read(one))?;
        }
    }
    Ok(())
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
