//! Listening sockets of the server: a TCP address or a unix socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::limits::BACKLOG;

/// The socket to listen on.
#[derive(Debug)]
pub enum Listen {
    /// A TCP address; port 0 selects a free one.
    Tcp(SocketAddr),
    /// A TCP socket that is already listening.
    Socket(std::net::TcpListener),
    /// A unix socket. It is created for this user only (mode 0600); the socket of a server that has ended is replaced.
    Unix(PathBuf),
}

/// The address on which the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address, with the actual port.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns the TCP address, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }
}

/// `127.0.0.1:18000`, or `unix:/run/holdfast/xds.sock`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Reason why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process listens there.
    #[error("{0} is in use by another process")]
    InUse(Address),
    /// This user has no permission to listen there.
    #[error("no permission to listen on {0}")]
    Denied(Address),
    /// The path of the unix socket is another kind of file.
    #[error("{0} exists and is not a socket; Holdfast does not replace it")]
    NotASocket(Address),
    /// Listening failed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: Address,
        /// The reason.
        source: io::Error,
    },
    /// The server stopped by itself.
    #[error("the xDS server on {address} failed: {source}")]
    Serve {
        /// The address of the server.
        address: Address,
        /// The reason.
        source: tonic::transport::Error,
    },
}

impl ServeError {
    fn of(address: Address, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse(address),
            io::ErrorKind::PermissionDenied => ServeError::Denied(address),
            _ => ServeError::Listen { address, source },
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(TcpListener),
    Unix(UnixListener, OwnedPath),
}

/// Starts to listen.
pub(crate) fn open(listen: Listen) -> Result<(BoundSocket, Address), ServeError> {
    match listen {
        Listen::Tcp(wanted) => {
            let socket = bind_tcp(wanted).map_err(|source| ServeError::of(Address::Tcp(wanted), source))?;
            tcp(socket, wanted)
        }
        Listen::Socket(socket) => {
            let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
            let address = socket.local_addr().unwrap_or(unspecified);
            let socket = socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(socket));
            tcp(socket.map_err(|source| ServeError::of(Address::Tcp(address), source))?, address)
        }
        Listen::Unix(path) => {
            let address = Address::Unix(path.clone());
            let (socket, path) = bound_unix(&path)?;
            Ok((BoundSocket::Unix(socket, path), address))
        }
    }
}

fn tcp(socket: TcpListener, wanted: SocketAddr) -> Result<(BoundSocket, Address), ServeError> {
    let address = socket.local_addr().map_err(|source| ServeError::of(Address::Tcp(wanted), source))?;
    Ok((BoundSocket::Tcp(socket), Address::Tcp(address)))
}

/// Binds a TCP socket with a long queue of connections, because a whole fleet may reconnect at once.
fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted server gets its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

enum UnixError {
    InUse,
    NotASocket,
    Io(io::Error),
}

impl From<io::Error> for UnixError {
    fn from(error: io::Error) -> Self {
        UnixError::Io(error)
    }
}

/// Creates the socket under another name in a private directory, and moves it to its path when its mode is set.
fn bind_unix(path: &Path) -> Result<(UnixListener, OwnedPath), UnixError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(UnixError::NotASocket),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => return Err(UnixError::InUse),
        _ => {}
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = parent.join(format!(".{}", std::process::id()));
    // A directory of a process with the same number that ended earlier.
    let _ = std::fs::remove_dir_all(&private);
    std::fs::DirBuilder::new().mode(0o700).create(&private)?;
    let made = (|| {
        let hidden = private.join("s");
        let socket = UnixListener::bind(&hidden)?;
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&hidden, path)?;
        Ok((socket, OwnedPath::of(path)?))
    })();
    let _ = std::fs::remove_dir_all(&private);
    made
}

/// The file of a socket.
#[derive(Clone, Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file at this path is still this socket. Its inode is not reused while the socket listens.
    pub(crate) fn is_there(&self) -> bool {
        inode(&self.path).is_ok_and(|found| found == self.inode)
    }
}

/// The socket file; removed when the server ends, unless another server has put its own socket there.
#[derive(Debug)]
pub(crate) struct OwnedPath(pub(crate) SocketFile);

/// Creates a socket again after its file was removed, and its folder where that was removed as well.
pub(crate) fn bind_again(path: &Path) -> Result<(UnixListener, OwnedPath), ServeError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| ServeError::of(Address::Unix(path.to_owned()), source))?;
    }
    bound_unix(path)
}

/// Creates a socket at this path.
pub(crate) fn bound_unix(path: &Path) -> Result<(UnixListener, OwnedPath), ServeError> {
    let address = || Address::Unix(path.to_owned());
    bind_unix(path).map_err(|error| match error {
        UnixError::InUse => ServeError::InUse(address()),
        UnixError::NotASocket => ServeError::NotASocket(address()),
        UnixError::Io(source) => ServeError::of(address(), source),
    })
}

impl OwnedPath {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self(SocketFile { path: path.to_owned(), inode: inode(path)? }))
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        if self.0.is_there() {
            let _ = std::fs::remove_file(&self.0.path);
        }
    }
}

/// Returns the identity of a file, whatever its name is.
fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
