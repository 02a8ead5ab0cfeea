//! Loading of a whole store, with verification of all data.
//!
//! The newest undamaged generation is used; where none is undamaged, the newest without its damaged parts. A version of
//! an object is a part, and so is a verdict; a configuration is one part as a whole. Data of two generations is never
//! mixed.

use std::collections::BTreeSet;
use std::sync::Arc;

use bincode::Decode;

use super::envelope::{self, EnvelopeFlaw, EnvelopeKind};
use super::error::{SledError, guarded};
use super::form::{ContentPlace, PRODUCT, PageForm, PageTable, RootForm, ScopeForm, StoredContent};
use super::keys::{self, Name};
use super::seal::Sealer;
use super::section::{SectionEntry, SectionPage, StoreSection};
use super::state::{ScopeSections, SledState};
use super::write::references;
use crate::record::{Digest, Scope};

/// Content of a folder.
pub(super) enum FolderContent {
    /// Nothing.
    Empty,
    /// A store of this installation.
    Ours(Box<Loaded>),
    /// Data of another product.
    Foreign,
    /// A store of a newer version, in this schema.
    Newer(u16),
    /// A store of another installation.
    Other(String),
    /// A store without any readable data.
    Damaged,
}

/// A store that was loaded.
pub(super) struct Loaded {
    pub(super) identity: String,
    pub(super) state: SledState,
    /// Messages about damage, for operators. Empty where there is no damage.
    pub(super) damage: Vec<String>,
    /// Whether sled cannot read some of its own files.
    pub(super) files_damaged: bool,
    /// Number of records that cannot be unsealed.
    pub(super) unreadable: usize,
    /// Number of records that were read and verified.
    pub(super) records: usize,
}

/// Loads a store. Where `identity` is given, only a store with this identity is loaded.
pub(super) fn load(
    tree: &::sled::Tree,
    sealer: Option<&Sealer>,
    identity: Option<&str>,
) -> Result<FolderContent, SledError> {
    let roots = keys::roots().map(|name| read_root(tree, &name));
    if roots.iter().all(|root| matches!(root, Err(EnvelopeFlaw::Absent))) {
        let empty = guarded(|| tree.iter().next().transpose().map(|first| first.is_none()))?;
        return Ok(if empty { FolderContent::Empty } else { FolderContent::Foreign });
    }
    let flaws = || roots.iter().filter_map(|root| root.as_ref().err());
    let newer = flaws().find_map(|flaw| if let EnvelopeFlaw::Newer(schema) = flaw { Some(*schema) } else { None });
    if let Some(schema) = newer {
        return Ok(FolderContent::Newer(schema));
    }
    let foreign = flaws().all(|flaw| matches!(flaw, EnvelopeFlaw::Foreign | EnvelopeFlaw::Absent));
    let flawed = flaws().any(|flaw| !matches!(flaw, EnvelopeFlaw::Absent));
    let files_damaged = flaws().any(|flaw| matches!(flaw, EnvelopeFlaw::Unreadable));
    let mut roots: Vec<RootForm> = roots.into_iter().flatten().collect();
    roots.sort_by_key(|root| std::cmp::Reverse(root.generation));
    let Some(newest) = roots.first() else {
        return Ok(if foreign { FolderContent::Foreign } else { FolderContent::Damaged });
    };
    if let Some(identity) = identity.filter(|identity| **identity != newest.identity) {
        let _ = identity;
        return Ok(FolderContent::Other(newest.identity.clone()));
    }
    let mut readings = roots.iter().map(|root| RootReading::of(tree, sealer, root));
    let Some(first) = readings.next() else { return Ok(FolderContent::Damaged) };
    let newest = first.state.generation;
    let mut loaded = first.loaded();
    if !loaded.damage.is_empty()
        && let Some(older) = readings.next()
    {
        let older = older.loaded();
        if older.damage.is_empty() {
            let mut damage = loaded.damage;
            damage.push(format!(
                "generation {newest} is damaged: generation {} is used, as a whole",
                older.state.generation
            ));
            let files_damaged = loaded.files_damaged;
            loaded = Loaded { damage, files_damaged, ..older };
        }
    }
    if flawed {
        let generation = loaded.state.generation;
        loaded.damage.push(format!("one of the two last generations cannot be read: {generation} is used"));
    }
    loaded.files_damaged |= files_damaged;
    Ok(FolderContent::Ours(Box::new(loaded)))
}

/// Returns the records in the tree that no generation names, or only the previous one. Reads names, not payloads.
pub(super) fn unnamed(tree: &::sled::Tree, state: &SledState) -> Result<BTreeSet<Name>, SledError> {
    let mut named = BTreeSet::new();
    for (scope, shelf) in &state.scopes {
        references(scope, &shelf.objects, &mut named);
        references(scope, &shelf.resources, &mut named);
        references(scope, &shelf.verdicts, &mut named);
    }
    let mut unnamed = BTreeSet::new();
    for key in tree.iter().keys() {
        let key = guarded(|| key)?;
        let whole = match key.first() {
            Some(b'n') => key.get(..33),
            Some(b'c') => key.get(..33),
            _ => None,
        };
        if let Some(name) = whole
            && !named.contains(name)
        {
            unnamed.insert(name.to_vec());
        }
    }
    Ok(unnamed)
}

/// Reads and verifies a payload. Returns `None` where the payload is sealed and cannot be unsealed.
pub(super) fn payload(
    tree: &::sled::Tree,
    sealer: Option<&Sealer>,
    name: &[u8],
    content: &StoredContent,
) -> Result<Option<Vec<u8>>, EnvelopeFlaw> {
    let kind = if content.sensitive { EnvelopeKind::Sealed } else { EnvelopeKind::Content };
    let (bytes, _) = envelope::read(name, kind, &get(tree))?;
    let (payload, digest) = match (content.sensitive, sealer) {
        (false, _) => {
            let digest = Digest::of(&bytes);
            (bytes, digest)
        }
        (true, None) => return Ok(None),
        (true, Some(sealer)) => match sealer.unseal(name, &bytes) {
            // The envelope is undamaged, so the key is a different one.
            None => return Ok(None),
            Some(payload) => {
                let digest = sealer.digest(&payload);
                (payload, digest)
            }
        },
    };
    if digest == content.digest && payload.len() as u64 == content.bytes {
        Ok(Some(payload))
    } else {
        Err(EnvelopeFlaw::Damaged)
    }
}

fn get(tree: &::sled::Tree) -> impl Fn(&[u8]) -> Result<Option<::sled::IVec>, SledError> {
    |name| guarded(|| tree.get(name))
}

fn read_root(tree: &::sled::Tree, name: &[u8]) -> Result<RootForm, EnvelopeFlaw> {
    let (bytes, _) = envelope::read(name, EnvelopeKind::Root, &get(tree))?;
    let root: RootForm = envelope::decode(&bytes).ok_or(EnvelopeFlaw::Damaged)?;
    if root.product != PRODUCT {
        return Err(EnvelopeFlaw::Foreign);
    }
    // A root under the name of another generation is not the root that was written there.
    if keys::root(root.generation) == name { Ok(root) } else { Err(EnvelopeFlaw::Damaged) }
}

/// A generation while it is read.
struct RootReading<'a> {
    tree: &'a ::sled::Tree,
    sealer: Option<&'a Sealer>,
    identity: String,
    state: SledState,
    damage: Vec<String>,
    files_damaged: bool,
    unreadable: usize,
    records: usize,
}

impl<'a> RootReading<'a> {
    fn of(tree: &'a ::sled::Tree, sealer: Option<&'a Sealer>, root: &RootForm) -> Self {
        let state = SledState { generation: root.generation, ..SledState::default() };
        let identity = root.identity.clone();
        let mut reading =
            Self { tree, sealer, identity, state, damage: Vec::new(), files_damaged: false, unreadable: 0, records: 1 };
        root.scopes.iter().for_each(|form| reading.scope(form));
        reading
    }

    fn loaded(self) -> Loaded {
        let Self { identity, state, damage, files_damaged, unreadable, records, .. } = self;
        Loaded { identity, state, damage, files_damaged, unreadable, records }
    }

    fn scope(&mut self, form: &ScopeForm) {
        let scope = Scope { gateway: form.gateway.clone(), build: form.build.clone() };
        let [objects, resources, verdicts] = form.tables;
        let (mut objects, _) = self.section(&scope, objects);
        self.verify(&scope, &mut objects);
        let (mut resources, whole) = self.section(&scope, resources);
        let sound = self.verify(&scope, &mut resources);
        if !(whole && sound) {
            // No Envoy has acknowledged a part of a configuration.
            self.report(&scope, "its configuration is left out as a whole");
            resources.retain(|_, _| false);
        }
        let (verdicts, _) = self.section(&scope, verdicts);
        let shelf = ScopeSections { objects, resources, verdicts };
        self.state.scopes.insert(scope, Arc::new(shelf));
    }

    fn section<E: SectionEntry>(&mut self, scope: &Scope, node: Option<[u8; 32]>) -> (StoreSection<E>, bool) {
        let mut section = StoreSection::default();
        let Some(digest) = node.map(Digest::from_bytes) else { return (section, true) };
        let Some(table) = self.node::<PageTable>(scope, EnvelopeKind::Table, &digest) else {
            section.dirty = true;
            return (section, false);
        };
        section.node = Some(digest);
        let place = keys::place(E::SECTION, scope, &[]);
        for (number, digest) in table.pages {
            let digest = Digest::from_bytes(digest);
            let form = self.node::<PageForm<E::Form>>(scope, EnvelopeKind::Page, &digest);
            let Some(form) = form.filter(|form| form.place == place) else {
                section.dirty = true;
                continue;
            };
            let entries = form.entries.into_iter().map(E::from_form).collect();
            section.pages.insert(number, Arc::new(SectionPage::new(entries, Some(digest), false)));
        }
        let whole = !section.dirty;
        (section, whole)
    }

    fn node<T: Decode<()>>(&mut self, scope: &Scope, kind: EnvelopeKind, digest: &Digest) -> Option<T> {
        match envelope::read(&keys::node(digest), kind, &get(self.tree)) {
            Ok((bytes, _)) if Digest::of(&bytes) == *digest => {
                self.records += 1;
                let form = envelope::decode(&bytes);
                if form.is_none() {
                    self.report(scope, "a page cannot be decoded");
                }
                form
            }
            Ok(_) => {
                self.report(scope, "a page is not the one that was written");
                None
            }
            Err(flaw) => {
                self.flawed(scope, "a page", &flaw);
                None
            }
        }
    }

    /// Reads every payload and removes the damaged ones. Returns whether all were undamaged.
    fn verify<E: SectionEntry>(&mut self, scope: &Scope, section: &mut StoreSection<E>) -> bool {
        let mut sound = true;
        section.retain(|key, content| match payload(self.tree, self.sealer, &E::name(scope, key, content), content) {
            Ok(Some(_)) => {
                self.records += 1;
                true
            }
            Ok(None) => {
                self.records += 1;
                self.unreadable += 1;
                content.place = ContentPlace::Unreadable;
                true
            }
            Err(flaw) => {
                sound = false;
                self.flawed(scope, "a record", &flaw);
                false
            }
        });
        sound
    }

    fn flawed(&mut self, scope: &Scope, what: &str, flaw: &EnvelopeFlaw) {
        self.files_damaged |= *flaw == EnvelopeFlaw::Unreadable;
        let how = match flaw {
            EnvelopeFlaw::Absent => "is missing",
            EnvelopeFlaw::Unreadable => "cannot be read",
            EnvelopeFlaw::Foreign | EnvelopeFlaw::Newer(_) | EnvelopeFlaw::Damaged => "is damaged",
        };
        self.report(scope, &format!("{what} {how}"));
    }

    fn report(&mut self, scope: &Scope, what: &str) {
        let line = format!("{}, build {}: {what}", scope.gateway, scope.build);
        if !self.damage.contains(&line) {
            self.damage.push(line);
        }
    }
}
