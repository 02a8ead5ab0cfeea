//! Where the server listens: a TCP address or a unix socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::limits::BACKLOG;

/// Where to listen.
#[derive(Debug)]
pub enum Listen {
    /// A TCP address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A TCP socket that listens already.
    Socket(std::net::TcpListener),
    /// A unix socket. It is made for this user alone (mode 0600); the socket of a server that is gone is replaced.
    Unix(PathBuf),
}

/// Where the server listens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address, with the port that was taken.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The TCP address, where it is one.
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

/// Why the server doesn't serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else listens there.
    #[error("{0} is in use by another process")]
    InUse(Address),
    /// This user may not listen there.
    #[error("no permission to listen on {0}")]
    Denied(Address),
    /// There is a file in the place of the unix socket.
    #[error("{0} is a file and not a socket; it is left alone")]
    NotASocket(Address),
    /// Listening failed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The server stopped by itself.
    #[error("the xDS server on {address} failed: {source}")]
    Serve {
        /// Where it listened.
        address: Address,
        /// Why.
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

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, OwnedPath),
}

/// Starts to listen.
pub(crate) fn open(listen: Listen) -> Result<(Socket, Address), ServeError> {
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
            let (socket, path) = bind_unix(&path).map_err(|error| match error {
                UnixError::InUse => ServeError::InUse(address.clone()),
                UnixError::NotASocket => ServeError::NotASocket(address.clone()),
                UnixError::Io(source) => ServeError::of(address.clone(), source),
            })?;
            Ok((Socket::Unix(socket, path), address))
        }
    }
}

fn tcp(socket: TcpListener, wanted: SocketAddr) -> Result<(Socket, Address), ServeError> {
    let address = socket.local_addr().map_err(|source| ServeError::of(Address::Tcp(wanted), source))?;
    Ok((Socket::Tcp(socket), Address::Tcp(address)))
}

/// With a long queue of connections to be accepted: a whole fleet comes back at once.
fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // So that a server that starts again gets its port at once.
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

/// Made under another name in a directory nobody else can look into, and moved into place when its mode is right.
fn bind_unix(path: &Path) -> Result<(UnixListener, OwnedPath), UnixError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(UnixError::NotASocket),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => return Err(UnixError::InUse),
        _ => {}
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = parent.join(format!(".{}", std::process::id()));
    // Left by a process of the same number that ended in between.
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

/// The socket file; removed when the server ends, unless another server has put its own there.
#[derive(Debug)]
pub(crate) struct OwnedPath {
    path: PathBuf,
    inode: (u64, u64),
}

impl OwnedPath {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), inode: inode(path)? })
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Which file this is, whatever its name.
fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
