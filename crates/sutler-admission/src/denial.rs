//! A refusal as clients of Kubernetes get it.

use serde_json::{Value, json};

use crate::{Kind, Operation, Refusal};

/// The parts of a `Status` that says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP code.
    pub code: u16,
    /// The code in a word.
    pub reason: &'static str,
    /// What people read.
    pub message: String,
    /// The object and the causes, each with its field.
    pub details: Value,
}

impl Denial {
    /// The answer to a write of the object called `name`. An object that may not go is as it should
    /// be, and its deletion forbidden; any other write would leave it invalid.
    pub fn new(operation: Operation, kind: Kind, name: &str, refusals: &[Refusal]) -> Self {
        let (group, plural, single) = kind.names();
        let qualified =
            |word: &str| if group.is_empty() { word.to_owned() } else { format!("{word}.{group}") };
        let forbidden = operation == Operation::Delete;
        let texts: Vec<String> = refusals
            .iter()
            .map(|refusal| if forbidden { refusal.message.clone() } else { refusal.to_string() })
            .collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let (code, reason, cause, word, verdict) = match forbidden {
            true => (403, "Forbidden", "FieldValueForbidden", plural, "forbidden"),
            false => (422, "Invalid", "FieldValueInvalid", single, "invalid"),
        };
        let causes = refusals.iter().map(|refusal| {
            json!({ "reason": cause, "message": refusal.message, "field": refusal.field })
        });
        let mut details =
            json!({ "name": name, "kind": word, "causes": causes.collect::<Vec<Value>>() });
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        let message = format!("{} {name:?} is {verdict}: {list}", qualified(word));
        Self { code, reason, message, details }
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
            "details": self.details,
        })
    }
}
