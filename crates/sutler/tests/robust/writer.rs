//! Writers: each takes one step after another until the server is gone, and remembers what was
//! acknowledged.

use rand::{Rng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    client::{Answer, Client, Gone},
    history::{Acknowledged, Done, KINDS, Kind, marks},
};

/// One writer.
pub(crate) struct Writer {
    /// Its number.
    pub(crate) number: usize,
    /// Makes its marks unique.
    pub(crate) round: u64,
    /// What it decides by.
    pub(crate) random: StdRng,
    /// Its connection.
    pub(crate) client: Client,
    /// Who counts.
    pub(crate) told: UnboundedSender<Acknowledged>,
}

impl Writer {
    /// Writes until nothing comes back any more.
    pub(crate) async fn run(mut self) {
        for step in 0.. {
            if self.step(step).await.is_err() {
                return;
            }
        }
    }

    async fn step(&mut self, step: u32) -> Result<(), Gone> {
        let kind = KINDS[self.random.random_range(0..KINDS.len())];
        // Some objects are everybody's, most are one writer's.
        let name = match self.random.random_range(0..8) {
            0 => "shared".to_owned(),
            n => format!("w{}-{}", self.number, n % 3),
        };
        let mark = format!("{}-{}-{step}", self.round, self.number);
        let target = format!("{}/{name}", kind.path());
        let found = self.client.get(&target).await?;
        if found.code == 404 {
            let object = kind.object(&name, &mark);
            let answer = match self.random.random_bool(0.5) {
                true => self.client.json("POST", kind.path(), &object).await?,
                false => self.apply(&target, &object).await?,
            };
            return self.note(kind, name, &answer, mark, None);
        }
        assert_eq!(found.code, 200, "{found:?}");
        let (object, version) = (found.value(), found.version());
        match self.random.random_range(0..7) {
            0 | 1 => {
                let mut new = kind.object(&name, &mark);
                new["metadata"]["resourceVersion"] = version.to_string().into();
                let answer = self.client.json("PUT", &target, &new).await?;
                self.note(kind, name, &answer, mark, Some(version))
            }
            2 => {
                let changes = json!({"metadata": {"annotations": marks(&mark)}});
                let answer = self.patch(&target, "application/merge-patch+json", &changes).await?;
                self.note(kind, name, &answer, mark, None)
            }
            3 => {
                let changes = json!([
                    {"op": "test", "path": "/metadata/resourceVersion", "value": version.to_string()},
                    {"op": "replace", "path": "/metadata/annotations", "value": marks(&mark)},
                ]);
                let answer = self.patch(&target, "application/json-patch+json", &changes).await?;
                self.note(kind, name, &answer, mark, Some(version))
            }
            4 | 5 => {
                let answer = self.apply(&target, &kind.object(&name, &mark)).await?;
                self.note(kind, name, &answer, mark, None)
            }
            _ => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid},
                });
                let answer = self.client.json("DELETE", &target, &options).await?;
                match answer.code {
                    200 => self.tell(Acknowledged { kind, name, done: Done::Deleted { uid } }),
                    404 | 409 => Ok(()),
                    _ => panic!("{answer:?}"),
                }
            }
        }
    }

    async fn patch(&mut self, target: &str, kind: &str, body: &Value) -> Result<Answer, Gone> {
        self.client.send("PATCH", target, &[("content-type", kind)], body.to_string()).await
    }

    async fn apply(&mut self, target: &str, object: &Value) -> Result<Answer, Gone> {
        let target = format!("{target}?fieldManager=w{}&force=true", self.number);
        self.patch(&target, "application/apply-patch+yaml", object).await
    }

    fn note(
        &self,
        kind: Kind,
        name: String,
        answer: &Answer,
        mark: String,
        on: Option<u64>,
    ) -> Result<(), Gone> {
        match answer.code {
            200 | 201 => {
                let done = Done::Written { version: answer.version(), mark, on };
                self.tell(Acknowledged { kind, name, done })
            }
            // Somebody else was first.
            404 | 409 | 422 if self.lost_a_race(&name, answer) => Ok(()),
            _ => panic!("{name}: {answer:?}"),
        }
    }

    /// A failed test of a JSON patch is a 422, which also a bad patch would be.
    fn lost_a_race(&self, name: &str, answer: &Answer) -> bool {
        name == "shared"
            && (answer.code != 422 || answer.text().contains("the server rejected our request"))
    }

    fn tell(&self, write: Acknowledged) -> Result<(), Gone> {
        self.told.send(write).map_err(|_| Gone)
    }
}
