//! Taints of nodes and what pods tolerate.

use k8s_openapi::api::core::v1 as core;

use super::MalformedError;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// They are not put there.
    NoSchedule,
    /// They are put there last.
    PreferNoSchedule,
    /// They are not put there, and leave.
    NoExecute,
}

impl Effect {
    fn read(field: &str, text: &str) -> Result<Self, MalformedError> {
        match text {
            "NoSchedule" => Ok(Self::NoSchedule),
            "PreferNoSchedule" => Ok(Self::PreferNoSchedule),
            "NoExecute" => Ok(Self::NoExecute),
            _ => Err(MalformedError::new(
                format!("{field}.effect"),
                format!("{text:?} is none of NoSchedule, PreferNoSchedule and NoExecute"),
            )),
        }
    }

    /// The effect as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, often empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

impl Taint {
    /// A taint.
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), effect }
    }

    /// Reads one of Kubernetes.
    pub fn read(field: &str, taint: &core::Taint) -> Result<Self, MalformedError> {
        Ok(Self {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect: Effect::read(field, &taint.effect)?,
        })
    }

    /// Whether it keeps pods away that do not tolerate it.
    pub fn keeps_away(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }

    /// Whether nodes carry it only until they are up, or while they are cordoned for now.
    pub fn is_startup(&self) -> bool {
        matches!(
            self.key.as_str(),
            "node.kubernetes.io/not-ready"
                | "node.kubernetes.io/unreachable"
                | "node.kubernetes.io/network-unavailable"
                | "node.cloudprovider.kubernetes.io/uninitialized"
        )
    }
}

/// What a pod tolerates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The taint's key; empty means all keys.
    pub key: String,
    /// The taint's value, or any.
    pub value: Option<String>,
    /// The effect, or all.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Reads one of Kubernetes. Operators that this scheduler does not have tolerate nothing, and
    /// are left out.
    pub fn read(
        field: &str,
        toleration: &core::Toleration,
    ) -> Result<Option<Self>, MalformedError> {
        let value = match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => Some(toleration.value.clone().unwrap_or_default()),
            "Exists" => None,
            _ => return Ok(None),
        };
        let effect = match toleration.effect.as_deref().unwrap_or_default() {
            "" => None,
            effect => Some(Effect::read(field, effect)?),
        };
        Ok(Some(Self { key: toleration.key.clone().unwrap_or_default(), value, effect }))
    }

    /// Every taint, of any effect.
    pub fn everything() -> Self {
        Self { key: String::new(), value: None, effect: None }
    }

    /// Whether it covers this taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Option<Toleration> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration::read(
            "t",
            &core::Toleration {
                key: text(key),
                operator: text(operator),
                value: text(value),
                effect: text(effect),
                toleration_seconds: None,
            },
        )
        .unwrap()
    }

    #[test]
    fn tolerations() {
        let taint = Taint::new("k", "v", Effect::NoSchedule);
        for (key, operator, value, effect, expected) in [
            ("k", "Equal", "v", "NoSchedule", true),
            ("k", "", "v", "", true),
            ("k", "Equal", "w", "", false),
            ("k", "Exists", "", "NoSchedule", true),
            ("k", "Exists", "", "NoExecute", false),
            ("l", "Exists", "", "", false),
            ("", "Exists", "", "", true),
            ("", "Exists", "", "NoExecute", false),
        ] {
            let got = toleration(key, operator, value, effect).unwrap().tolerates(&taint);
            assert_eq!(got, expected, "{key} {operator} {value} {effect}");
        }
        assert_eq!(toleration("k", "Gt", "1", ""), None);
    }
}
