//! Data planes: keeps what [`crate::provision`] wants for each Gateway, and says how it stands.
//!
//! [`owned`] watches what is there, [`writer`] applies what differs. Nothing that is not ours is touched, whatever its
//! name. Only the leader writes; every replica knows the addresses.

pub mod arguments;
pub(super) mod owned;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use self::arguments::ProvisionArgs;
use self::owned::Owned;
use self::writer::Writer;
use crate::engine::Event;
use crate::provision::{DataPlane, Operator};
use crate::run::bootstrap::{Bootstrap, MAX_CONNECTIONS, MAX_HEAP_BYTES};
use crate::run::cli::XdsMode;
use crate::run::kubernetes::leader::Leadership;

/// How many news of data planes may wait to be taken.
const NEWS_MAX: usize = 16;
/// Bytes of the file of authorities.
const AUTHORITIES_BYTES_MAX: u64 = 1 << 18;

/// Everything that is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// The data planes of our Gateways.
    planes: Vec<DataPlane>,
    /// UIDs of Gateways that are another controller's.
    others: Vec<Arc<str>>,
}

/// Takes what is wanted; only the newest counts.
#[derive(Debug)]
pub(crate) struct DataPlanes(watch::Sender<Option<Wanted>>);

impl DataPlanes {
    /// Starts to keep data planes in these namespaces, or all where none is named. News of how they stand come by the
    /// channel.
    ///
    /// # Errors
    /// Where a file that a flag names cannot be read.
    pub(crate) fn start(
        client: &Client,
        args: &ProvisionArgs,
        namespaces: &[String],
        leadership: Leadership,
    ) -> anyhow::Result<(Self, mpsc::Receiver<Vec<Event>>)> {
        let (wanted, receiver) = watch::channel(None);
        let (news, told) = mpsc::channel(NEWS_MAX);
        let owned = Owned::watch(client, namespaces);
        let plan = Plan::new(args)?;
        tokio::spawn(Writer::new(client.clone(), plan, owned, leadership, news).run(receiver));
        Ok((Self(wanted), told))
    }

    /// This is wanted now.
    pub(crate) fn want(&self, planes: Vec<DataPlane>, others: Vec<Arc<str>>) {
        let wanted = Some(Wanted { planes, others });
        self.0.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
    }
}

/// What is the same for all data planes.
struct Plan {
    operator: Operator,
    args: ProvisionArgs,
}

impl Plan {
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

    /// Reads again who is trusted: new authorities reach Envoys before anything is signed by them. What cannot be read
    /// changes nothing.
    fn look_again(&mut self) {
        let Some(path) = &self.args.provision_xds_authorities else { return };
        match read(path) {
            Ok(authorities) if self.operator.authorities.as_ref() != Some(&authorities) => {
                tracing::info!("the authorities of the xDS server have changed; Envoys are told");
                self.operator.authorities = Some(authorities);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "Envoys are left with the authorities they have")
            }
        }
    }

    /// The objects of a data plane.
    fn desired(&self, plane: &DataPlane) -> Vec<Value> {
        let bootstrap = Bootstrap {
            gateway: plane.gateway.namespaced_name(),
            // Each Pod has its own.
            node_id: String::new(),
            xds: self.args.xds_address(),
            // What they show is of their Pods, and is put in there.
            credentials: None,
            admin: None,
            mode: XdsMode::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        };
        crate::provision::desired(plane, &self.operator, &bootstrap.to_json())
    }
}

/// The authorities of a file; one without a certificate is none.
fn read(path: &Path) -> anyhow::Result<String> {
    let named = || format!("--provision-xds-authorities {}: cannot be read", path.display());
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(AUTHORITIES_BYTES_MAX).read_to_string(&mut text)).with_context(named)?;
    anyhow::ensure!(text.contains("-----BEGIN CERTIFICATE-----"), "{}: there is no certificate", path.display());
    Ok(text)
}
