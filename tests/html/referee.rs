//! html5ever as the referee. Its tokenizer is steered by its own tree builder with scripting off,
//! and tells which start tags a page has. The tree itself is not built.

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use html5ever::tree_builder::{
    ElementFlags, NodeOrText, QuirksMode, TreeBuilder, TreeBuilderOpts, TreeSink,
};
use html5ever::{Attribute, ExpandedName, QualName};
use nephila::proto::html::{LinkKind, Rel, refresh_url};
use std::borrow::Cow;
use std::cell::RefCell;

/// A link in the form in which links are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub kind: LinkKind,
    pub href: String,
    pub nofollow: bool,
}

/// Returns all links of a page, in the order of the page.
pub fn links(page: &str) -> Vec<Found> {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let recorder =
        Recorder { tree: TreeBuilder::new(Names::default(), options), found: RefCell::default() };
    let tokenizer = Tokenizer::new(recorder, Default::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(page));
    // The end tag of a script returns control to the caller. No script is run.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    tokenizer.sink.found.into_inner()
}

struct Recorder {
    tree: TreeBuilder<usize, Names>,
    found: RefCell<Vec<Found>>,
}

impl TokenSink for Recorder {
    type Handle = usize;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<usize> {
        if let Token::TagToken(tag) = &token
            && tag.kind == TagKind::StartTag
        {
            self.found.borrow_mut().extend(link_of(&tag.name, &tag.attrs));
        }
        self.tree.process_token(token, line)
    }

    fn end(&self) {
        self.tree.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.tree.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

fn link_of(name: &str, attributes: &[Attribute]) -> Option<Found> {
    let raw = |wanted: &str| {
        let found = attributes.iter().find(|attribute| &*attribute.name.local == wanted);
        found.map(|attribute| &*attribute.value)
    };
    let value = |wanted: &str| raw(wanted).map(str::trim_ascii);
    let (kind, href) = match name {
        "a" => (LinkKind::Anchor, value("href")?),
        "area" => (LinkKind::Area, value("href")?),
        "link" => (LinkKind::Link, value("href")?),
        "iframe" => (LinkKind::Iframe, value("src")?),
        "frame" => (LinkKind::Frame, value("src")?),
        "meta" if raw("http-equiv")?.eq_ignore_ascii_case("refresh") => {
            let url = refresh_url(value("content")?.as_bytes())?;
            (LinkKind::Refresh, std::str::from_utf8(url).expect("a part of a str").trim_ascii())
        }
        _ => return None,
    };
    let rel = Rel::parse(value("rel").unwrap_or("").as_bytes());
    Some(Found { kind, href: href.to_owned(), nofollow: rel.has(Rel::NOFOLLOW) })
}

/// A tree that keeps only the names of its elements. A handle is an index.
#[derive(Default)]
struct Names(RefCell<Vec<Option<&'static QualName>>>);

impl Names {
    fn add(&self, name: Option<&'static QualName>) -> usize {
        let mut names = self.0.borrow_mut();
        names.push(name);
        names.len()
    }
}

impl TreeSink for Names {
    type Handle = usize;
    type Output = ();
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) {}

    fn get_document(&self) -> usize {
        0
    }

    fn get_template_contents(&self, _target: &usize) -> usize {
        self.add(None)
    }

    fn same_node(&self, left: &usize, right: &usize) -> bool {
        left == right
    }

    fn elem_name(&self, target: &usize) -> ExpandedName<'_> {
        self.0.borrow()[*target - 1].expect("only elements are asked for their names").expanded()
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> usize {
        // The trait wants names that outlive the cell's borrow. A test may leak them.
        self.add(Some(Box::leak(Box::new(name))))
    }

    fn create_comment(&self, _text: StrTendril) -> usize {
        self.add(None)
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> usize {
        self.add(None)
    }

    fn append_before_sibling(&self, _sibling: &usize, _new: NodeOrText<usize>) {}
    fn append_based_on_parent_node(&self, _: &usize, _: &usize, _: NodeOrText<usize>) {}
    fn parse_error(&self, _message: Cow<'static, str>) {}
    fn set_quirks_mode(&self, _mode: QuirksMode) {}
    fn append(&self, _parent: &usize, _child: NodeOrText<usize>) {}
    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}
    fn add_attrs_if_missing(&self, _target: &usize, _attributes: Vec<Attribute>) {}
    fn remove_from_parent(&self, _target: &usize) {}
    fn reparent_children(&self, _node: &usize, _new_parent: &usize) {}
    fn mark_script_already_started(&self, _node: &usize) {}
}
