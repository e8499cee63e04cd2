//! Pages as lists of marks, and the structure that gives them their meaning.
//!
//! Everything is placed before anything is painted, because only then the number of pages is known. Text for screen
//! readers belongs to a node of the structure; a mark without a node is decoration.

use super::{
    fonts,
    style::{Color, PAGE, TextStyle},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StructureNode(usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind {
    Document,
    Title(&'static str),
    Heading(&'static str),
    Paragraph,
    Table,
    Row,
    HeaderCell,
    Cell,
}

/// A child of a node, in reading order.
#[derive(Debug, Clone, Copy)]
pub(super) enum NodeChild {
    Node(StructureNode),
    /// A mark, by its page and its index there.
    Mark(usize, usize),
}

#[derive(Debug)]
pub(super) enum PageMark {
    Text { x: f32, y: f32, text: String, style: TextStyle, is_decoration: bool },
    Rectangle { x: f32, y: f32, width: f32, height: f32, radius: f32, color: Color },
}

#[derive(Debug)]
pub(super) struct NodeBranch {
    pub(super) kind: NodeKind,
    pub(super) children: Vec<NodeChild>,
}

#[derive(Debug)]
pub(super) struct DocumentSheets {
    pub(super) pages: Vec<Vec<PageMark>>,
    branches: Vec<NodeBranch>,
}

impl DocumentSheets {
    pub(super) const ROOT: StructureNode = StructureNode(0);

    pub(super) fn new() -> Self {
        Self { pages: vec![Vec::new()], branches: vec![NodeBranch { kind: NodeKind::Document, children: Vec::new() }] }
    }

    pub(super) fn start_page(&mut self) {
        self.pages.push(Vec::new());
    }

    /// Adds a node as the last child of `parent`.
    pub(super) fn open(&mut self, parent: StructureNode, kind: NodeKind) -> StructureNode {
        let node = StructureNode(self.branches.len());
        self.branches.push(NodeBranch { kind, children: Vec::new() });
        self.branches[parent.0].children.push(NodeChild::Node(node));
        node
    }

    pub(super) fn branch(&self, node: StructureNode) -> &NodeBranch {
        &self.branches[node.0]
    }

    /// Writes text on the last page, beginning at x.
    pub(super) fn text(&mut self, node: StructureNode, x: f32, y: f32, text: &str, style: TextStyle) {
        let page = self.pages.len() - 1;
        let mark = NodeChild::Mark(page, self.pages[page].len());
        self.branches[node.0].children.push(mark);
        self.pages[page].push(PageMark::Text { x, y, text: text.to_owned(), style, is_decoration: false });
    }

    /// Writes text on the last page, ending at x.
    pub(super) fn text_to(&mut self, node: StructureNode, x: f32, y: f32, text: &str, style: TextStyle) {
        self.text(node, x - measure(text, style), y, text, style);
    }

    /// Writes text outside of the structure, such as the parts repeated on each page.
    pub(super) fn decoration(&mut self, page: usize, x: f32, y: f32, text: &str, style: TextStyle) {
        self.pages[page].push(PageMark::Text { x, y, text: text.to_owned(), style, is_decoration: true });
    }

    pub(super) fn rectangle(&mut self, x: f32, y: f32, (width, height): (f32, f32), radius: f32, color: Color) {
        if let Some(page) = self.pages.last_mut() {
            page.push(PageMark::Rectangle { x, y, width, height, radius, color });
        }
    }

    pub(super) fn rule(&mut self, from: f32, to: f32, y: f32, thickness: f32, color: Color) {
        self.rectangle(from, y, (to - from, thickness), 0.0, color);
    }

    /// Fills the upper edge of the last page.
    pub(super) fn band(&mut self, height: f32, color: Color) {
        self.rectangle(0.0, 0.0, (PAGE.0, height), 0.0, color);
    }
}

/// Returns the width of a text, in points.
pub(super) fn measure(text: &str, style: TextStyle) -> f32 {
    fonts::width(text, style.weight) * style.size
}
