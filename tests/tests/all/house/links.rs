//! Links between documents: every target exists.

use std::fs;

use regex::Regex;

use super::{files, none, shown, top};

#[test]
fn relative_links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut documents = files("docs", &[".md"]);
    documents.extend(files("charts", &[".md"]));
    documents.push(top().join("README.md"));
    let mut dead = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for found in link.captures_iter(&text) {
            let target = found[1].split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !document.parent().unwrap().join(target).exists() {
                dead.push(format!("{} -> {target}", shown(&document)));
            }
        }
    }
    none("dead links", dead);
}
