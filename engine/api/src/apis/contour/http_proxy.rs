//! HTTPProxy. Routes and includes are decoded one by one, so that one that does not decode leaves the others valid.
//!
//! The readable conditions of a broken route or include are kept, so that its requests are answered instead of falling
//! to a broader route.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::MatchCondition;
use super::policy::IpFilterPolicy;
use super::route::{ProxyRoute, ProxyService};
use super::virtual_host::{TcpProxy, VirtualHost};
use crate::apis::decode::Found;
use crate::apis::protection::readable;
use crate::apis::{Body, typed};
use crate::fault::at;
use crate::section::ObjectSection;

/// Number of routes of one HTTPProxy that are served.
pub const ROUTES_MAX: usize = 1000;
/// Number of includes of one HTTPProxy that are served.
pub const INCLUDES_MAX: usize = 1000;
/// Number of routes, and of includes, of one HTTPProxy beyond those limits that are closed at their own conditions; with
/// more of them, the whole HTTPProxy is closed.
pub const CLOSED_ENTRIES_MAX: usize = 1000;
/// Number of conditions of one route or include that are served.
pub const CONDITIONS_MAX: usize = 64;

/// An HTTPProxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpProxy {
    /// The host of a root HTTPProxy; unset for other HTTPProxies.
    pub virtual_host: Option<ProxyHost>,
    /// `spec.routes`.
    pub routes: Vec<ProxyEntry<ProxyRoute>>,
    /// `spec.includes`.
    pub includes: Vec<ProxyEntry<Include>>,
    /// `spec.tcpproxy`.
    pub tcp_proxy: Option<TcpProxyEntry>,
    /// `spec.ingressClassName`.
    pub ingress_class_name: Option<Arc<str>>,
}

impl HttpProxy {
    /// Returns why no request can have the name of the host of a root HTTPProxy.
    pub(in crate::apis) fn host_fault(&self) -> Option<String> {
        let host = self.virtual_host.as_ref()?;
        holdfast_check::host::hostname(&host.fqdn).err().map(|fault| fault.to_string())
    }

    /// Returns whether the host allows or denies clients by their addresses.
    pub fn filters_addresses(&self) -> bool {
        let host = self.virtual_host.as_ref().and_then(|host| host.written.as_ref());
        host.is_some_and(|host| {
            [&host.ip_allow_policy, &host.ip_deny_policy].into_iter().flatten().any(|list| !list.is_empty())
        })
    }

    pub(in crate::apis) fn lost_conditions(&self) -> bool {
        self.routes.iter().any(ProxyEntry::is_lost) || self.includes.iter().any(ProxyEntry::is_lost)
    }

    pub(in crate::apis) fn keep_conditions(&mut self, before: &Self) {
        ProxyEntry::keep_conditions(&mut self.routes, &before.routes);
        ProxyEntry::keep_conditions(&mut self.includes, &before.includes);
    }

    /// Returns the section and error of the entry for which the whole HTTPProxy is closed: its requests are unknown,
    /// so that another route of the HTTPProxy might answer them.
    pub fn closing_entry(&self) -> Option<(ObjectSection<'static>, &Arc<str>)> {
        let route = self.routes.iter().enumerate().find_map(|(index, entry)| Some((index, entry.closes_object()?)));
        let include =
            || self.includes.iter().enumerate().find_map(|(index, entry)| Some((index, entry.closes_object()?)));
        match route {
            Some((index, why)) => Some((ObjectSection::ProxyRoute(index.min(ROUTES_MAX)), why)),
            None => include().map(|(index, why)| (ObjectSection::Include(index.min(INCLUDES_MAX)), why)),
        }
    }

    /// Returns the HTTPProxy with the same host, conditions and includes, and without any route that can be served. `why`
    /// is the reason, in a sentence. The host of a root is closed as a whole.
    pub(in crate::apis) fn closed(&self, why: &Arc<str>) -> Self {
        let closed = |entry: &ProxyEntry<ProxyRoute>| ProxyEntry::Broken {
            conditions: entry.conditions().to_vec(),
            is_lost: entry.is_lost(),
            closes_object: false,
            why: why.clone(),
            guards: None,
        };
        let host = self.virtual_host.as_ref();
        Self {
            virtual_host: host.map(|host| ProxyHost { fqdn: host.fqdn.clone(), written: None }),
            routes: self.routes.iter().map(closed).collect(),
            ..self.clone()
        }
    }

    /// Returns whether the host or one of the routes restricts access.
    pub fn names_guard(&self) -> bool {
        self.host_names_guard() || self.routes.iter().any(ProxyEntry::names_guard)
    }

    /// Returns whether the host restricts access. A host that cannot be read counts as restricted.
    pub fn host_names_guard(&self) -> bool {
        let some = |list: &Option<Vec<IpFilterPolicy>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let Some(host) = &self.virtual_host else { return false };
        host.written.as_ref().is_none_or(|host| {
            some(&host.ip_allow_policy)
                || some(&host.ip_deny_policy)
                || host.authorization.is_some()
                || host.jwt_providers.is_some()
                || host.rate_limit_policy.is_some()
                || host.tls.as_ref().is_some_and(|tls| tls.client_validation.is_some())
        })
    }
}

/// The host of a root HTTPProxy.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyHost {
    /// Name of the host, empty where no name could be read.
    pub fqdn: Arc<str>,
    /// The whole host; unset where it did not decode, which is already reported as a fault.
    pub written: Option<VirtualHost>,
}

/// `spec.tcpproxy`; unset where it did not decode, which is already reported as a fault.
pub type TcpProxyEntry = Option<TcpProxy>;

/// A route or an include, or the readable part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum ProxyEntry<T> {
    /// A valid route or include.
    Decoded(T),
    /// A route or include that did not decode or was over a limit; the fault is already reported.
    Broken {
        /// The conditions that decode.
        conditions: Vec<MatchCondition>,
        /// Whether a condition, or the list of conditions, cannot be read as a whole.
        is_lost: bool,
        /// Whether the whole HTTPProxy is closed for this entry, which is over a limit and has unknown requests.
        closes_object: bool,
        /// The error, in a sentence.
        why: Arc<str>,
        /// Of a route: the fields that protect it, and no other field; unset where these fields cannot be read.
        guards: Option<Box<ProxyRoute>>,
    },
}

fn has_path(condition: &MatchCondition) -> bool {
    condition.prefix.is_some() || condition.exact.is_some() || condition.regex.is_some()
}

/// An entry with conditions.
trait Conditional {
    /// Returns the conditions.
    fn conditions(&self) -> &[MatchCondition];
}

impl Conditional for ProxyRoute {
    fn conditions(&self) -> &[MatchCondition] {
        self.conditions.as_deref().unwrap_or_default()
    }
}

impl Conditional for Include {
    fn conditions(&self) -> &[MatchCondition] {
        self.conditions.as_deref().unwrap_or_default()
    }
}

#[allow(private_bounds, reason = "routes and includes, and no others")]
impl<T: Conditional> ProxyEntry<T> {
    fn is_lost(&self) -> bool {
        matches!(self, ProxyEntry::Broken { is_lost: true, .. })
    }

    /// Returns the error of an entry for which the whole HTTPProxy is closed.
    fn closes_object(&self) -> Option<&Arc<str>> {
        match self {
            ProxyEntry::Broken { closes_object: true, why, .. } => Some(why),
            _ => None,
        }
    }

    /// Returns the conditions, as far as they can be read.
    pub fn conditions(&self) -> &[MatchCondition] {
        match self {
            ProxyEntry::Decoded(entry) => entry.conditions(),
            ProxyEntry::Broken { conditions, .. } => conditions,
        }
    }

    /// Adds conditions of the previous version to the entries with unreadable ones: those of the entry at the same
    /// position, else all that no entry has now. Of an entry with conditions of its own, only paths are added, of which
    /// each counts: another condition would narrow the own ones.
    fn keep_conditions(now: &mut [Self], before: &[Self]) {
        let written = |entry: &Self| serde_json::to_string(entry.conditions()).unwrap_or_default();
        let known: BTreeSet<String> = now.iter().map(written).collect();
        let gone = before.iter().enumerate().filter(|(_, entry)| !known.contains(&written(entry)));
        let gone: BTreeMap<usize, &[MatchCondition]> = gone.map(|(index, entry)| (index, entry.conditions())).collect();
        let paths = gone.values().flat_map(|conditions| conditions.iter()).filter(|condition| has_path(condition));
        let paths: Vec<&MatchCondition> = paths.take(CONDITIONS_MAX).collect();
        for (index, entry) in now.iter_mut().enumerate() {
            let ProxyEntry::Broken { conditions, is_lost: true, .. } = entry else { continue };
            let is_empty = conditions.is_empty();
            let kept: Vec<MatchCondition> = match gone.get(&index) {
                Some(same) => same.iter().filter(|condition| is_empty || has_path(condition)).cloned().collect(),
                None => paths.iter().map(|condition| (*condition).clone()).collect(),
            };
            let room = CONDITIONS_MAX.saturating_sub(conditions.len());
            // The last path is the own one.
            conditions.splice(..0, kept.into_iter().take(room));
        }
    }
}

impl ProxyEntry<ProxyRoute> {
    /// Returns the fields that protect the route, or `None` where they cannot be read.
    pub fn guards(&self) -> Option<&ProxyRoute> {
        match self {
            ProxyEntry::Decoded(route) => Some(route),
            ProxyEntry::Broken { guards, .. } => guards.as_deref(),
        }
    }

    /// Returns whether the route restricts access. Fields that cannot be read count as a restriction.
    pub fn names_guard(&self) -> bool {
        let some = |list: &Option<Vec<IpFilterPolicy>>| list.as_ref().is_some_and(|list| !list.is_empty());
        self.guards().is_none_or(|route| {
            some(&route.ip_allow_policy)
                || some(&route.ip_deny_policy)
                || route.rate_limit_policy.is_some()
                || route.jwt_verification_policy.is_some()
        })
    }
}

/// An include of another HTTPProxy with its routes, under conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Include {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, that of the including HTTPProxy where unset.
    pub namespace: Option<Arc<str>>,
    /// Match conditions.
    pub conditions: Option<Vec<MatchCondition>>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else {
        found.invalid("spec", "spec must be set to an object");
        return None;
    };
    let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
    let (host, routes, includes) = (take("virtualhost"), take("routes"), take("includes"));
    let (tcp_proxy, class) = (take("tcpproxy"), take("ingressClassName"));
    let known = ["includes", "ingressClassName", "routes", "tcpproxy", "virtualhost"];
    let wrong = found.unknown_in_spec(fields.keys(), &known);
    let virtual_host = host.map(|value| {
        let fqdn = value.get("fqdn").and_then(Value::as_str).unwrap_or_default().into();
        ProxyHost { fqdn, written: found.typed("spec.virtualhost", &value) }
    });
    // Without a name, the host would go to other objects.
    let is_nameless = |host: &ProxyHost| host.fqdn.is_empty() && host.written.is_none();
    if !wrong.is_empty() || virtual_host.as_ref().is_some_and(is_nameless) {
        return None;
    }
    Some(Body::HttpProxy(Arc::new(HttpProxy {
        virtual_host,
        routes: entries(routes, "spec.routes", ROUTES_MAX, found),
        includes: entries(includes, "spec.includes", INCLUDES_MAX, found),
        tcp_proxy: tcp_proxy.map(|value| found.typed("spec.tcpproxy", &value)),
        ingress_class_name: class.and_then(|value| found.typed("spec.ingressClassName", &value)),
    })))
}

fn entries<T: DeserializeOwned + Clone>(
    value: Option<Value>,
    field: &str,
    max: usize,
    found: &mut Found,
) -> Vec<ProxyEntry<T>> {
    let values = match value {
        None => return Vec::new(),
        Some(Value::Array(values)) => values,
        Some(_) => {
            found.invalid(field, "must be a list");
            // An entry that cannot be read at all might match any request, so the host is kept.
            return vec![nothing_known(format!("{field}: must be a list").into(), false)];
        }
    };
    let closed_from = max + CLOSED_ENTRIES_MAX;
    let over = (values.len() > max).then(|| over_the_limit(field, values.len(), max));
    let why: Arc<str> = over.iter().map(|over| format!("{field}: {over}")).collect::<String>().into();
    let each = values.iter().take(closed_from).enumerate();
    let mut entries: Vec<_> = each
        .map(|(index, value)| match index < max {
            true => entry(value, &at(field, index), found),
            false => closed(value, &why),
        })
        .collect();
    if values.len() > closed_from {
        entries.push(nothing_known(why, true));
    }
    if let Some(over) = over {
        found.invalid(field, over);
    }
    entries
}

/// Returns the error of a list with too many entries.
fn over_the_limit(field: &str, count: usize, max: usize) -> String {
    let (name, all) = (field.trim_start_matches("spec."), max + CLOSED_ENTRIES_MAX);
    let effect = match count - max {
        _ if count > all => format!("with more than {all}, all requests of the HTTPProxy are answered with an error"),
        1 => format!("requests of {name}[{max}] are answered with an error"),
        _ => format!("requests of {name}[{max}] to {name}[{}] are answered with an error", count - 1),
    };
    format!("has {count} entries, at most {max} are allowed: {effect}")
}

fn nothing_known<T>(why: Arc<str>, closes_object: bool) -> ProxyEntry<T> {
    ProxyEntry::Broken { conditions: Vec::new(), is_lost: true, closes_object, why, guards: None }
}

/// Returns an entry over the limit: it is not served, and its requests are answered at its own conditions.
fn closed<T: DeserializeOwned>(value: &Value, why: &Arc<str>) -> ProxyEntry<T> {
    let (conditions, is_lost) = (salvage(written_conditions(value)), has_lost_conditions::<T>(value));
    let closes_object = is_lost && !conditions.iter().any(has_path);
    ProxyEntry::Broken { conditions, is_lost, closes_object, why: why.clone(), guards: guards(value) }
}

fn written_conditions(entry: &Value) -> &[Value] {
    entry.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn entry<T: DeserializeOwned + Clone>(value: &Value, field: &str, found: &mut Found) -> ProxyEntry<T> {
    let written = written_conditions(value);
    if written.len() > CONDITIONS_MAX {
        let why = format!("must have at most {CONDITIONS_MAX} conditions");
        found.invalid(format!("{field}.conditions"), &why);
        return ProxyEntry::Broken {
            conditions: salvage(written),
            is_lost: false,
            closes_object: false,
            why: why.into(),
            guards: guards(value),
        };
    }
    match found.typed::<T>(field, value) {
        // Cloning drops the spare capacity that decoding leaves in every list.
        Some(entry) => ProxyEntry::Decoded(entry.clone()),
        None => ProxyEntry::Broken {
            conditions: salvage(written),
            is_lost: has_lost_conditions::<T>(value),
            closes_object: false,
            why: found.why().into(),
            guards: guards(value),
        },
    }
}

/// Returns whether a part of the conditions of an entry cannot be read.
fn has_lost_conditions<T: DeserializeOwned>(entry: &Value) -> bool {
    let Some(fields) = entry.as_object() else { return true };
    match fields.get("conditions").filter(|conditions| !conditions.is_null()) {
        Some(conditions) => {
            let read = typed::read::<Vec<MatchCondition>>(conditions);
            read.result.is_err() || !read.unknown.is_empty()
        }
        // An unknown field may be meant as the conditions.
        None => typed::read::<T>(entry).unknown.iter().any(|field| !field.path.contains(['.', '['])),
    }
}

/// Fields of a Service that protect requests on the way to it.
const OF_SERVICES: [&str; 3] = ["protocol", "requestHeadersPolicy", "validation"];

/// Returns the fields of a route that protect it, or `None` where these fields cannot be read.
fn guards(value: &Value) -> Option<Box<ProxyRoute>> {
    let written = value.as_object()?;
    let services = written.get("services").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let protects = |service: &Value| {
        let names = |field: &&str| service.get(field).is_some_and(|value| !value.is_null());
        // An unknown field may be meant as one that protects.
        OF_SERVICES.iter().any(names) || !typed::read::<ProxyService>(service).unknown.is_empty()
    };
    let are_free = !services.iter().any(protects);
    let declared = super::route_protection::protection(&ProxyRoute::default(), false).entering;
    readable(written, |field| declared.is_free(field) || (are_free && field == "services")).map(Box::new)
}

fn salvage(conditions: &[Value]) -> Vec<MatchCondition> {
    let first = conditions.iter().take(CONDITIONS_MAX);
    first.filter_map(|value| typed::read(value).result.ok()).collect()
}
