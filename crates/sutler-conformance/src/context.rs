//! What cases have in common: machines to work on, waiting, and cleaning up.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sutler_provider::{
    Accepted, Capabilities, Class, CreateRequest, DeleteRequest, DiskKey, Error, ErrorKind, Image,
    Machine, MachineId, Owner, PowerOp, PowerRequest, PrepareRequest, Proof, Provider, TaskId,
    TaskState, Token, platform_name,
};
use tokio::time::{Instant, sleep};

use crate::{
    Options,
    case::{Broken, Check, ensure},
    record::Recorder,
};

const INSTALLATION: &str = "conformance";

/// A case's own corner of the platform.
pub(crate) struct Context {
    pub(crate) provider: Recorder,
    pub(crate) can: Capabilities,
    template: Option<String>,
    options: Options,
    index: usize,
    count: AtomicUsize,
    /// What is to be deleted in the end.
    made: Mutex<Vec<(MachineId, Owner, String)>>,
    /// Kept disks that are to be removed in the end.
    kept: Mutex<Vec<DiskKey>>,
}

/// A machine of a case.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) id: MachineId,
    pub(crate) owner: Owner,
    pub(crate) name: String,
    pub(crate) request: CreateRequest,
}

impl Made {
    pub(crate) fn proof(&self) -> Proof {
        Proof { owner: self.owner.clone(), name: Some(self.name.clone()) }
    }

    pub(crate) fn delete(&self) -> DeleteRequest {
        DeleteRequest { id: self.id.clone(), proof: self.proof() }
    }

    pub(crate) fn power(&self, op: PowerOp) -> PowerRequest {
        PowerRequest { id: self.id.clone(), proof: self.proof(), op }
    }
}

impl Context {
    pub(crate) fn new(
        provider: Recorder,
        can: &Capabilities,
        template: Option<String>,
        options: &Options,
        index: usize,
    ) -> Self {
        Self {
            provider,
            can: can.clone(),
            template,
            options: options.clone(),
            index,
            count: AtomicUsize::new(0),
            made: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    /// An owner that nobody else is.
    pub(crate) fn owner(&self) -> Owner {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let uid = format!("{}-{}-{number}", self.options.run, self.index);
        Owner {
            token: Token::new(uid.clone(), 1),
            installation: INSTALLATION.to_owned(),
            namespace: "default".to_owned(),
            name: format!("c{}-{number}", self.index),
        }
    }

    /// The proof of somebody who has nothing here.
    pub(crate) fn stranger(&self) -> Proof {
        let owner = self.owner();
        let name = Some(self.name_of(&owner));
        Proof { owner, name }
    }

    fn name_of(&self, owner: &Owner) -> String {
        let name = format!("conf-{}-{}", self.options.run, owner.name);
        platform_name(&name, &owner.token.uid, self.can.name_limit)
    }

    /// A name for what is no machine.
    pub(crate) fn word(&self, what: &str) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        format!("conf-{}-{}-{what}-{number}", self.options.run, self.index)
    }

    /// A key for a kept disk, which is removed in the end.
    pub(crate) fn key(&self) -> DiskKey {
        let key = DiskKey(self.word("disk"));
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
        key
    }

    /// A small machine for a new owner.
    pub(crate) fn request(&self) -> CreateRequest {
        let owner = self.owner();
        let name = self.name_of(&owner);
        let image = self.template.clone().unwrap_or_else(|| "debian-13".to_owned());
        CreateRequest {
            class: Some(Class::new(1, 512)),
            image: Some(Image {
                name: image.clone(),
                template: Some(image),
                linked: self.options.linked,
                ..Image::default()
            }),
            ..CreateRequest::new(owner, name)
        }
    }

    /// Makes a machine and waits until it is there.
    pub(crate) async fn make(&self) -> Check<Made> {
        self.make_like(self.request()).await
    }

    /// Makes this machine and waits until it is there and at rest.
    pub(crate) async fn make_like(&self, request: CreateRequest) -> Check<Made> {
        let accepted = self.provider.create(request.clone()).await?;
        self.made_by(request, accepted).await
    }

    /// Waits for the machine of a request that was accepted.
    pub(crate) async fn made_by(&self, request: CreateRequest, accepted: Accepted) -> Check<Made> {
        let id = accepted.id.clone();
        if let Some(id) = &id {
            self.remember(id, &request);
        }
        self.ended(accepted.task).await?;
        let id = match id {
            Some(id) => id,
            None => self.find(&request).await?.id,
        };
        self.remember(&id, &request);
        self.at_rest(&id).await?;
        let CreateRequest { owner, name, .. } = request.clone();
        Ok(Made { id, owner, name, request })
    }

    /// What is to be deleted in the end.
    pub(crate) fn remember(&self, id: &MachineId, request: &CreateRequest) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.iter().all(|(known, ..)| known != id) {
            made.push((id.clone(), request.owner.clone(), request.name.clone()));
        }
    }

    /// Machines of a request, in a list.
    pub(crate) async fn listed(&self, request: &CreateRequest) -> Check<Vec<Machine>> {
        let listing = self.provider.list().await?;
        let ours = |machine: &Machine| match self.can.token {
            true => machine.token.as_ref() == Some(&request.owner.token),
            false => machine.name == request.name,
        };
        Ok(listing.machines.into_iter().filter(ours).collect())
    }

    /// Waits until a request's machine is listed.
    pub(crate) async fn find(&self, request: &CreateRequest) -> Check<Machine> {
        self.until(&format!("{} shows in the list", request.name), || async {
            Ok(self.listed(request).await?.into_iter().next())
        })
        .await
    }

    /// Waits until a machine is there and nothing is being done to it.
    pub(crate) async fn at_rest(&self, id: &MachineId) -> Check<Machine> {
        self.until(&format!("machine {id} is at rest"), || async {
            Ok(self.provider.describe(id).await?.filter(|machine| !machine.busy))
        })
        .await
    }

    /// A machine that must be there.
    pub(crate) async fn shown(&self, id: &MachineId) -> Check<Machine> {
        let found = self.provider.describe(id).await?;
        found.ok_or_else(|| Broken(format!("machine {id} is not there")))
    }

    /// Waits until a machine is gone, from the description and from the list.
    pub(crate) async fn gone(&self, made: &Made) -> Check {
        self.until(&format!("machine {} is gone", made.id), || async {
            match self.provider.describe(&made.id).await? {
                Some(machine) if machine.name == made.name => Ok(None),
                _ => Ok(Some(())),
            }
        })
        .await?;
        if self.can.list {
            self.until(&format!("machine {} is gone from the list", made.id), || async {
                Ok(self.listed(&made.request).await?.is_empty().then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Waits for a task's end; one that fails, or that is not known, breaks the case.
    pub(crate) async fn ended(&self, task: Option<TaskId>) -> Check<Option<String>> {
        let Some(task) = task else { return Ok(None) };
        let state = self
            .until(&format!("task {task} ends"), || async {
                Ok(match self.provider.task(&task).await? {
                    TaskState::Running { .. } => None,
                    state => Some(state),
                })
            })
            .await?;
        match state {
            TaskState::Done { id } => Ok(id),
            TaskState::Failed(error) => {
                Err(Broken(format!("task {task} failed: {}: {error}", error.kind())))
            }
            TaskState::Unknown => Err(Broken(format!("task {task} is not known any more"))),
            TaskState::Running { .. } => Err(Broken(format!("task {task} has not ended"))),
        }
    }

    /// Asks again and again until there is an answer. What is out of reach for a moment is asked for
    /// again; other errors break the case.
    pub(crate) async fn until<T, F>(&self, what: &str, ask: impl Fn() -> F) -> Check<T>
    where
        F: Future<Output = Check<Option<T>>>,
    {
        let end = Instant::now() + self.options.patience;
        loop {
            if let Some(found) = ask().await? {
                return Ok(found);
            }
            ensure!(
                Instant::now() < end,
                "waited {:?} in vain until {what}",
                self.options.patience
            );
            sleep(self.options.poll).await;
        }
    }

    /// A request to bring in an image under this name.
    pub(crate) fn image(&self, target: &str) -> PrepareRequest {
        let image = Image { name: target.to_owned(), ..self.options.image.clone() };
        PrepareRequest { image, target: target.to_owned(), ..PrepareRequest::default() }
    }

    /// Where disks are sent to.
    pub(crate) fn export_to(&self) -> &str {
        &self.options.export_to
    }

    /// Where a disk comes from.
    pub(crate) fn import_from(&self) -> &str {
        &self.options.import_from
    }

    /// How long a platform may take for one step.
    pub(crate) fn patience(&self) -> Duration {
        self.options.patience
    }

    /// Deletes what the case made; what cannot be deleted stays, and is nobody's failure but its own.
    pub(crate) async fn clean_up(&self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, owner, name) in made {
            let proof = Proof { owner, name: Some(name) };
            let request = DeleteRequest { id, proof };
            drop(tokio::time::timeout(self.patience(), self.provider.delete(request)).await);
        }
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        for key in kept {
            drop(tokio::time::timeout(self.patience(), self.remove_kept(&key)).await);
        }
    }

    /// Removes a kept disk once its machine is gone.
    async fn remove_kept(&self, key: &DiskKey) {
        loop {
            match self.provider.kept_disk_remove(key).await {
                Err(error) if error.kind() == ErrorKind::Conflict => sleep(self.options.poll).await,
                _ => return,
            }
        }
    }
}

/// An error that has to be of this kind.
pub(crate) fn refused<T: std::fmt::Debug>(
    result: Result<T, Error>,
    kind: ErrorKind,
    what: &str,
) -> Check<Error> {
    match result {
        Err(error) if error.kind() == kind => Ok(error),
        Err(error) => Err(Broken(format!(
            "{what}: it was refused as {} and not as {kind}: {error}",
            error.kind()
        ))),
        Ok(answer) => Err(Broken(format!("{what}: it was not refused, but answered {answer:?}"))),
    }
}
