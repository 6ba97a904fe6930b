//! Amounts of what pods ask for and nodes have.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{MalformedError, quantity};

/// Amounts of CPU, memory and anything else that the scheduler counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of disk that go with the pod.
    pub ephemeral: i64,
    /// Everything else by its name: devices, huge pages.
    pub other: BTreeMap<String, i64>,
}

impl Resources {
    /// CPU in thousandths and memory in bytes.
    pub fn new(cpu: i64, memory: i64) -> Self {
        Self { cpu, memory, ..Self::default() }
    }

    /// Reads a list of Kubernetes. `pods` is no resource that a pod asks for, and is left out.
    pub fn read(field: &str, list: &BTreeMap<String, Quantity>) -> Result<Self, MalformedError> {
        let mut resources = Self::default();
        for (name, amount) in list {
            let read = match name.as_str() {
                "cpu" => quantity::thousandths(amount),
                _ => quantity::units(amount),
            };
            let amount = read.ok_or_else(|| {
                MalformedError::new(
                    format!("{field}[{name}]"),
                    format!("{:?} is not a quantity", amount.0),
                )
            })?;
            match name.as_str() {
                "cpu" => resources.cpu = amount,
                "memory" => resources.memory = amount,
                "ephemeral-storage" => resources.ephemeral = amount,
                "pods" => {}
                _ => {
                    resources.other.insert(name.clone(), amount);
                }
            }
        }
        Ok(resources)
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Self) {
        self.add_times(more, 1);
    }

    /// Adds `more` as often as said; a negative number takes it away.
    pub fn add_times(&mut self, more: &Self, times: i64) {
        let sum = |own: &mut i64, more: i64| *own = own.saturating_add(more.saturating_mul(times));
        sum(&mut self.cpu, more.cpu);
        sum(&mut self.memory, more.memory);
        sum(&mut self.ephemeral, more.ephemeral);
        for (name, amount) in &more.other {
            match self.other.get_mut(name) {
                Some(own) => sum(own, *amount),
                None => {
                    self.other.insert(name.clone(), amount.saturating_mul(times));
                }
            }
        }
    }

    /// Raises every amount to that of `other`.
    pub fn raise(&mut self, other: &Self) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral = self.ephemeral.max(other.ephemeral);
        for (name, amount) in &other.other {
            let own = self.other.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }

    /// The first resource of which `wanted` asks for more than is here, as the scheduler compares:
    /// who asks for nothing is never refused, however overcommitted a node is.
    pub fn lacking(&self, wanted: &Self) -> Option<Lack> {
        let lack = |name: &str, wanted: i64, free: i64| {
            (wanted > 0 && wanted > free).then(|| Lack { name: name.to_owned(), wanted, free })
        };
        lack("cpu", wanted.cpu, self.cpu)
            .or_else(|| lack("memory", wanted.memory, self.memory))
            .or_else(|| lack("ephemeral-storage", wanted.ephemeral, self.ephemeral))
            .or_else(|| {
                wanted.other.iter().find_map(|(name, amount)| {
                    lack(name, *amount, self.other.get(name).copied().unwrap_or(0))
                })
            })
    }

    /// Lowers every amount to one that thousands of can be added up, which is more than any node
    /// has.
    pub(crate) fn capped(mut self) -> Self {
        const MOST: i64 = 1 << 50;
        for amount in [&mut self.cpu, &mut self.memory, &mut self.ephemeral] {
            *amount = (*amount).min(MOST);
        }
        self.other.values_mut().for_each(|amount| *amount = (*amount).min(MOST));
        self
    }

    /// One number for how much this is: a thousandth of a CPU counts as much as 4 MiB of memory,
    /// which is what clouds commonly sell with it.
    pub fn weight(&self) -> u64 {
        let cpu = u64::try_from(self.cpu).unwrap_or(0);
        let memory = u64::try_from(self.memory).unwrap_or(0) >> 22;
        cpu.saturating_add(memory)
    }
}

/// A resource that there is too little of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack {
    /// Its name.
    pub name: String,
    /// How much is asked for: thousandths of a CPU, bytes, or pieces.
    pub wanted: i64,
    /// How much is left.
    pub free: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_nothing_is_never_refused() {
        let free = Resources { cpu: -5, memory: 10, ..Resources::default() };
        assert_eq!(free.lacking(&Resources::new(0, 10)), None);
        assert_eq!(free.lacking(&Resources::new(1, 10)).unwrap().name, "cpu");
        assert_eq!(free.lacking(&Resources::new(0, 11)).unwrap().name, "memory");
        let gpu = Resources { other: [("gpu".to_owned(), 1)].into(), ..Resources::default() };
        assert_eq!(free.lacking(&gpu), Some(Lack { name: "gpu".into(), wanted: 1, free: 0 }));
        let none = Resources { other: [("gpu".to_owned(), 0)].into(), ..Resources::default() };
        assert_eq!(free.lacking(&none), None);
    }

    #[test]
    fn a_malformed_amount_names_its_field() {
        let list = [("cpu".to_owned(), Quantity("x".to_owned()))].into();
        let error = Resources::read("allocatable", &list).unwrap_err();
        assert_eq!(error.field, "allocatable[cpu]");
    }
}
