//! What is still waited for: bars on a terminal, a line per change elsewhere.

use std::{cell::RefCell, collections::BTreeMap};

use serde_json::Value;

use crate::{clock, output::stages, ui::Ui};

/// How many machines are drawn with all their stages.
const DRAWN: usize = 3;

/// How objects stand that are waited for.
#[derive(Default)]
pub(crate) struct Board(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    states: BTreeMap<String, Entry>,
    /// What was last shown, where it is one line.
    shown: String,
}

struct Entry {
    state: String,
    object: Option<Value>,
    /// What was last told of its stages, where lines are printed.
    told: String,
}

impl Board {
    /// Says how an object stands, and shows it where that is news.
    pub(crate) fn set(&self, ui: &Ui, label: &str, state: &str) {
        self.set_object(ui, label, state, None);
    }

    /// The same, with the object itself, whose stages are shown where it has any.
    pub(crate) fn set_object(&self, ui: &Ui, label: &str, state: &str, object: Option<&Value>) {
        let object = object.filter(|object| stages::has(object)).cloned();
        {
            let inner = &mut *self.0.borrow_mut();
            let told = inner.states.remove(label).map(|entry| entry.told).unwrap_or_default();
            let mut entry = Entry { state: state.to_owned(), object, told };
            if !ui.is_live()
                && let Some(object) = &entry.object
            {
                let stage = stages::current(object).unwrap_or_default();
                let line = format!("{label}: {}", [stage.as_str(), state].join(" ").trim());
                if line != entry.told {
                    ui.waiting(&line);
                    entry.told = line;
                }
            }
            inner.states.insert(label.to_owned(), entry);
        }
        self.show(ui);
    }

    /// An object is as wanted.
    pub(crate) fn done(&self, label: &str) {
        self.0.borrow_mut().states.remove(label);
    }

    /// What is left, and how it stands.
    pub(crate) fn left(&self) -> BTreeMap<String, String> {
        let inner = self.0.borrow();
        inner.states.iter().map(|(label, entry)| (label.clone(), entry.state.clone())).collect()
    }

    /// Draws it again, for the times that pass.
    pub(crate) fn tick(&self, ui: &Ui) {
        if ui.is_live() && self.0.borrow().states.values().any(|entry| entry.object.is_some()) {
            self.show(ui);
        }
    }

    fn show(&self, ui: &Ui) {
        let Inner { states, shown } = &mut *self.0.borrow_mut();
        let staged = states.values().any(|entry| entry.object.is_some());
        if staged && ui.is_live() {
            shown.clear();
            ui.block(&blocks(states, ui.err_color()));
            return;
        }
        let plain: Vec<_> = states.iter().filter(|(_, entry)| entry.object.is_none()).collect();
        let Some((label, entry)) = plain.first() else { return };
        let more = match states.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let text = format!("waiting for {label}: {}{more}", entry.state);
        if *shown != text {
            ui.waiting(&text);
            *shown = text;
        }
    }
}

fn blocks(states: &BTreeMap<String, Entry>, color: bool) -> Vec<String> {
    let now = clock::now();
    let mut lines = Vec::new();
    for (label, entry) in states.iter().take(DRAWN) {
        match &entry.object {
            Some(object) => lines.extend(stages::block(label, &entry.state, object, now, color)),
            None => lines.push(format!("{label}: {}", entry.state)),
        }
    }
    if states.len() > DRAWN {
        lines.push(format!("and {} more", states.len() - DRAWN));
    }
    lines
}
