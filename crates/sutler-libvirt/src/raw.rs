//! Calls that the binding lacks: events, the end of a connection, and leases. All unsafe code of this
//! crate is here.
#![expect(unsafe_code, reason = "the binding has no safe way to these calls")]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::OnceLock,
};

use tokio::sync::mpsc::UnboundedSender;
use uuid::Uuid;
use virt::{
    connect::Connect,
    error::{Error, ErrorNumber, ErrorNumberEnum},
    network::Network,
};
use virt_sys as sys;

/// What a connection tells by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Something about this domain has changed, and it may be gone.
    Touched(Uuid),
    /// The connection has ended.
    Closed,
}

/// An address that a network has given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) mac: String,
    pub(crate) ip: String,
    pub(crate) hostname: Option<String>,
}

/// Starts the loop that events, keepalive and streams need, once in the life of the process and before
/// the first connection.
pub(crate) fn start_loop() -> Result<(), String> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // Errors come back as values: nothing has to be printed on top.
            virt::error::clear_error_callback();
            // SAFETY: called once, before any connection is opened.
            if unsafe { sys::virInitialize() } < 0
                || unsafe { sys::virEventRegisterDefaultImpl() } < 0
            {
                return Err(Error::last_error().message().to_owned());
            }
            let run = || loop {
                // SAFETY: the implementation was registered above, and this is its only loop.
                if unsafe { sys::virEventRunDefaultImpl() } < 0 {
                    tracing::error!("libvirt's event loop: {}", Error::last_error().message());
                    std::thread::sleep(std::time::Duration::from_secs(1));
                }
            };
            let thread = std::thread::Builder::new().name("libvirt-events".to_owned());
            thread.spawn(run).map(drop).map_err(|error| error.to_string())
        })
        .clone()
}

/// Events of a connection, until it is dropped.
pub(crate) struct Listening {
    connect: Connect,
    callbacks: Vec<c_int>,
    closing: bool,
}

/// Events that say that a domain is to be looked at, each with the shape of its callback.
const EVENTS: [(sys::virDomainEventID, sys::virConnectDomainEventGenericCallback); 8] = [
    (sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE, two(pair)),
    (sys::VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, two(pair)),
    (sys::VIR_DOMAIN_EVENT_ID_REBOOT, Some(plain)),
    (sys::VIR_DOMAIN_EVENT_ID_DEVICE_ADDED, text(named)),
    (sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, text(named)),
    (sys::VIR_DOMAIN_EVENT_ID_METADATA_CHANGE, kind(noted)),
    (sys::VIR_DOMAIN_EVENT_ID_BLOCK_JOB_2, job(worked)),
    (sys::VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE, long(sized)),
];

impl Listening {
    /// Sends what the connection tells to `sink`. Drivers that lack a kind of event do without it.
    pub(crate) fn begin(connect: &Connect, sink: &UnboundedSender<Signal>) -> Result<Self, Error> {
        let mut listening =
            Self { connect: connect.clone(), callbacks: Vec::new(), closing: false };
        let mut first = None;
        for (event, callback) in EVENTS {
            let opaque = Box::into_raw(Box::new(sink.clone())).cast::<c_void>();
            // SAFETY: the pointer is valid while the connection is held; `opaque` is a sender that
            // `free` takes back when the callback is deregistered.
            let id = unsafe {
                sys::virConnectDomainEventRegisterAny(
                    connect.as_ptr(),
                    ptr::null_mut(),
                    event as c_int,
                    callback,
                    opaque,
                    Some(free),
                )
            };
            if id < 0 {
                first.get_or_insert_with(Error::last_error);
                // SAFETY: it was not registered, so nobody else has it.
                unsafe { free(opaque) };
            } else {
                listening.callbacks.push(id);
            }
        }
        if let (true, Some(error)) = (listening.callbacks.is_empty(), first) {
            return Err(error);
        }
        let opaque = Box::into_raw(Box::new(sink.clone())).cast::<c_void>();
        // SAFETY: as above. Drivers within this process have no connection that could end.
        let closing = unsafe {
            sys::virConnectRegisterCloseCallback(connect.as_ptr(), Some(closed), opaque, Some(free))
        };
        listening.closing = closing >= 0;
        if !listening.closing {
            // SAFETY: it was not registered, so nobody else has it.
            unsafe { free(opaque) };
        }
        Ok(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for id in &self.callbacks {
            // SAFETY: the ID came from this connection, which is held here.
            unsafe { sys::virConnectDomainEventDeregisterAny(self.connect.as_ptr(), *id) };
        }
        if self.closing {
            // SAFETY: it was registered on this connection.
            unsafe { sys::virConnectUnregisterCloseCallback(self.connect.as_ptr(), Some(closed)) };
        }
    }
}

/// Addresses that a network has given out.
pub(crate) fn leases(network: &Network) -> Result<Vec<Lease>, Error> {
    let mut found: *mut sys::virNetworkDHCPLeasePtr = ptr::null_mut();
    // SAFETY: the network is held, and `found` is where the answer goes.
    let count =
        unsafe { sys::virNetworkGetDHCPLeases(network.as_ptr(), ptr::null(), &mut found, 0) };
    let Ok(count) = usize::try_from(count) else { return Err(Error::last_error()) };
    let mut leases = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: libvirt gave `count` leases, which are ours to read and to free.
        unsafe {
            let lease = *found.add(index);
            if let (Some(mac), Some(ip)) = (owned((*lease).mac), owned((*lease).ipaddr)) {
                let hostname = owned((*lease).hostname);
                leases.push(Lease { mac: mac.to_lowercase(), ip, hostname });
            }
            sys::virNetworkDHCPLeaseFree(lease);
        }
    }
    // SAFETY: the array itself was allocated for us.
    unsafe { libc::free(found.cast()) };
    Ok(leases)
}

/// Begins to copy disks of a domain that runs, as they are now.
pub(crate) fn begin_backup(domain: &virt::domain::Domain, xml: &str) -> Result<(), Error> {
    // Our XML holds no zero byte: it is left out of all text.
    let xml = std::ffi::CString::new(xml).unwrap_or_default();
    // SAFETY: the domain is held, and the text lives through the call.
    match unsafe { sys::virDomainBackupBegin(domain.as_ptr(), xml.as_ptr(), ptr::null(), 0) } {
        0 => Ok(()),
        _ => Err(Error::last_error()),
    }
}

/// Whether disks of a domain are still being copied. Asking how far that has come instead is what libvirt
/// 9.0 dies of when it ends at that moment.
pub(crate) fn is_backed_up(domain: &virt::domain::Domain) -> Result<bool, Error> {
    // SAFETY: the domain is held.
    let xml = unsafe { sys::virDomainBackupGetXMLDesc(domain.as_ptr(), 0) };
    if !xml.is_null() {
        // SAFETY: the text was allocated for us.
        unsafe { libc::free(xml.cast()) };
        return Ok(true);
    }
    let error = Error::last_error();
    match error.code() {
        ErrorNumberEnum::Known(ErrorNumber::NoDomainBackup) => Ok(false),
        _ => Err(error),
    }
}

unsafe fn owned(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: libvirt's texts end with a zero.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

type Domain = sys::virDomainPtr;
type Connection = sys::virConnectPtr;
type Pair = unsafe extern "C" fn(Connection, Domain, c_int, c_int, *mut c_void);
type Named = unsafe extern "C" fn(Connection, Domain, *const c_char, *mut c_void);
type Noted = unsafe extern "C" fn(Connection, Domain, c_int, *const c_char, *mut c_void);
type Worked = unsafe extern "C" fn(Connection, Domain, *const c_char, c_int, c_int, *mut c_void);
type Sized = unsafe extern "C" fn(Connection, Domain, std::ffi::c_ulonglong, *mut c_void);

// libvirt takes callbacks of all shapes as the plain one, and calls each as its event has it.
macro_rules! shapes {
    ($($name:ident: $shape:ty),*) => {$(
        const fn $name(callback: $shape) -> sys::virConnectDomainEventGenericCallback {
            // SAFETY: a pointer to a function stays one; the event's ID says how it is called.
            Some(unsafe { std::mem::transmute::<$shape, unsafe extern "C" fn(Connection, Domain, *mut c_void)>(callback) })
        }
    )*};
}

shapes! { two: Pair, text: Named, kind: Noted, job: Worked, long: Sized }

unsafe extern "C" fn plain(_: Connection, domain: Domain, sink: *mut c_void) {
    // SAFETY: libvirt calls it with a domain and with what was registered.
    unsafe { touched(domain, sink) }
}

unsafe extern "C" fn pair(_: Connection, domain: Domain, _: c_int, _: c_int, sink: *mut c_void) {
    // SAFETY: as above.
    unsafe { touched(domain, sink) }
}

unsafe extern "C" fn named(_: Connection, domain: Domain, _: *const c_char, sink: *mut c_void) {
    // SAFETY: as above.
    unsafe { touched(domain, sink) }
}

unsafe extern "C" fn noted(
    _: Connection,
    domain: Domain,
    _: c_int,
    _: *const c_char,
    sink: *mut c_void,
) {
    // SAFETY: as above.
    unsafe { touched(domain, sink) }
}

unsafe extern "C" fn worked(
    _: Connection,
    domain: Domain,
    _: *const c_char,
    _: c_int,
    _: c_int,
    sink: *mut c_void,
) {
    // SAFETY: as above.
    unsafe { touched(domain, sink) }
}

unsafe extern "C" fn sized(
    _: Connection,
    domain: Domain,
    _: std::ffi::c_ulonglong,
    sink: *mut c_void,
) {
    // SAFETY: as above.
    unsafe { touched(domain, sink) }
}

unsafe extern "C" fn closed(_: Connection, _: c_int, sink: *mut c_void) {
    // SAFETY: `sink` is what was registered.
    let sink = unsafe { &*sink.cast::<UnboundedSender<Signal>>() };
    // Nobody listens any more: nothing is lost.
    drop(sink.send(Signal::Closed));
}

unsafe fn touched(domain: Domain, sink: *mut c_void) {
    let mut uuid = [0_u8; 16];
    // SAFETY: the domain is valid during the callback, and a UUID has 16 bytes.
    if unsafe { sys::virDomainGetUUID(domain, uuid.as_mut_ptr()) } < 0 {
        return;
    }
    // SAFETY: `sink` is what was registered.
    let sink = unsafe { &*sink.cast::<UnboundedSender<Signal>>() };
    drop(sink.send(Signal::Touched(Uuid::from_bytes(uuid))));
}

unsafe extern "C" fn free(sink: *mut c_void) {
    // SAFETY: it came from a box, and is freed once.
    drop(unsafe { Box::from_raw(sink.cast::<UnboundedSender<Signal>>()) });
}
