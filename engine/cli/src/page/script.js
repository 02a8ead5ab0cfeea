// Loads the content again when health changes. Without it, the page is complete, and loaded again every 30 seconds.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const stale = document.getElementById("stale");
  const time = document.querySelector("#connection time");
  let seen = live.dataset.changes;
  let loading = false, again = false;

  const isBusy = () => live.contains(document.activeElement) && /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)
    || (!getSelection().isCollapsed && live.contains(getSelection().anchorNode));

  async function load() {
    if (loading) { again = true; return; }
    if (isBusy()) { setTimeout(load, 2000); return; }
    loading = true;
    try {
      const response = await fetch(location.href, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = page.getElementById("live");
      if (!next) throw new Error(response.statusText);
      const open = new Set([...live.querySelectorAll("details[open]")].map(one => one.id));
      const focused = live.contains(document.activeElement) && (document.activeElement.id || document.activeElement.getAttribute("href"));
      const scrolled = [...live.querySelectorAll(".wide, pre")].map(one => one.scrollLeft);
      live.replaceChildren(...next.childNodes);
      live.querySelectorAll("details").forEach(one => { one.open = open.has(one.id); });
      live.querySelectorAll(".wide, pre").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
      if (focused) [...live.querySelectorAll("[id], a")].find(one => one.id === focused || one.getAttribute("href") === focused)?.focus({ preventScroll: true });
      seen = next.dataset.changes;
      live.dataset.changes = seen;
      time.textContent = page.querySelector("#connection time").textContent;
      stale.textContent = "";
      prepare();
    } catch {
      stale.textContent = ". Holdfast does not answer: what is shown may be out of date.";
    } finally {
      loading = false;
      if (again) { again = false; setTimeout(load, 1000); }
    }
  }

  function prepare() {
    live.querySelectorAll("[data-copy]").forEach(button => { button.hidden = false; });
  }

  live.addEventListener("click", async event => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    getSelection().selectAllChildren(source);
    let copied = true;
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      copied = document.execCommand("copy");
    }
    if (copied) getSelection().removeAllRanges();
    button.textContent = copied ? "Copied" : "The text is selected: copy it";
  });

  let polling = false;
  function poll() {
    if (polling) return;
    polling = true;
    setInterval(() => { if (!document.hidden) load(); }, 5000);
  }

  // A browser has few connections to one host, for all its tabs: only a page that is visible has a stream.
  let events = null;
  function listen() {
    if (!window.EventSource) { poll(); return; }
    if (events || document.hidden) return;
    let opened = false;
    events = new EventSource("/live");
    events.addEventListener("open", () => {
      // What happened in between is not known.
      if (opened) load();
      opened = true;
    });
    events.addEventListener("change", event => { if (event.data !== seen) load(); });
    events.addEventListener("error", () => {
      if (events && events.readyState === EventSource.CLOSED) poll(); else load();
    });
  }

  function rest() {
    if (events) events.close();
    events = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { rest(); return; }
    load();
    listen();
  });
  addEventListener("pagehide", rest);
  addEventListener("pageshow", event => {
    if (event.persisted) load();
    listen();
  });
  // Ages grow without any change.
  setInterval(() => { if (!document.hidden) load(); }, 60000);
  prepare();
})();
