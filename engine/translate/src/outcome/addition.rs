//! What an HTTPProxy adds to the routes of its host or of an include: the policies of a virtual host, and the conditions
//! of an include. As a policy does, it applies to routes of other objects, so that attribution distinguishes it from
//! these routes.

use std::sync::OnceLock;

use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::model::Route;
use holdfast_graph::{Content, Node};
use holdfast_xds::Version;

use super::route::Rendered;

/// An addition to routes, as content that an Envoy can refuse. The content is computed on first use.
#[derive(Debug)]
pub struct Addition {
    /// The unit that adds it: a policy of the virtual host, or an include.
    pub(crate) node: Node,
    /// A route with the addition and nothing else.
    pub(crate) route: Route,
    content: OnceLock<Content>,
}

impl Addition {
    pub(crate) fn new(node: Node, route: Route) -> Self {
        Self { node, route, content: OnceLock::new() }
    }

    /// Returns a route with the addition and nothing else.
    pub fn trial(&self) -> Rendered {
        Rendered::new(self.route.clone())
    }

    /// Returns the content.
    pub(super) fn content(&self) -> Content {
        *self.content.get_or_init(|| {
            let (bytes, _) = self.trial().encoded(ListenerContext { https: false, port: 0 });
            let name = format!("{} adds {}: ", self.node.key, self.node.section);
            let text: Vec<u8> = name.bytes().chain(bytes).collect();
            Content(*Version::of(&text).as_bytes())
        })
    }
}

/// Contents are derived from the other fields.
impl PartialEq for Addition {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && self.route == other.route
    }
}
