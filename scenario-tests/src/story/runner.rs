//! Runs a story: one step after the other, each until no message is left.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::language::{Many, StoryFile, StoryStep};
use super::stage::StoryStage;
use super::{expect, invariants};

/// Runs the story of a file.
pub fn file(path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let documents = holdfast_test_support::documents(&text);
    let [document] = &documents[..] else { bail!("a story is one document") };
    let story: StoryFile = serde_json::from_value(document.clone()).context("not a story")?;
    run(&story).with_context(|| story.why.clone())
}

fn run(story: &StoryFile) -> Result<()> {
    let mut stage = StoryStage::new(story.settings.settings(), story.settings.probe.clone());
    for (node, envoy) in &story.envoys {
        stage.add_envoy(node, &envoy.build, &envoy.gateway);
    }
    let at_once: Vec<String> =
        story.envoys.iter().filter(|(_, envoy)| !envoy.later).map(|(node, _)| node.clone()).collect();
    let mut connected = false;
    for (index, step) in story.steps.iter().enumerate() {
        let step_context = || format!("step {}, {}", index + 1, shown(step));
        take(&mut stage, step).with_context(step_context)?;
        if !connected && !matches!(step, StoryStep::Refuse(_)) {
            // The Gateways exist from here on.
            connected = true;
            stage.connect(&at_once).with_context(|| format!("Envoys connect after {}", step_context()))?;
        }
        invariants::check(&mut stage).with_context(step_context)?;
    }
    Ok(())
}

/// Performs one step.
pub fn take(stage: &mut StoryStage, step: &StoryStep) -> Result<()> {
    match step {
        StoryStep::Apply(text) => stage.apply(text),
        StoryStep::ApplyEarly(early) => stage.apply_early(&early.apply, early.rounds),
        StoryStep::ApplyMany(many) => stage.apply(&repeated(many)),
        StoryStep::Delete(names) => {
            let events = stage.take_away(names)?;
            stage.happen(events)
        }
        StoryStep::Recreate(text) => {
            let names: Vec<String> = stage.writer.objects(text)?.iter().map(super::short::name_of).collect();
            let events = stage.take_away(&names)?;
            stage.happen(events)?;
            stage.apply(text)
        }
        StoryStep::Unusable(names) => stage.spoil(names),
        StoryStep::Refuse(oracle) => {
            stage.oracles.push(*oracle.clone());
            Ok(())
        }
        StoryStep::Accept(name) => {
            let before = stage.oracles.len();
            stage.oracles.retain(|oracle| oracle.name != *name);
            stage.forgive();
            if stage.oracles.len() == before { bail!("nothing is refused under the name {name}") } else { Ok(()) }
        }
        StoryStep::Connect(nodes) => stage.connect(nodes),
        StoryStep::Disconnect(nodes) => stage.disconnect(nodes),
        StoryStep::Fresh(nodes) => each(stage, nodes, super::envoy::Envoy::forget),
        StoryStep::Silence(nodes) => {
            stage.probe_is_silent |= nodes.iter().any(|node| node == PROBE);
            each(stage, &envoys(nodes), |envoy| envoy.silent = true)
        }
        StoryStep::Speak(nodes) => {
            stage.probe_is_silent &= nodes.iter().all(|node| node != PROBE);
            each(stage, &envoys(nodes), |envoy| envoy.silent = false)?;
            stage.happen(vec![])
        }
        StoryStep::Taken(ports) => {
            let taken =
                ports.iter().map(|(port, process)| ((Ipv4Addr::UNSPECIFIED, *port).into(), (&**process).into()));
            stage.taken = taken.collect();
            stage.happen(vec![holdfast_engine::engine::Event::PortsTaken(stage.taken.clone())])
        }
        StoryStep::Probe(build) => {
            stage.probe.clone_from(build);
            let build = build.clone().map(std::sync::Arc::from);
            stage.happen(vec![holdfast_engine::engine::Event::Probe(build)])
        }
        StoryStep::Clock(seconds) => stage.pass(*seconds),
        StoryStep::Stop => {
            stage.stop();
            Ok(())
        }
        StoryStep::Start => stage.start(),
        StoryStep::StartWithoutEnvoys => stage.start_without_envoys(),
        StoryStep::List => stage.list(),
        StoryStep::Restart => {
            stage.stop();
            stage.start()?;
            stage.list()
        }
        StoryStep::Set(set) => {
            stage.settings = set.settings();
            stage.probe.clone_from(&set.probe);
            Ok(())
        }
        StoryStep::Count => {
            stage.counts = Default::default();
            Ok(())
        }
        StoryStep::Expect(expected) => expect::check(stage, expected),
    }
}

/// The name of the probe among Envoys.
const PROBE: &str = "probe";

fn envoys(nodes: &[String]) -> Vec<String> {
    nodes.iter().filter(|node| *node != PROBE).cloned().collect()
}

fn each(stage: &mut StoryStage, nodes: &[String], change: impl Fn(&mut super::envoy::Envoy)) -> Result<()> {
    for node in nodes {
        change(stage.envoys.get_mut(node).with_context(|| format!("no Envoy {node}"))?);
    }
    Ok(())
}

fn repeated(many: &Many) -> String {
    let one = |number: usize| {
        let mark = if many.bad.contains(&number) { "BAD" } else { "good" };
        many.text.replace("$N", &format!("{number:04}")).replace("$MARK", mark)
    };
    (0..many.count).map(one).collect::<Vec<_>>().join("\n---\n")
}

fn shown(step: &StoryStep) -> String {
    let text = format!("{step:?}");
    let end = text.char_indices().nth(300).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default().to_owned()
}
