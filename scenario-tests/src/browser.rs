//! A headless Chromium, driven through its WebDriver: what a person sees of a page, and what scripts of the page do.

mod find;
pub mod without_live;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

pub use find::{accessibility_rules, find};

use crate::process::Process;
use crate::{World, until};

/// The colours that a page should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourScheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

/// A browser with one window. [`Browser::end`] ends it; a story that fails leaves that to the end of its driver.
pub struct Browser {
    client: Client,
    _driver: Process,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(world: &World, colours: ColourScheme) -> Result<Self> {
        let tools = find().map_err(|missing| anyhow::anyhow!(missing.why))?;
        let port = world.port()?;
        let driver = Process::start(&tools.driver, [format!("--port={port}")], &[], &world.log("chromedriver"))?;
        let profile = world.folder().join(format!("chromium-{port}"));
        fs::create_dir(&profile)?;
        // A test runs as root in a container, and must not send anything to other hosts.
        let arguments = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--hide-scrollbars".to_owned(),
            format!("--user-data-dir={}", profile.display()),
            format!("--blink-settings=preferredColorScheme={}", u8::from(colours == ColourScheme::Light)),
        ];
        let options = json!({ "goog:chromeOptions": { "args": arguments, "binary": tools.browser } });
        let options = options.as_object().context("no options")?.clone();
        let address = format!("http://127.0.0.1:{port}");
        let client = until("the browser starts", || async {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            Ok(builder.capabilities(options.clone()).connect(&address).await?)
        })
        .await?;
        Ok(Self { client, _driver: driver })
    }

    /// Opens an address, and waits until it is loaded.
    pub async fn open(&self, address: &str) -> Result<()> {
        self.client.goto(address).await.with_context(|| format!("open {address}"))
    }

    /// Sets the size of the window.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        Ok(self.client.set_window_size(width, height).await?)
    }

    /// Runs a script as a function; returns what it returns.
    pub async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Clicks on the first element of a CSS selector, as a person does: with the rights that a browser gives for it.
    pub async fn click(&self, selector: &str) -> Result<()> {
        Ok(self.client.find(Locator::Css(selector)).await?.click().await?)
    }

    /// Runs a script with a promise, `return promise`, and returns its value.
    pub async fn run_to_the_end(&self, script: &str) -> Result<Value> {
        let script = format!(
            "const done = arguments[arguments.length - 1]; (async () => {{ {script} }})().then(done, error => done('failed: ' + error));"
        );
        Ok(self.client.execute_async(&script, Vec::new()).await?)
    }

    /// The visible text.
    pub async fn text(&self) -> Result<String> {
        let text = self.run("return document.body.innerText;").await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the page shows all of these texts, without loading it.
    pub async fn comes_to_show(&self, words: &[&str]) -> Result<()> {
        until(&format!("the page shows {words:?}"), || async {
            let text = self.text().await?;
            let missing = words.iter().find(|words| !text.contains(**words));
            ensure!(missing.is_none(), "{missing:?} is not in:\n{text}");
            Ok(())
        })
        .await
    }

    /// Returns the violations of accessibility rules in the open page, one on a line.
    ///
    /// # Errors
    /// If the rules cannot be run.
    pub async fn accessibility_violations(&self, rules: &str) -> Result<Vec<String>> {
        self.run(&format!("{rules}; window.axe = axe;")).await?;
        let script = "const found = await axe.run(document, { resultTypes: ['violations'] });
            return found.violations.flatMap(one => one.nodes.map(node => `${one.id}: ${node.html} ${node.failureSummary}`));";
        let found = self.run_to_the_end(script).await?;
        let found = found.as_array().with_context(|| format!("the rules were not run: {found}"))?;
        Ok(found.iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Writes a picture of the window.
    pub async fn picture(&self, file: &Path) -> Result<()> {
        fs::write(file, self.client.screenshot().await?).with_context(|| format!("write {}", file.display()))
    }

    /// Closes the window, which ends the browser.
    pub async fn end(self) -> Result<()> {
        Ok(self.client.close().await?)
    }
}
