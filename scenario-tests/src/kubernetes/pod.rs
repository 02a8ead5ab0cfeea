//! A Pod, run as a node runs it: each container is a process with its own root folder, in which volumes are mounted at
//! their paths.
//!
//! Not included are the other functions of a node: users, limits, probes, hooks. A Pod uses the network of the story,
//! where the API server is at 127.0.0.1, or the network namespace of another process, where the name [`API_SERVER`] leads
//! to it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Cluster;
use crate::process::Process;
use crate::world::World;

/// The name of the API server for Pods with a network of their own; `hosts` has its address.
pub const API_SERVER: &str = "kubernetes.default.svc";
/// The mount path of a Pod's service account, as on every node.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The folder of an image's programs.
const PROGRAMS: &str = "/usr/local/image";
/// Builds the root folder `$1` from the machine's programs and the pairs of source and mount path in the file `$2`, and
/// runs the remaining arguments in it.
const ENTER: &str = r#"
root=$1 mounts=$2
shift 2
for top in bin sbin lib lib32 lib64 usr dev proc; do
  if [ -L "/$top" ]; then cp -a "/$top" "$root/$top"
  elif [ -d "/$top" ]; then mkdir -p "$root/$top"; mount --rbind "/$top" "$root/$top"
  fi
done
mount -t tmpfs image "$root/usr/local"
while read -r source place; do
  if [ -d "$source" ]; then mkdir -p "$root$place"; else mkdir -p "$root${place%/*}"; : > "$root$place"; fi
  mount --bind "$source" "$root$place"
done < "$mounts"
exec chroot "$root" "$@"
"#;

/// Programs by their names in an image; the first one is the entrypoint.
pub type Image<'p> = [(&'p str, PathBuf)];

/// A running Pod. Dropping it ends its containers.
#[derive(Debug)]
pub struct Pod {
    /// The processes by the names of their containers.
    containers: Vec<(String, Process)>,
    /// The folder of the volumes.
    folder: PathBuf,
}

/// Inputs for a Pod.
#[derive(Debug)]
pub struct PodInputs<'c> {
    /// The story's world.
    pub world: &'c World,
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The Pod, as the API server returns it.
    pub pod: &'c Value,
    /// Names and addresses, as in a hosts file.
    pub hosts: &'c [(&'c str, &'c str)],
    /// A process in the network namespace of the Pod; none: the Pod uses that of the story.
    pub network: Option<u32>,
}

impl Pod {
    /// Starts the containers of a Pod, with the programs of their images.
    pub async fn start(made: &PodInputs<'_>, image: impl Fn(&str) -> Result<Box<Image<'static>>>) -> Result<Self> {
        let folder = made.world.log(text(&made.pod["metadata"]["name"])?).with_extension("pod");
        let mut containers = Vec::new();
        for container in list_of(&made.pod["spec"]["containers"]) {
            let image = image(text(&container["image"])?)?;
            let process = made.start(container, &image, &folder).await?;
            containers.push((text(&container["name"])?.to_owned(), process));
        }
        Ok(Self { containers, folder })
    }

    /// Starts a container again, with the volumes as they are. Its process must have ended.
    pub async fn restart(
        &mut self,
        made: &PodInputs<'_>,
        name: &str,
        image: impl Fn(&str) -> Result<Box<Image<'static>>>,
    ) -> Result<()> {
        let container = list_of(&made.pod["spec"]["containers"]).find(|container| container["name"] == name);
        let container = container.with_context(|| format!("no container {name}"))?;
        let image = image(text(&container["image"])?)?;
        let process = made.start(container, &image, &self.folder).await?;
        let (_, place) = self.containers.iter_mut().find(|(own, _)| own == name).context("the Pod has not run it")?;
        *place = process;
        Ok(())
    }

    /// The process id of a container.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.containers.iter().find(|(own, _)| own == name).map(|(_, process)| process.id())
    }

    /// Returns the name of a container that has ended, if any, with its exit status and output.
    pub fn ended(&mut self) -> Result<Option<(String, String)>> {
        for (name, container) in &mut self.containers {
            if let Some(status) = container.ended()? {
                return Ok(Some((name.clone(), format!("{status}; output:\n{}", container.output()))));
            }
        }
        Ok(None)
    }

    /// The files with the standard output of the containers, by their names.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.containers.iter().map(|(name, process)| (name.as_str(), process.stdout_file()))
    }
}

impl PodInputs<'_> {
    /// Starts a container; `pod` is the folder of the Pod.
    async fn start(&self, container: &Value, image: &Image<'_>, pod: &Path) -> Result<Process> {
        let name = text(&container["name"])?;
        let (log, folder) = (self.world.log(name), pod.join(name));
        // A new one for each start: a process that has been killed leaves its root folder behind.
        let root = log.with_extension("root");
        fs::create_dir_all(&root)?;
        let mut mounts = self.volumes(container, pod).await?;
        mounts.extend(self.account(&folder).await?);
        mounts.push((self.etc(&folder)?, "/etc".into()));
        mounts.extend(image.iter().map(|(name, program)| (program.clone(), format!("{PROGRAMS}/{name}"))));
        // Parent folders are mounted first.
        mounts.sort_by(|one, other| one.1.cmp(&other.1));
        let listed: String = mounts.iter().map(|(from, to)| format!("{} {to}\n", from.display())).collect();
        let list = folder.join("mounts");
        fs::write(&list, listed)?;
        let environment = self.environment(container)?;
        let filled = |word: &str| {
            environment.iter().fold(word.to_owned(), |word, (name, value)| word.replace(&format!("$({name})"), value))
        };
        let (first, _) = image.first().context("an image without a program")?;
        let paths = [&root, &list].map(|path| path.display().to_string());
        let mut line: Vec<String> =
            ["unshare", "--mount", "--", "sh", "-euc", ENTER, "enter"].map(str::to_owned).into();
        line.extend(paths);
        line.push(format!("{PROGRAMS}/{first}"));
        for word in list_of(&container["args"]) {
            line.push(filled(text(word)?));
        }
        if let Some(id) = self.network {
            line.splice(0..0, ["nsenter".to_owned(), format!("--net=/proc/{id}/ns/net"), "--".to_owned()]);
        }
        let program = line.remove(0);
        Process::start(Path::new(&program), line, &environment, &log)
    }

    fn namespace(&self) -> Result<&str> {
        text(&self.pod["metadata"]["namespace"])
    }

    /// Returns the folders of the volumes with their mount paths.
    async fn volumes(&self, container: &Value, folder: &Path) -> Result<Vec<(PathBuf, String)>> {
        let mut mounts = Vec::new();
        for mount in list_of(&container["volumeMounts"]) {
            let name = text(&mount["name"])?;
            let of_name = |volume: &&Value| volume["name"] == mount["name"];
            let volume = list_of(&self.pod["spec"]["volumes"]).find(of_name).with_context(|| name.to_owned())?;
            let source = match volume["persistentVolumeClaim"]["claimName"].as_str() {
                // The claim's folder outlives the Pod.
                Some(claim) => self.world.folder().join("claims").join(claim),
                None => folder.join("volumes").join(name),
            };
            fs::create_dir_all(&source)?;
            self.fill(volume, &source).await?;
            mounts.push((source, text(&mount["mountPath"])?.to_owned()));
        }
        Ok(mounts)
    }

    async fn fill(&self, volume: &Value, folder: &Path) -> Result<()> {
        if let Some(name) = volume["secret"]["secretName"].as_str() {
            for (key, value) in self.data("secret", name).await? {
                if let Some(file) = file_of(&volume["secret"]["items"], &key) {
                    fs::write(folder.join(file), STANDARD.decode(text(&value)?)?)?;
                }
            }
        } else if let Some(name) = volume["configMap"]["name"].as_str() {
            for (key, value) in self.data("configmap", name).await? {
                if let Some(file) = file_of(&volume["configMap"]["items"], &key) {
                    fs::write(folder.join(file), text(&value)?)?;
                }
            }
        } else if let Some(sources) = volume["projected"]["sources"].as_array() {
            for source in sources {
                let token = &source["serviceAccountToken"];
                let audience = format!("--audience={}", text(&token["audience"])?);
                fs::write(folder.join(text(&token["path"])?), self.token(&[&audience]).await?)?;
            }
        } else if volume.get("emptyDir").is_none() && volume.get("persistentVolumeClaim").is_none() {
            bail!("a volume that no node of these stories knows: {volume}");
        }
        Ok(())
    }

    async fn data(&self, kind: &str, name: &str) -> Result<serde_json::Map<String, Value>> {
        let output = self.cluster.kubectl_output(&["-n", self.namespace()?, "get", kind, name, "-o", "json"]).await?;
        let object: Value = serde_json::from_str(&output)?;
        object["data"].as_object().cloned().with_context(|| format!("{kind} {name} has no data"))
    }

    /// Creates a token of the Pod's service account.
    async fn token(&self, args: &[&str]) -> Result<String> {
        let account = text(&self.pod["spec"]["serviceAccountName"])?;
        let all = [&["-n", self.namespace()?, "create", "token", account], args].concat();
        Ok(self.cluster.kubectl_output(&all).await?.trim().to_owned())
    }

    /// Writes the files that a process needs for requests to the API server, unless the Pod disables them or has no
    /// service account.
    async fn account(&self, folder: &Path) -> Result<Option<(PathBuf, String)>> {
        let spec = &self.pod["spec"];
        if spec["automountServiceAccountToken"] == false || spec["serviceAccountName"].is_null() {
            return Ok(None);
        }
        let folder = folder.join("account");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("token"), self.token(&[]).await?)?;
        fs::write(folder.join("namespace"), self.namespace()?)?;
        fs::copy(self.cluster.authority(), folder.join("ca.crt"))?;
        Ok(Some((folder, ACCOUNT.into())))
    }

    /// Writes the folder `/etc`, where names are resolved with the hosts file only.
    fn etc(&self, folder: &Path) -> Result<PathBuf> {
        let folder = folder.join("etc");
        fs::create_dir_all(&folder)?;
        let hosts: String = self.hosts.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        fs::write(folder.join("hosts"), format!("127.0.0.1 localhost\n{hosts}"))?;
        fs::write(folder.join("nsswitch.conf"), "hosts: files\n")?;
        fs::write(folder.join("resolv.conf"), "")?;
        Ok(folder)
    }

    fn environment(&self, container: &Value) -> Result<Vec<(String, String)>> {
        let api_server = if self.network.is_some() { API_SERVER } else { "127.0.0.1" };
        let mut all = vec![
            ("PATH".to_owned(), format!("{PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin")),
            ("HOME".to_owned(), "/".to_owned()),
            ("ENVOY_BIN".to_owned(), format!("{PROGRAMS}/envoy")),
            ("KUBERNETES_SERVICE_HOST".to_owned(), api_server.to_owned()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), self.cluster.port().to_string()),
        ];
        for variable in list_of(&container["env"]) {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some(path) => self.pod.pointer(&format!("/{}", path.replace('.', "/"))),
                None => variable.get("value"),
            };
            let value = value.with_context(|| format!("no value: {variable}"))?;
            all.push((text(&variable["name"])?.to_owned(), text(value)?.to_owned()));
        }
        Ok(all)
    }
}

/// Returns the file of a key: the one that the items of the volume name, or without items the key.
fn file_of<'v>(items: &'v Value, key: &'v str) -> Option<&'v str> {
    if items.is_null() {
        return Some(key);
    }
    list_of(items).find(|item| item["key"] == *key)?["path"].as_str()
}

fn list_of(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("no text: {value}"))
}
