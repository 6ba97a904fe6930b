//! Metrics of the calls that were answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram, info::Info},
    registry::Registry,
};
use sutler_provider::ErrorKind;
use sutler_rpc::server::Observer;

const BUCKETS: [f64; 12] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    call: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    call: &'static str,
}

/// Metrics of one provider.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Arc<Mutex<Registry>>,
    calls: Family<Answered, Counter>,
    seconds: Family<Called, Histogram, fn() -> Histogram>,
}

impl Metrics {
    pub(crate) fn new(provider: &str) -> Self {
        let mut registry = Registry::default();
        let calls = Family::<Answered, Counter>::default();
        let seconds = Family::<Called, Histogram, fn() -> Histogram>::new_with_constructor(|| {
            Histogram::new(BUCKETS)
        });
        registry.register(
            "sutler_provider_calls",
            "Calls that were answered, by outcome: Ok, or the kind of error",
            calls.clone(),
        );
        registry.register(
            "sutler_provider_call_seconds",
            "How long calls took to be answered",
            seconds.clone(),
        );
        let info = Info::new(vec![
            ("provider".to_owned(), provider.to_owned()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        registry.register("sutler_provider_build", "What is running", info);
        Self { registry: Arc::new(Mutex::new(registry)), calls, seconds }
    }

    /// All metrics as Prometheus reads them.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Observer for Metrics {
    fn answered(&self, call: &'static str, outcome: Option<ErrorKind>, took: Duration) {
        let outcome = outcome.map_or("Ok", ErrorKind::as_str);
        self.calls.get_or_create(&Answered { call, outcome }).inc();
        self.seconds.get_or_create(&Called { call }).observe(took.as_secs_f64());
    }
}
