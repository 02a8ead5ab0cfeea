//! Flags of the credentials of an Envoy for the xDS server, in its bootstrap.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use holdfast_envoy::bootstrap::Credentials;

use crate::arguments::ServerAddress;
use crate::failure::Failure;

/// Flags of the credentials in a bootstrap.
#[derive(Clone, Debug, Args)]
pub struct CredentialArgs {
    /// Folder, as the Envoy sees it, of its certificate (tls.crt, tls.key) and of the authority of the server (ca.crt),
    /// with the SDS files that `holdfast certgen` writes: the Envoy connects with mutual TLS
    #[arg(long, env = "CONTROLLER_XDS_CREDENTIALS", value_name = "DIR")]
    pub xds_credentials: Option<PathBuf>,
    /// File, as the Envoy sees it, of a token of the Gateway's ServiceAccount, which replaces the certificate; a file
    /// sds-token.yaml in the folder of --xds-credentials must refer to it (see --print)
    #[arg(long, env = "CONTROLLER_XDS_TOKEN", value_name = "PATH", requires = "xds_credentials")]
    pub xds_token: Option<PathBuf>,
    /// Name in the server's certificate [default: the host of --xds]
    #[arg(long, env = "CONTROLLER_XDS_SERVER_NAME", value_name = "NAME")]
    pub xds_server_name: Option<String>,
    /// Content to print: a certificate that `holdfast certgen` did not make also needs the SDS files
    #[arg(long, env = "CONTROLLER_PRINT", value_enum, default_value_t = Printed::Bootstrap)]
    pub print: Printed,
}

/// The content that `holdfast bootstrap` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Printed {
    /// The bootstrap
    Bootstrap,
    /// The file sds-certificate.yaml for the folder of --xds-credentials
    SdsCertificate,
    /// The file sds-authorities.yaml for that folder
    SdsAuthorities,
    /// The file sds-token.yaml for that folder
    SdsToken,
}

impl CredentialArgs {
    /// The credentials that the flags describe, if any.
    ///
    /// # Errors
    /// Returns an error if the flags are incomplete or contradict each other.
    pub fn credentials(&self, xds: &ServerAddress) -> Result<Option<Credentials>, Failure> {
        let Some(folder) = &self.xds_credentials else {
            return match (self.print, &self.xds_server_name) {
                (Printed::Bootstrap, None) => Ok(None),
                _ => Err(Failure::usage("--xds-server-name and --print sds-... need --xds-credentials")),
            };
        };
        let ServerAddress::Tcp(host, _) = xds else {
            return Err(Failure::usage("--xds-credentials: a unix socket does not use TLS; set --xds HOST:PORT"));
        };
        if !folder.is_absolute() {
            return Err(Failure::usage("--xds-credentials: the path must be absolute, as the Envoy sees it"));
        }
        if self.xds_token.as_ref().is_some_and(|token| !token.is_absolute()) {
            return Err(Failure::usage("--xds-token: the path must be absolute, as the Envoy sees it"));
        }
        if self.print == Printed::SdsToken && self.xds_token.is_none() {
            return Err(Failure::usage("--print sds-token: set the path of the token with --xds-token"));
        }
        let server_name = self.xds_server_name.clone().unwrap_or_else(|| host.clone());
        let (folder, token) = (folder.clone(), self.xds_token.clone());
        Ok(Some(Credentials { sds: folder.clone(), folder, token, server_name }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_credential_flags_are_refused() {
        let tcp = ServerAddress::Tcp("holdfast.infra.svc".into(), 18000);
        let args = |folder: Option<&str>, name: Option<&str>, print| CredentialArgs {
            xds_credentials: folder.map(Into::into),
            xds_token: None,
            xds_server_name: name.map(Into::into),
            print,
        };
        let found = args(Some("/x"), None, Printed::Bootstrap).credentials(&tcp).unwrap().unwrap();
        assert_eq!(found.server_name, "holdfast.infra.svc");
        assert_eq!(args(None, None, Printed::Bootstrap).credentials(&tcp).unwrap(), None);
        args(None, Some("x"), Printed::Bootstrap).credentials(&tcp).unwrap_err();
        args(None, None, Printed::SdsCertificate).credentials(&tcp).unwrap_err();
        args(Some("/x"), None, Printed::SdsToken).credentials(&tcp).unwrap_err();
        let token =
            |path: &str| CredentialArgs { xds_token: Some(path.into()), ..args(Some("/x"), None, Printed::SdsToken) };
        assert!(token("/t").credentials(&tcp).unwrap().unwrap().token.is_some());
        token("t").credentials(&tcp).unwrap_err();
        args(Some("x"), None, Printed::Bootstrap).credentials(&tcp).unwrap_err();
        args(Some("/x"), None, Printed::Bootstrap).credentials(&ServerAddress::Unix("/s".into())).unwrap_err();
    }
}
