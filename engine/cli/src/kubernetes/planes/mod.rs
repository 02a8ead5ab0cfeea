//! Data planes: maintains what [`holdfast_translate::provision`] wants for each Gateway, and reports its state.
//!
//! [`owned`] watches the existing objects, [`writer`] applies those that differ. Objects of others are never changed,
//! whatever their name. Only the leader writes; every replica knows the addresses.

pub mod arguments;
pub(super) mod owned;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use holdfast_engine::engine::Event;
use holdfast_envoy::bootstrap::{Bootstrap, MAX_CONNECTIONS, MAX_HEAP_BYTES};
use holdfast_translate::provision::{DataPlane, Operator};
use holdfast_xds::connection::Protocol;
use kube::Client;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use self::arguments::ProvisionArgs;
use self::owned::Owned;
use self::writer::Writer;
use crate::kubernetes::leader::Leadership;

/// Maximum number of waiting reports about data planes.
const DATA_PLANE_REPORTS_MAX: usize = 16;
/// Maximum size of the file of authorities, in bytes.
const AUTHORITIES_BYTES_MAX: u64 = 1 << 18;

/// The desired state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// The data planes of our Gateways.
    planes: Vec<DataPlane>,
    /// UIDs of Gateways of another controller.
    others: Vec<Arc<str>>,
}

/// Receives the desired state; only the newest counts.
#[derive(Debug)]
pub(crate) struct DataPlanes(watch::Sender<Option<Wanted>>);

impl DataPlanes {
    /// Starts to maintain data planes in these namespaces, or in all if none is named. Reports about their state arrive
    /// on the returned channel.
    ///
    /// # Errors
    /// Returns an error if a file that a flag names cannot be read.
    pub(crate) fn start(
        client: &Client,
        args: &ProvisionArgs,
        namespaces: &[String],
        leadership: Leadership,
    ) -> anyhow::Result<(Self, mpsc::Receiver<Vec<Event>>)> {
        let (wanted, receiver) = watch::channel(None);
        let (news, events) = mpsc::channel(DATA_PLANE_REPORTS_MAX);
        let owned = Owned::watch(client, namespaces);
        let plan = DataPlaneInputs::new(args)?;
        tokio::spawn(Writer::new(client.clone(), plan, owned, leadership, news).run(receiver));
        Ok((Self(wanted), events))
    }

    /// Sets the desired state.
    pub(crate) fn want(&self, planes: Vec<DataPlane>, others: Vec<Arc<str>>) {
        let wanted = Some(Wanted { planes, others });
        self.0.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
    }
}

/// The inputs that all data planes have in common.
struct DataPlaneInputs {
    operator: Operator,
    args: ProvisionArgs,
}

impl DataPlaneInputs {
    fn new(args: &ProvisionArgs) -> anyhow::Result<Self> {
        let operator = Operator {
            image: args.provision_image.clone(),
            drain_image: args.provision_drain_image.clone(),
            token_audience: args.provision_token_audience.clone(),
            server_name: args.xds_server_name(),
            authorities: args.provision_xds_authorities.as_deref().map(read).transpose()?,
        };
        Ok(Self { operator, args: args.clone() })
    }

    /// Reads the authorities again: new authorities reach Envoys before they sign anything. An unreadable file changes
    /// nothing.
    fn mark_dirty(&mut self) {
        let Some(path) = &self.args.provision_xds_authorities else { return };
        match read(path) {
            Ok(authorities) if self.operator.authorities.as_ref() != Some(&authorities) => {
                tracing::info!("the certificate authorities of the xDS server have changed; Envoys receive them");
                self.operator.authorities = Some(authorities);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot read the certificate authorities of the xDS server; Envoys keep the previous ones"
                )
            }
        }
    }

    /// The desired objects of a data plane.
    fn desired(&self, plane: &DataPlane) -> Vec<Value> {
        let bootstrap = Bootstrap {
            gateway: plane.gateway.namespaced_name(),
            // Each Pod has its own.
            node_id: String::new(),
            xds: self.args.xds_address(),
            // The credentials belong to the Pods, and are added there.
            credentials: None,
            admin: None,
            mode: Protocol::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        };
        holdfast_translate::provision::desired(plane, &self.operator, &bootstrap.to_json())
    }
}

/// Reads the authorities of a file, which must contain a certificate.
fn read(path: &Path) -> anyhow::Result<String> {
    let named = || format!("--provision-xds-authorities {}: cannot be read", path.display());
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(AUTHORITIES_BYTES_MAX).read_to_string(&mut text)).with_context(named)?;
    anyhow::ensure!(
        text.contains("-----BEGIN CERTIFICATE-----"),
        "{}: the file contains no certificate in PEM",
        path.display()
    );
    Ok(text)
}
