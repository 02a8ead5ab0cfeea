//! Writes of a commit: the difference between two states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::envelope::{self, EnvelopeKind};
use super::error::SledError;
use super::form::{PRODUCT, PageForm, PageTable, RootForm, ScopeForm};
use super::keys::{self, Name};
use super::seal::Sealer;
use super::section::{SectionEntry, SectionPage, StoreSection};
use super::state::{Fresh, ScopeSections, SledState};
use crate::record::{Digest, Scope};

/// Records that are written and removed.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) puts: Vec<(Name, Vec<u8>)>,
    /// Records that the new generation does not name any more; the previous one still does.
    pub(super) dropped: BTreeSet<Name>,
    /// Records that this commit names and the previous generation does not.
    pub(super) added: BTreeSet<Name>,
}

/// Computes the difference between the old and the new state, and records in the new one the names of its written
/// pages.
pub(super) fn difference(
    old: &SledState,
    new: &mut SledState,
    fresh: &Fresh,
    identity: &str,
    sealer: Option<&Sealer>,
) -> Result<Writes, SledError> {
    let mut writes = Writes::default();
    let generation = new.generation;
    let nothing = Arc::new(ScopeSections::default());
    for (scope, shelf) in &mut new.scopes {
        let before = old.scopes.get(scope).unwrap_or(&nothing);
        if !Arc::ptr_eq(before, shelf) || shelf.is_dirty() {
            let shelf = Arc::make_mut(shelf);
            let mut at = At { scope, generation, fresh, sealer, writes: &mut writes };
            at.section(&before.objects, &mut shelf.objects)?;
            at.section(&before.resources, &mut shelf.resources)?;
            at.section(&before.verdicts, &mut shelf.verdicts)?;
        }
    }
    for (scope, shelf) in old.scopes.iter().filter(|(scope, _)| !new.scopes.contains_key(*scope)) {
        references(scope, &shelf.objects, &mut writes.dropped);
        references(scope, &shelf.resources, &mut writes.dropped);
        references(scope, &shelf.verdicts, &mut writes.dropped);
    }
    let scopes = new.scopes.iter().map(|(scope, shelf)| ScopeForm {
        gateway: scope.gateway.clone(),
        build: scope.build.clone(),
        tables: [shelf.objects.node, shelf.resources.node, shelf.verdicts.node].map(|node| node.map(|it| *it.bytes())),
    });
    let root = RootForm { product: PRODUCT.into(), identity: identity.into(), generation, scopes: scopes.collect() };
    let root = envelope::encode(&root)?;
    writes.puts.extend(envelope::wrap(keys::root(generation), EnvelopeKind::Root, generation, root)?);
    Ok(writes)
}

/// Adds the names of the records of a section.
pub(super) fn references<E: SectionEntry>(scope: &Scope, section: &StoreSection<E>, names: &mut BTreeSet<Name>) {
    names.extend(section.node.iter().map(keys::node));
    section.pages.values().for_each(|page| page_references(scope, page, names));
}

fn page_references<E: SectionEntry>(scope: &Scope, page: &SectionPage<E>, names: &mut BTreeSet<Name>) {
    names.extend(page.node.iter().map(keys::node));
    for (key, entry) in &page.entries {
        let contents = entry.contents().into_iter().filter(|content| content.on_disk());
        names.extend(contents.map(|content| E::name(scope, key, content)));
    }
}

/// One scope of a commit.
struct At<'a> {
    scope: &'a Scope,
    generation: u64,
    fresh: &'a Fresh,
    sealer: Option<&'a Sealer>,
    writes: &'a mut Writes,
}

impl At<'_> {
    fn section<E: SectionEntry>(&mut self, old: &StoreSection<E>, new: &mut StoreSection<E>) -> Result<(), SledError> {
        if !new.dirty {
            return Ok(());
        }
        let pages: BTreeSet<u8> = old.pages.keys().chain(new.pages.keys()).copied().collect();
        for number in pages {
            let before = old.pages.get(&number);
            let after = new.pages.get_mut(&number);
            if let (Some(before), Some(after)) = (before, &after)
                && Arc::ptr_eq(before, after)
                && !after.dirty
            {
                continue;
            }
            self.page(before, after.map(Arc::make_mut))?;
        }
        new.pages.retain(|_, page| !page.entries.is_empty());
        let written = new.pages.iter().filter_map(|(number, page)| Some((*number, *page.node?.bytes())));
        let table = PageTable { pages: written.collect() };
        new.node = match table.pages.is_empty() {
            true => None,
            false => Some(self.node(EnvelopeKind::Table, envelope::encode(&table)?)?),
        };
        new.dirty = false;
        if old.node != new.node {
            self.moved(old.node.iter().map(keys::node).collect(), new.node.iter().map(keys::node).collect());
        }
        Ok(())
    }

    fn page<E: SectionEntry>(
        &mut self,
        old: Option<&Arc<SectionPage<E>>>,
        new: Option<&mut SectionPage<E>>,
    ) -> Result<(), SledError> {
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        if let Some(old) = old {
            page_references(self.scope, old, &mut before);
        }
        if let Some(page) = new {
            if page.dirty {
                let entries: Vec<_> = page.entries.iter().filter_map(|(key, entry)| entry.form(key)).collect();
                page.node = match entries.is_empty() {
                    true => None,
                    false => {
                        let place = keys::place(E::SECTION, self.scope, &[]);
                        Some(self.node(EnvelopeKind::Page, envelope::encode(&PageForm { place, entries })?)?)
                    }
                };
                page.dirty = false;
            }
            page_references(self.scope, page, &mut after);
            let sealed = sealed(self.scope, page);
            for name in after.difference(&before).filter(|name| name.first() == Some(&b'c')) {
                self.content(name, *sealed.get(name).unwrap_or(&true))?;
            }
        }
        self.moved(before, after);
        Ok(())
    }

    fn moved(&mut self, before: BTreeSet<Name>, after: BTreeSet<Name>) {
        self.writes.dropped.extend(before.difference(&after).cloned());
        self.writes.added.extend(after.difference(&before).cloned());
    }

    fn node(&mut self, kind: EnvelopeKind, bytes: Vec<u8>) -> Result<Digest, SledError> {
        let digest = Digest::of(&bytes);
        self.writes.puts.extend(envelope::wrap(keys::node(&digest), kind, self.generation, bytes)?);
        Ok(digest)
    }

    fn content(&mut self, name: &Name, sealed: bool) -> Result<(), SledError> {
        let Some(payload) = self.fresh.payloads.get(name) else {
            return Err(SledError::Other(
                "the payload of a record is missing, so that the record cannot be written".into(),
            ));
        };
        let (kind, bytes) = match (sealed, self.sealer) {
            (false, _) => (EnvelopeKind::Content, payload.to_vec()),
            (true, Some(sealer)) => (EnvelopeKind::Sealed, sealer.seal(name, payload)?),
            (true, None) => return Err(SledError::Other("a sensitive payload cannot be written without a key".into())),
        };
        self.writes.puts.extend(envelope::wrap(name.clone(), kind, self.generation, bytes)?);
        Ok(())
    }
}

/// Returns, for each payload of a page, whether it is sealed.
fn sealed<E: SectionEntry>(scope: &Scope, page: &SectionPage<E>) -> BTreeMap<Name, bool> {
    let contents = |(key, entry): (&E::Key, &E)| {
        let name = |content: &super::form::StoredContent| (E::name(scope, key, content), content.sensitive);
        entry.contents().into_iter().map(name).collect::<Vec<_>>()
    };
    page.entries.iter().flat_map(contents).collect()
}
