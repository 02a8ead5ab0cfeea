//! Audit of certificates of hosts: a current root must name the certificate, in its own namespace or with a current
//! delegation.

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::virtual_host::Tls;
use holdfast_graph::ObjectKey;

use super::super::today::Today;
use super::proxy;
use crate::plan::world::World;

/// Returns why no current root may use this certificate for its host; `None` if one may. `host` is `None` for clients
/// that send no server name.
pub(in super::super) fn wrong(
    host: Option<&str>,
    secret: &ObjectKey,
    world: &World<'_>,
    today: &Today<'_>,
) -> Option<String> {
    let Some(host) = host else {
        let is_set = world.settings.proxies.fallback_certificate.as_ref() == Some(secret);
        return (!is_set).then(|| {
            format!("Secret {} is not the fallback certificate for clients without SNI", secret.namespaced_name())
        });
    };
    let mut why = format!("no HTTPProxy names Secret {} for host {host:?} today", secret.namespaced_name());
    for root in world.translator.roots_of_host(host) {
        let Some(name) = tls(root, today).and_then(|tls| tls.secret_name.as_deref()) else { continue };
        let (namespace, name) = name.split_once('/').unwrap_or((&root.namespace, name));
        if *namespace != *secret.namespace || *name != *secret.name {
            continue;
        }
        if *namespace == *root.namespace || delegates(secret, &root.namespace, world, today) {
            return None;
        }
        why = format!("no TLSCertificateDelegation of today allows Secret {}", secret.namespaced_name());
    }
    Some(why)
}

/// Checks whether a current root requires client certificates for its host.
pub(in super::super) fn verifies_clients(host: &str, world: &World<'_>, today: &Today<'_>) -> bool {
    let mut roots = world.translator.roots_of_host(host);
    roots.any(|root| tls(root, today).is_some_and(|tls| tls.client_validation.is_some()))
}

fn tls<'a>(root: &ObjectKey, today: &Today<'a>) -> Option<&'a Tls> {
    proxy(root, today)?.virtual_host.as_ref()?.written.as_ref()?.tls.as_ref()
}

fn delegates(secret: &ObjectKey, to: &str, world: &World<'_>, today: &Today<'_>) -> bool {
    world.translator.delegations_in(&secret.namespace).any(|key| {
        let Some(Body::CertificateDelegation(written)) = today.object(key).map(|object| &object.body) else {
            return false;
        };
        let mut own = written.delegations.iter().filter(|delegation| delegation.secret_name == secret.name);
        key.namespace == secret.namespace
            && own.any(|delegation| match &delegation.target_namespaces[..] {
                [everyone] if &**everyone == "*" => true,
                namespaces => namespaces.iter().any(|namespace| **namespace == *to),
            })
    })
}
