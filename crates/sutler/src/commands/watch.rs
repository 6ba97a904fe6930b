//! `sutler watch`: the fleet, live. Nothing is polled: the page is drawn anew when something changed.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    time::Duration,
};

use clap::Args;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    client::{
        api::{JSON, Query},
        watch::{self, Event, Watch},
    },
    clock,
    error::Error,
    output::fleet::{Fleet, Part, line},
    session::Session,
    ui::{self, Ui},
};

/// The least time between two drawings, however much happens.
const FRAME: Duration = Duration::from_millis(100);
/// A page of its own, which leaves what was on the screen as it is.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Flags of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only machines with these labels, as in app=web,tier!=db
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
}

/// Shows the fleet until it is interrupted.
pub(crate) async fn run(session: &Session, args: &WatchArgs, ui: &Ui) -> Result<(), Error> {
    let live = io::stdout().is_terminal();
    let view = View { fleet: RefCell::default(), told: RefCell::default(), changed: Notify::new() };
    let feeds = async {
        let [providers, machines, operations] =
            Part::ALL.map(|part| feed(session, args, part, &view, (!live).then_some(ui)));
        futures::try_join!(providers, machines, operations).map(drop)
    };
    let draw = async {
        if !live {
            return std::future::pending().await;
        }
        loop {
            view.changed.notified().await;
            let mut lines = view.fleet.borrow().page(args.all_namespaces, clock::now(), ui.color);
            lines.truncate(ui::height().saturating_sub(1));
            let width = ui::width();
            let page: String =
                lines.iter().map(|line| format!("{}\x1b[K\n", ui::fit(line, width))).collect();
            ui.print(&format!("\x1b[H{page}\x1b[J"))?;
            tokio::time::sleep(FRAME).await;
        }
    };
    if live {
        ui.print(ENTER)?;
    }
    let result = tokio::select! {
        result = feeds => result,
        result = draw => result,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    if live {
        ui.print(LEAVE)?;
    }
    result
}

struct View {
    fleet: RefCell<Fleet>,
    /// What was last told of each object, where lines are printed.
    told: RefCell<BTreeMap<(Part, String), String>>,
    changed: Notify,
}

/// Keeps one part of the fleet up to date.
async fn feed(
    session: &Session,
    args: &WatchArgs,
    part: Part,
    view: &View,
    lines: Option<&Ui>,
) -> Result<(), Error> {
    let discovery = session.discovery().await?;
    let resource = discovery.find(part.kind())?.into_iter().next().cloned();
    let Some(resource) = resource else { return Ok(()) };
    let path = resource.path(session.scope(&resource, args.all_namespaces));
    let selector = args.selector.clone().filter(|_| part == Part::Machines);
    let query = Query::default().maybe("labelSelector", selector);
    loop {
        let mut list = watch::list(&session.api, &path, &query, JSON).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        if let Some(ui) = lines {
            for item in &items {
                view.tell(part, item, ui)?;
            }
        }
        view.fleet.borrow_mut().replace(part, items);
        view.changed.notify_one();
        let mut watch = Watch::new(&session.api, &path, &query, JSON, &version);
        loop {
            match watch.next().await? {
                Event::Present(object) => {
                    if let Some(ui) = lines {
                        view.tell(part, &object, ui)?;
                    }
                    view.fleet.borrow_mut().put(part, object);
                }
                Event::Gone(object) => {
                    if let Some(ui) = lines {
                        view.tell_gone(part, &object, ui)?;
                    }
                    view.fleet.borrow_mut().remove(part, &object);
                }
                Event::Expired => break,
            }
            view.changed.notify_one();
        }
    }
}

impl View {
    fn tell(&self, part: Part, object: &Value, ui: &Ui) -> Result<(), Error> {
        let text = line(part, object, clock::now());
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let old = self.told.borrow_mut().insert((part, uid), text.clone());
        if old.as_ref() != Some(&text) {
            ui.line(&text)?;
        }
        Ok(())
    }

    fn tell_gone(&self, part: Part, object: &Value, ui: &Ui) -> Result<(), Error> {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.told.borrow_mut().remove(&(part, uid));
        let text = line(part, object, clock::now());
        let words: Vec<&str> = text.split(' ').take(2).collect();
        ui.line(&format!("{} gone", words.join(" ")))?;
        Ok(())
    }
}
