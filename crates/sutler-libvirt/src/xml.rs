//! XML as libvirt takes it and tells it: elements that are put together as values, and escaped when
//! written; documents that are read.

use std::fmt;

use roxmltree::{Document, Node};
use sutler_provider::Error;

/// Reads what libvirt tells.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, Error> {
    Document::parse(text)
        .map_err(|error| Error::unavailable(format!("libvirt's XML cannot be read: {error}")))
}

/// The first element of this name within another.
pub(crate) fn child<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// Its text.
pub(crate) fn text(node: Node<'_, '_>, name: &str) -> Option<String> {
    child(node, name)?.text().map(|text| text.trim().to_owned())
}

/// An element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    inside: Inside,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Inside {
    Elements(Vec<Element>),
    Text(String),
}

/// An element without anything in it.
pub(crate) fn element(name: &'static str) -> Element {
    Element { name, attributes: Vec::new(), inside: Inside::Elements(Vec::new()) }
}

impl Element {
    /// With an attribute.
    pub(crate) fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// With an attribute, where there is a value for it.
    pub(crate) fn with_some(self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// With an element in it.
    pub(crate) fn child(mut self, child: Element) -> Self {
        match &mut self.inside {
            Inside::Elements(children) => children.push(child),
            Inside::Text(_) => self.inside = Inside::Elements(vec![child]),
        }
        self
    }

    /// With elements in it.
    pub(crate) fn children(self, children: impl IntoIterator<Item = Element>) -> Self {
        children.into_iter().fold(self, Self::child)
    }

    /// With text in it, and nothing else.
    pub(crate) fn text(mut self, text: impl fmt::Display) -> Self {
        self.inside = Inside::Text(text.to_string());
        self
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}='{}'", Escaped(value))?;
        }
        match &self.inside {
            Inside::Elements(children) if children.is_empty() => f.write_str("/>"),
            Inside::Elements(children) => {
                f.write_str(">")?;
                children.iter().try_for_each(|child| child.fmt(f))?;
                write!(f, "</{}>", self.name)
            }
            Inside::Text(text) => write!(f, ">{}</{}>", Escaped(text), self.name),
        }
    }
}

/// Text in which nothing is taken for markup. What no XML can hold is left out.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '\'' => f.write_str("&apos;")?,
                '"' => f.write_str("&quot;")?,
                // A line break in an attribute would be read as a space.
                '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(c))?,
                '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_as_xml() {
        let disk = element("disk")
            .with("type", "file")
            .with_some("device", Some("disk"))
            .with_some("cache", None::<&str>)
            .child(element("source").with("file", "/a b.qcow2"))
            .child(element("serial").text("x"));
        assert_eq!(
            disk.to_string(),
            "<disk type='file' device='disk'><source file='/a b.qcow2'/><serial>x</serial></disk>"
        );
    }

    #[test]
    fn nothing_that_is_told_becomes_markup() {
        let nasty = "</name><devices a='1' b=\"2\">&amp;\u{0}\n\t\u{7}é";
        let written = element("name").with("a", nasty).text(nasty).to_string();
        let read = roxmltree::Document::parse(&written).unwrap();
        let kept: String = nasty.chars().filter(|c| !matches!(c, '\0' | '\u{7}')).collect();
        assert_eq!(read.root_element().attribute("a"), Some(kept.as_str()));
        assert_eq!(read.root_element().text(), Some(kept.as_str()));
        assert!(!read.root_element().has_children() || read.root_element().children().count() == 1);
    }
}
