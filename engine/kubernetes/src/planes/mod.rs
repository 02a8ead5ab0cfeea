//! Data planes: maintains what [`holdfast_translate::provision`] wants for each Gateway, and reports its state.
//!
//! [`owned`] watches the existing objects, [`writer`] applies those that differ. Objects of others are never changed,
//! whatever their name. Only the leader writes; every replica knows the addresses.

pub(crate) mod owned;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use holdfast_engine::engine::Event;
use holdfast_envoy::bootstrap::{Bootstrap, MAX_CONNECTIONS, MAX_HEAP_BYTES, ServerAddress};
use holdfast_translate::provision::{DataPlane, Operator};
use holdfast_xds::connection::Protocol;
use kube::Client;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use self::owned::Owned;
use self::writer::Writer;
use crate::leader::Leadership;

/// Maximum number of waiting reports about data planes.
const DATA_PLANE_REPORTS_MAX: usize = 16;
/// Maximum size of the file of authorities, in bytes.
const AUTHORITIES_BYTES_MAX: u64 = 1 << 18;

/// The options that all data planes have in common.
#[derive(Clone, Debug)]
pub struct DataPlaneOptions {
    /// The image of Envoy, unless parameters name one.
    pub image: String,
    /// The image of Holdfast for a container that drains the Envoy; `None` without such a container.
    pub drain_image: Option<String>,
    /// The audience of the tokens by which the Envoys authenticate.
    pub token_audience: String,
    /// The address of the xDS server for the Envoys.
    pub xds: ServerAddress,
    /// The file (PEM) of the authorities by which the Envoys verify the xDS server.
    pub authorities: Option<PathBuf>,
}

impl DataPlaneOptions {
    /// The name in the certificate of the xDS server.
    fn xds_server_name(&self) -> String {
        match &self.xds {
            ServerAddress::Tcp(host, _) => host.clone(),
            ServerAddress::Unix(_) => String::new(),
        }
    }
}

/// The desired state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    /// The data planes of our Gateways.
    planes: Vec<DataPlane>,
    /// UIDs of Gateways of another controller.
    others: Vec<Arc<str>>,
}

/// Receives the desired state; only the newest counts.
#[derive(Debug)]
pub struct DataPlanes(watch::Sender<Option<Wanted>>);

impl DataPlanes {
    /// Starts to maintain data planes in these namespaces, or in all if none is named. Reports about their state arrive
    /// on the returned channel.
    ///
    /// # Errors
    /// Returns an error if a file that a flag names cannot be read.
    pub fn start(
        client: &Client,
        options: DataPlaneOptions,
        namespaces: &[String],
        leadership: Leadership,
    ) -> anyhow::Result<(Self, mpsc::Receiver<Vec<Event>>)> {
        let (wanted, receiver) = watch::channel(None);
        let (news, events) = mpsc::channel(DATA_PLANE_REPORTS_MAX);
        let owned = Owned::watch(client, namespaces);
        let plan = DataPlaneInputs::new(options)?;
        tokio::spawn(Writer::new(client.clone(), plan, owned, leadership, news).run(receiver));
        Ok((Self(wanted), events))
    }

    /// Sets the desired state.
    pub fn want(&self, planes: Vec<DataPlane>, others: Vec<Arc<str>>) {
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
    options: DataPlaneOptions,
}

impl DataPlaneInputs {
    fn new(options: DataPlaneOptions) -> anyhow::Result<Self> {
        let operator = Operator {
            image: options.image.clone(),
            drain_image: options.drain_image.clone(),
            token_audience: options.token_audience.clone(),
            server_name: options.xds_server_name(),
            authorities: options.authorities.as_deref().map(read).transpose()?,
        };
        Ok(Self { operator, options })
    }

    /// Reads the authorities again: new authorities reach Envoys before they sign anything. An unreadable file changes
    /// nothing.
    fn mark_dirty(&mut self) {
        let Some(path) = &self.options.authorities else { return };
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
            xds: self.options.xds.clone(),
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
