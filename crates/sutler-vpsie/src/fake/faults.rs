//! What goes wrong, by script.

/// When something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the request has any effect.
    Before,
    /// After it had its effect, with what would have been the answer.
    After,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is turned away: too many requests. Nothing has happened.
    TooMany {
        /// The header `Retry-After`.
        retry_after: String,
    },
    /// It is answered with this status and text.
    Status(When, u16, String),
    /// It is never answered.
    Hang(When),
    /// The connection is cut.
    Cut(When),
    /// It is answered with 200, and an error in the body. Nothing has happened.
    Envelope {
        /// VPSie's own code.
        code: Option<u16>,
        /// What it says.
        message: String,
    },
    /// It has its effect, and is answered with what is no JSON.
    Malformed,
    /// A page of another server says that there is nothing here.
    Elsewhere,
    /// It is answered with 200 and this body, without any effect.
    Body(serde_json::Value),
    /// It is answered with 200 and this many bytes, without any effect.
    Flood(usize),
}

/// A fault, and which requests it happens to.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The method, or any.
    pub method: Option<&'static str>,
    /// What the path has in it, its query included.
    pub path: String,
    /// How many such requests pass before.
    pub skip: usize,
    /// How many it happens to.
    pub times: usize,
    /// What happens.
    pub fault: Fault,
}

impl Planned {
    /// Something that happens once, to the next request with this method and with this in its path.
    pub fn once(method: &'static str, path: &str, fault: Fault) -> Self {
        Self { method: Some(method), path: path.to_owned(), skip: 0, times: 1, fault }
    }

    /// The same, again and again.
    pub fn always(self) -> Self {
        Self { times: usize::MAX, ..self }
    }

    /// The same, after this many requests passed.
    pub fn after(self, skip: usize) -> Self {
        Self { skip, ..self }
    }
}

/// The fault that happens to a request.
pub(super) fn take(planned: &mut Vec<Planned>, method: &str, path: &str) -> Option<Fault> {
    let fits = |one: &Planned| {
        one.method.is_none_or(|wanted| wanted == method) && path.contains(one.path.as_str())
    };
    let at = planned.iter().position(fits)?;
    let one = planned.get_mut(at)?;
    if one.skip > 0 {
        one.skip -= 1;
        return None;
    }
    one.times = one.times.saturating_sub(1);
    let fault = one.fault.clone();
    if one.times == 0 {
        planned.remove(at);
    }
    Some(fault)
}
