//! Figures of the structure: types, functions, mentions of Envoy's types and of kinds in other crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holdfast_api::apis::KINDS;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Figures, code, shown, vocabulary};

/// Limit in lines of a function, from its signature to its end.
const FUNCTION_LINES_MAX: usize = 70;

/// A source file of the product, without its tests.
pub(super) struct ParsedSource {
    pub(super) name: String,
    code: String,
    pub(super) file: syn::File,
}

impl ParsedSource {
    pub(super) fn read(path: &Path) -> Self {
        let code = code(path);
        let file = syn::parse_file(&code).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name: shown(path), code, file }
    }

    /// Checks whether the file belongs to the engine, outside a folder of it.
    fn is_outside(&self, folder: &str) -> bool {
        self.name.starts_with("engine/") && !self.name.starts_with(folder)
    }

    /// Checks whether the file contains tests, benchmarks, examples or test support.
    pub(super) fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.name.split('/').collect();
        parts.iter().any(|part| ["tests", "tests.rs", "benches", "examples", "testing"].contains(part))
    }

    /// Returns the crate of the file.
    fn member(&self) -> &str {
        let folder = self.name.split("/src/").next().unwrap_or_default();
        folder.rsplit('/').next().unwrap_or_default()
    }
}

fn product(sources: &[ParsedSource]) -> impl Iterator<Item = &ParsedSource> {
    sources.iter().filter(|source| !source.is_test())
}

/// The definitions of one file.
#[derive(Default)]
struct Definitions {
    types: Vec<String>,
    /// Types with an `impl` block that is not of a trait.
    methods: BTreeSet<String>,
    /// Functions with their number of lines.
    functions: Vec<(String, usize)>,
}

impl Definitions {
    fn of(source: &ParsedSource) -> Self {
        let mut definitions = Self::default();
        definitions.visit_file(&source.file);
        definitions
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line + 1 - signature.span().start().line;
        self.functions.push((signature.ident.to_string(), lines));
    }
}

impl<'a> Visit<'a> for Definitions {
    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.types.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty) {
            self.methods.extend(path.path.segments.last().map(|last| last.ident.to_string()));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

/// Returns the types with methods in several files, and the number of files. Types of one crate that share a name count
/// as one, except in a file that defines a type of that name.
pub(super) fn scattered(sources: &[ParsedSource]) -> Figures {
    let mut with_methods = BTreeMap::<String, BTreeSet<&str>>::new();
    let mut defined = BTreeMap::<String, usize>::new();
    for source in product(sources) {
        let definitions = Definitions::of(source);
        for name in definitions.types.iter().collect::<BTreeSet<_>>() {
            *defined.entry(format!("{}::{name}", source.member())).or_default() += 1;
        }
        for name in definitions.methods {
            let name_of_crate = format!("{}::{name}", source.member());
            if !definitions.types.contains(&name) {
                with_methods.entry(name_of_crate).or_default().insert(&source.name);
            }
        }
    }
    // The defining file is added if only one file defines a type of that name.
    let others = with_methods.into_iter().map(|(name, files)| (defined.get(&name) == Some(&1), name, files.len()));
    let counted = others.map(|(single, name, files)| (name, files + usize::from(single)));
    counted.filter(|(_, files)| *files > 1).collect()
}

/// Returns the names that several types share, and the number of types.
pub(super) fn shared_names(sources: &[ParsedSource]) -> Figures {
    let mut names = Figures::new();
    for name in product(sources).flat_map(|source| Definitions::of(source).types) {
        *names.entry(name).or_default() += 1;
    }
    let distinct = names.len();
    names.retain(|_, count| *count > 1);
    eprintln!("{} of {distinct} type names have more than one type", names.len());
    names
}

/// Returns the functions over the limit, and their number of lines.
pub(super) fn long_functions(sources: &[ParsedSource]) -> Figures {
    let all = product(sources).flat_map(|source| {
        let functions = Definitions::of(source).functions.into_iter();
        functions.map(|(name, lines)| (format!("{}::{name}", source.name), lines))
    });
    all.filter(|(_, lines)| *lines > FUNCTION_LINES_MAX).collect()
}

/// Returns the number of mentions of Envoy's types in each file of the engine outside the crate `envoy`.
pub(super) fn envoy_types(sources: &[ParsedSource]) -> Figures {
    let others = product(sources).filter(|source| source.is_outside("engine/envoy/"));
    let mentions = others.map(|source| (source.name.clone(), source.code.matches("envoy_types::").count()));
    mentions.filter(|(_, count)| *count > 0).collect()
}

/// Returns the number of kinds as string literals in each file outside the crate that defines them.
pub(super) fn kinds(sources: &[ParsedSource]) -> Figures {
    let others = product(sources).filter(|source| source.is_outside("engine/api/"));
    let counted = others.map(|source| {
        let mut literals = Vec::new();
        vocabulary::literals(source.code.parse().unwrap_or_default(), &mut literals);
        let kinds = literals.iter().filter(|text| KINDS.iter().any(|kind| kind.kind == text.as_str()));
        (source.name.clone(), kinds.count())
    });
    counted.filter(|(_, count)| *count > 0).collect()
}
