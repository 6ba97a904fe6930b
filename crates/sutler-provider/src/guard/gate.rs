//! The gate itself: it carries out what the state machines beside it decide.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::{
    backoff::Jitter,
    breaker::{Breaker, BreakerState, Pass, Phase},
    bucket::{Bucket, Rate},
    calls::Call,
    limits::Limits,
    slots::{Caps, Key, Slots},
    stats::{Outcome, Stats},
};
use crate::{
    clock::Clock,
    contract::Provider,
    error::{Error, Result},
};

/// Later than anybody waits, and still a time that can be counted.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The one way to a platform: see [the module](crate::guard).
pub struct Gate {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl Gate {
    /// A gate in front of `provider`. The `seed` decides the pauses between retries.
    pub fn new(
        provider: Arc<dyn Provider>,
        limits: Limits,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Arc<Self> {
        let state = State {
            provider,
            bucket: Bucket::new(Instant::now()),
            breaker: Breaker::new(),
            opened: None,
            slots: Slots::default(),
            next_tokens: BTreeSet::new(),
            bells: BTreeMap::new(),
            jitter: Jitter::new(seed),
            stats: Stats::default(),
            limits,
        };
        Arc::new(Self { clock, state: Mutex::new(state) })
    }

    /// What it holds the connection to.
    pub fn limits(&self) -> Limits {
        self.lock().limits.clone()
    }

    /// Goes over to other limits, for those who wait already too. What is under way stays as it is.
    pub fn set_limits(&self, limits: Limits) {
        let now = Instant::now();
        let mut state = self.lock();
        let (from, to) = (rate(&state.limits), rate(&limits));
        if from != to {
            state.bucket.retune(now, from, to);
        }
        state.limits = limits;
        let caps = caps(&state.limits);
        let unsent = std::mem::take(&mut state.next_tokens);
        let granted = state.slots.resize(unsent, caps);
        state.grant(granted);
    }

    /// Goes over to another connection to the same platform, and says whether it is another one; what
    /// is under way stays with its own.
    pub fn set_provider(&self, provider: Arc<dyn Provider>) -> bool {
        let mut state = self.lock();
        let another = !Arc::ptr_eq(&state.provider, &provider);
        state.provider = provider;
        another
    }

    /// Whether the platform is called.
    pub fn breaker(&self) -> BreakerState {
        let state = self.lock();
        match state.breaker.phase(Instant::now(), state.limits.breaker) {
            Phase::Closed => BreakerState::Closed,
            Phase::HalfOpen => BreakerState::HalfOpen,
            Phase::Open => {
                let opened = state.opened.as_ref().map(|opened| opened.at);
                let until = opened.unwrap_or_else(|| self.clock.now());
                let until = until.checked_add(state.limits.breaker.open.min(FAR));
                BreakerState::Open { until: until.unwrap_or(Timestamp::MAX) }
            }
        }
    }

    /// What went through so far.
    pub fn stats(&self) -> Stats {
        self.lock().stats.clone()
    }

    /// Sends a call, as soon as it may be sent. `f` is called once for each time that it is.
    pub async fn call<T, F, Fut>(&self, call: Call, f: F) -> Result<T>
    where
        T: Send,
        F: Fn(Arc<dyn Provider>) -> Fut + Send,
        Fut: Future<Output = Result<T>> + Send,
    {
        let mut spent = Duration::ZERO;
        let mut sent = false;
        let result = self.attempts(&call, f, &mut sent, &mut spent).await;
        let mut state = self.lock();
        let stats = state.stats.of(call.name);
        stats.unsent += u64::from(!sent);
        let tally = stats.outcomes.entry(Outcome::of(&result)).or_default();
        tally.count += 1;
        tally.time += spent;
        result
    }

    async fn attempts<T, F, Fut>(
        &self,
        call: &Call,
        f: F,
        sent: &mut bool,
        spent: &mut Duration,
    ) -> Result<T>
    where
        T: Send,
        F: Fn(Arc<dyn Provider>) -> Fut + Send,
        Fut: Future<Output = Result<T>> + Send,
    {
        let mut attempt = 0;
        // From the first time that it is sent on, and what came of the last time.
        let mut deadline = None;
        let mut last: Option<Error> = None;
        loop {
            let mut turn = match self.turn(call, deadline).await {
                Ok(turn) => turn,
                Err(unsent) => return Err(last.unwrap_or(unsent)),
            };
            let begun = Instant::now();
            let end = *deadline.get_or_insert(begun + turn.deadline.min(FAR));
            *sent = true;
            let result = match timeout_at(end, f(Arc::clone(&turn.provider))).await {
                Ok(result) => result,
                Err(_) => Err(call.unanswered()),
            };
            *spent += begun.elapsed();
            turn.settle(&result);
            drop(turn);
            let error = match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(pause) = self.retry(call, attempt, &error, end) else { return Err(error) };
            tracing::debug!(call = call.name, %error, ?pause, "a call is sent again after a pause");
            attempt += 1;
            last = Some(error);
            sleep(pause).await;
        }
    }

    /// How long to wait before a call is sent again, if it is.
    fn retry(&self, call: &Call, attempt: u32, error: &Error, end: Instant) -> Option<Duration> {
        if !call.idempotent || error.kind() != crate::ErrorKind::Unavailable {
            return None;
        }
        let now = Instant::now();
        let mut state = self.lock();
        let limits = state.limits.retry;
        let asked = error.pause().unwrap_or_default();
        if attempt + 1 >= limits.attempts
            || asked > limits.max
            || state.breaker.check(now, state.limits.breaker).is_err()
        {
            return None;
        }
        let pause = limits.backoff().pause(attempt, state.jitter.draw()).max(asked);
        drop(state);
        let in_time = now + pause < end && call.time_left(self.clock.now()) > Some(pause);
        in_time.then_some(pause)
    }

    /// Waits until a call may be sent, or never will be.
    async fn turn(&self, call: &Call, deadline: Option<Instant>) -> Result<Turn<'_>> {
        let mut turn = self.enter(call);
        // Giving up by this timer is safe whatever the clock does meanwhile, since nothing was sent;
        // a clock that runs ahead of it is caught before sending.
        let now = Instant::now();
        let give_up = call
            .not_after
            .map(|_| now + call.time_left(self.clock.now()).unwrap_or_default().min(FAR));
        let give_up = give_up.into_iter().chain(deadline).min().unwrap_or(now + FAR);
        loop {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(call.late());
            }
            let ready = match turn.step(call)? {
                Step::Go => return Ok(turn),
                Step::Wait(ready) => ready.unwrap_or(now + FAR),
            };
            let rung = pin!(turn.bell.notified());
            let timer = pin!(sleep_until(ready.min(give_up)));
            tokio::select! {
                biased;
                () = rung => {}
                () = timer => {
                    if Instant::now() >= give_up {
                        return Err(call.late());
                    }
                }
            }
        }
    }

    fn enter(&self, call: &Call) -> Turn<'_> {
        let keys = call.template.iter().cloned().map(Key::Template);
        let keys = keys.chain(call.host.iter().cloned().map(Key::Host)).collect();
        let bell = Arc::new(Notify::new());
        let mut state = self.lock();
        let caps = caps(&state.limits);
        let (id, granted) = state.slots.enter(keys, caps);
        state.bells.insert(id, Arc::clone(&bell));
        state.grant(granted);
        state.stats.of(call.name).queued += 1;
        let provider = Arc::clone(&state.provider);
        let deadline = Duration::ZERO;
        drop(state);
        let since = Instant::now();
        Turn { gate: self, id, name: call.name, bell, since, pass: None, provider, deadline }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rate(limits: &Limits) -> Rate {
    Rate::new(limits.qps, limits.burst)
}

fn caps(limits: &Limits) -> Caps {
    Caps { all: limits.concurrency, per_template: limits.per_template, per_host: limits.per_host }
}

struct State {
    provider: Arc<dyn Provider>,
    limits: Limits,
    bucket: Bucket,
    breaker: Breaker,
    /// When and why the breaker opened last.
    opened: Option<Opened>,
    slots: Slots,
    /// Those who have a slot and no token yet.
    next_tokens: BTreeSet<u64>,
    /// What wakes those who wait.
    bells: BTreeMap<u64, Arc<Notify>>,
    jitter: Jitter,
    stats: Stats,
}

struct Opened {
    at: Timestamp,
    why: String,
}

impl State {
    /// Passes on what the slots said: these have one now and come next for a token.
    fn grant(&mut self, granted: Vec<u64>) {
        for id in granted {
            self.next_tokens.insert(id);
            self.ring(id);
        }
    }

    fn ring(&self, id: u64) {
        if let Some(bell) = self.bells.get(&id) {
            bell.notify_one();
        }
    }

    fn ring_first(&self) {
        if let Some(first) = self.next_tokens.first() {
            self.ring(*first);
        }
    }

    fn refusal(&self, rest: Duration) -> Error {
        let why = self.opened.as_ref().map_or("it failed", |opened| opened.why.as_str());
        Error::unavailable(format!("the platform is left alone after repeated failures: {why}"))
            .retry_after(rest)
    }
}

/// One call's way through the gate: a place in the queue, then a slot. Dropping it gives both back.
struct Turn<'a> {
    gate: &'a Gate,
    id: u64,
    name: &'static str,
    bell: Arc<Notify>,
    since: Instant,
    /// While it is under way.
    pass: Option<Pass>,
    provider: Arc<dyn Provider>,
    deadline: Duration,
}

enum Step {
    /// It is its turn: send it now.
    Go,
    /// Until the bell rings, or this time comes.
    Wait(Option<Instant>),
}

impl Turn<'_> {
    /// Looks whether it is its turn. All that must hold when a call is sent holds in this moment.
    fn step(&mut self, call: &Call) -> Result<Step> {
        let now = Instant::now();
        let mut state = self.gate.lock();
        let state = &mut *state;
        let breaker = state.limits.breaker;
        state.breaker.check(now, breaker).map_err(|rest| state.refusal(rest))?;
        if call.time_left(self.gate.clock.now()).is_none() {
            return Err(call.late());
        }
        if !state.slots.has(self.id) || state.next_tokens.first() != Some(&self.id) {
            return Ok(Step::Wait(None));
        }
        if let Err(ready) = state.bucket.take(now, rate(&state.limits)) {
            return Ok(Step::Wait(Some(ready)));
        }
        self.pass = Some(state.breaker.pass(now, breaker).map_err(|rest| state.refusal(rest))?);
        self.provider = Arc::clone(&state.provider);
        self.deadline =
            call.deadline.unwrap_or_else(|| call.class.deadline(&state.limits.deadlines));
        state.bells.remove(&self.id);
        state.next_tokens.remove(&self.id);
        state.ring_first();
        let stats = state.stats.of(self.name);
        stats.queued -= 1;
        stats.in_flight += 1;
        stats.waited += now.saturating_duration_since(self.since);
        Ok(Step::Go)
    }

    /// Tells what came of it.
    fn settle<T>(&mut self, result: &Result<T>) {
        let Some(pass) = self.pass.take() else { return };
        let now = Instant::now();
        let at = self.gate.clock.now();
        let mut state = self.gate.lock();
        let state = &mut *state;
        let stats = state.stats.of(self.name);
        stats.in_flight -= 1;
        stats.attempts += 1;
        let error = result.as_ref().err();
        match error {
            Some(error) if error.kind().is_outage() => {
                if state.breaker.failed(pass, now, state.limits.breaker) {
                    tracing::warn!(call = self.name, %error, "the platform is left alone for a while");
                    state.opened = Some(Opened { at, why: error.message().to_owned() });
                    // Whoever waits is refused at once.
                    for bell in state.bells.values() {
                        bell.notify_one();
                    }
                }
            }
            _ => {
                if state.breaker.answered(pass) {
                    tracing::info!(call = self.name, "the platform answers again");
                    state.opened = None;
                }
            }
        }
        if let Some(error) = error
            && let Some(pause) = error.pause()
            && error.kind().is_retryable()
        {
            state.bucket.hold(now, pause);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        let state = &mut *state;
        if let Some(pass) = self.pass.take() {
            // Its caller went away while it was under way.
            state.breaker.dropped(pass);
            state.stats.of(self.name).in_flight -= 1;
        }
        if state.bells.remove(&self.id).is_some() {
            state.stats.of(self.name).queued -= 1;
        }
        let caps = caps(&state.limits);
        let granted = state.slots.leave(self.id, caps);
        state.grant(granted);
        if state.next_tokens.remove(&self.id) {
            state.ring_first();
        }
    }
}

#[cfg(test)]
mod tests;
