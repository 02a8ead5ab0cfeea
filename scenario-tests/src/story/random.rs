//! Random stories: objects, Envoys and refusals from a seed.
//!
//! The invariants are checked after each step; at the end all faults are corrected, and then all Envoys must have
//! exactly the desired configuration. A seed always gives the same story. A story that fails prints its seed and itself
//! as the YAML of a story; with `HOLDFAST_STORY_SHRINK`, the shortest story that fails in the same way.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use holdfast_engine::engine::Event;
use holdfast_graph::{Detected, ObjectKey};
use holdfast_test_support::scopes::scopes;
use libtest_mimic::{Failed, Trial};

use super::dice::Dice;
use super::language::{EarlyApply, Expect, How, Refuse, Set, StoryFile, StoryNode, StoryStep};
use super::stage::StoryStage;
use super::{expect, invariants, runner, shrink};

/// Number of seeds, instead of [`SEEDS`].
const SEEDS_VARIABLE: &str = "HOLDFAST_STORY_SEEDS";
/// The only seed to run.
const SEED_VARIABLE: &str = "HOLDFAST_STORY_SEED";
/// If set, objects change while answers to earlier changes are in flight.
const EARLY_VARIABLE: &str = "HOLDFAST_STORY_HASTE";
/// If set, a story that fails is reduced.
const SHRINK_VARIABLE: &str = "HOLDFAST_STORY_SHRINK";
/// Number of seeds by default.
const SEEDS: u64 = 16;
/// Number of steps of a story.
const STEPS: usize = 30;
/// Number of route names.
const ROUTES: u64 = 6;
/// Policies and their targets: the Gateway, its listener, and routes.
const GUARDED: [(&str, &str); 4] = [
    ("infra/guard-all", "Gateway/public"),
    ("infra/guard-http", "Gateway/public#http"),
    ("shop/guard-r0", "HTTPRoute/r0"),
    ("shop/guard-r1", "HTTPRoute/r1"),
];
/// Extensions that policies refer to; they add filters to the chains of listeners.
const EXTENSIONS: [&str; 3] = ["shop/x0", "shop/x1", "infra/x0"];
/// The texts that Envoys refuse, alone or together with another one.
const MARKS: [&str; 8] = ["BAD", "ODD", "FALSE", "LONE", "NOFILTER", "LEFT", "RIGHT", "CRASH"];
/// Builds of Envoys.
const BUILDS: [&str; 2] = ["1.36.0", "1.30.0"];

/// Returns the random stories.
pub fn trials() -> Vec<Trial> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number(SEED_VARIABLE) {
        Some(seed) => seed..seed + 1,
        None => 0..number(SEEDS_VARIABLE).unwrap_or(SEEDS),
    };
    let trial = |seed: u64| {
        Trial::test(format!("random::seed_{seed:04}"), move || {
            run_seed(seed).map_err(|error| Failed::from(format!("{SEED_VARIABLE}={seed}: {error:#}")))
        })
    };
    seeds.map(trial).collect()
}

fn run_seed(seed: u64) -> Result<()> {
    let mut dice = Dice::new(seed);
    let mut story = StoryFile {
        why: format!("a random story, seed {seed}"),
        settings: settings(&mut dice),
        envoys: BTreeMap::new(),
        steps: Vec::new(),
    };
    let Err(error) = play(&mut dice, &mut story) else { return Ok(()) };
    let fault = error.root_cause().to_string();
    if std::env::var_os(SHRINK_VARIABLE).is_some() {
        story =
            shrink::shortest(story, |story| again(story).is_err_and(|error| error.root_cause().to_string() == fault));
    }
    Err(error.context(shrink::yaml(&story)?))
}

/// Plays the steps of a story that was played before.
fn again(story: &StoryFile) -> Result<()> {
    let mut stage = StoryStage::new(story.settings.settings(), story.settings.probe.clone());
    for (node, envoy) in &story.envoys {
        stage.add_envoy(node, &envoy.build, &envoy.gateway);
    }
    story.steps.iter().try_for_each(|next| perform(&mut stage, next))
}

fn play(dice: &mut Dice, story: &mut StoryFile) -> Result<()> {
    let stage = &mut StoryStage::new(story.settings.settings(), story.settings.probe.clone());
    // Two of each build: if the only Envoy of a build crashes, the cause cannot be attributed.
    let count = 2 + 2 * dice.below(2);
    let envoys: Vec<String> = (0..count).map(|index| format!("e{index}")).collect();
    for (index, node) in envoys.iter().enumerate() {
        let node_of = StoryNode {
            build: BUILDS[index / 2 % BUILDS.len()].into(),
            gateway: "infra/public".into(),
            // A separate step connects it.
            later: true,
        };
        stage.add_envoy(node, &node_of.build, &node_of.gateway);
        story.envoys.insert(node.clone(), node_of);
    }
    // The refusals of a build do not change during a story.
    for oracle in oracles() {
        step(stage, StoryStep::Refuse(Box::new(oracle)), story)?;
    }
    let good = dice.one_in(2);
    let first =
        (0..ROUTES).map(|index| route(index, dice, good).replace("CRASH", "good")).collect::<Vec<_>>().join("\n---\n");
    let basics = "{basics: 'yes'}\n---\n{service: other/c}\n---\n{grant: other, from: shop}\n---\n\
        {service: team/a}\n---\n{service: team/b}\n---\n\
        {service: shop/auth, appProtocol: kubernetes.io/h2c}\n---\n\
        {service: infra/auth, appProtocol: kubernetes.io/h2c}\n---\n";
    step(stage, StoryStep::Apply(format!("{basics}{first}")), story)?;
    step(stage, StoryStep::Connect(envoys.clone()), story)?;
    let early = std::env::var_os(EARLY_VARIABLE).is_some();
    for _ in 0..STEPS {
        for next in any_steps(stage, dice, &envoys) {
            let next = match next {
                StoryStep::Apply(apply) if early && dice.one_in(2) => {
                    StoryStep::ApplyEarly(EarlyApply { rounds: dice.below(4), apply })
                }
                other => other,
            };
            step(stage, next, story)?;
        }
    }
    stage.happen(vec![])?;
    mend(stage, dice, &envoys, story)
}

/// Corrects all faults: nothing is refused, all objects are valid, all Envoys are connected. No deviation may remain.
fn mend(stage: &mut StoryStage, dice: &mut Dice, envoys: &[String], story: &mut StoryFile) -> Result<()> {
    for oracle in oracles() {
        step(stage, StoryStep::Accept(oracle.name), story)?;
    }
    step(stage, StoryStep::Speak(envoys.to_vec()), story)?;
    step(stage, StoryStep::Taken(BTreeMap::new()), story)?;
    let away = envoys.iter().filter(|node| stage.envoys.get(*node).is_some_and(|envoy| !envoy.connected));
    step(stage, StoryStep::Connect(away.cloned().collect()), story)?;
    step(
        stage,
        StoryStep::Apply(
            "{gateway: infra/public, scope: All}\n---\n{service: shop/a}\n---\n{service: shop/b}\n---\n{service: team/a}\n---\n{grant: other, from: shop}".into(),
        ),
        story,
    )?;
    let all = (0..ROUTES).map(|index| route(index, dice, true)).collect::<Vec<_>>().join("\n---\n");
    let policies: Vec<String> =
        stage.objects.keys().filter(|key| &*key.kind == "TrafficPolicy").map(expect::name).collect();
    step(stage, StoryStep::Delete(policies), story)?;
    step(stage, StoryStep::Clock(3), story)?;
    step(stage, StoryStep::Apply(all), story)?;
    let guards = (0..3).map(|_| policy(dice, true)).collect::<Vec<_>>().join("\n---\n");
    step(stage, StoryStep::Apply(guards), story)?;
    step(stage, StoryStep::Clock(70), story)?;
    // An outlier Envoy accepts newer content again.
    let again = (0..ROUTES).map(|index| route(index, dice, true)).collect::<Vec<_>>().join("\n---\n");
    step(stage, StoryStep::Apply(again), story)?;
    step(stage, StoryStep::Clock(70), story)?;
    let all_well = Expect {
        steps: Some(Default::default()),
        broken: Some(Default::default()),
        held_as_a_whole: Some(false),
        alone: Some(vec![]),
        as_new: Some(true),
        ..Expect::default()
    };
    let mut builds = BUILDS.to_vec();
    builds.retain(|build| stage.envoys.values().any(|envoy| &*envoy.id.build == *build));
    for build in builds {
        let expected = Expect { build: Some(build.into()), ..all_well.clone() };
        step(stage, StoryStep::Expect(Box::new(expected)), story)
            .with_context(|| format!("{build}, when everything is mended"))?;
    }
    Ok(())
}

fn step(stage: &mut StoryStage, step: StoryStep, story: &mut StoryFile) -> Result<()> {
    story.steps.push(step.clone());
    perform(stage, &step)
}

fn perform(stage: &mut StoryStage, step: &StoryStep) -> Result<()> {
    if let StoryStep::ApplyEarly(_) = step {
        return runner::take(stage, step);
    }
    // All other steps start without messages in flight.
    stage.happen(vec![])?;
    runner::take(stage, step)?;
    invariants::check(stage)?;
    innocents_are_not_refused(stage)
}

/// Checks that each object that is reported as refused contains one of the texts that Envoys refuse, or that its message
/// names one that does: a route and a policy of it that are both new cannot be tried separately.
fn innocents_are_not_refused(stage: &StoryStage) -> Result<()> {
    // While everything is held, the only change is reported: the text that Envoys refuse may be in an object that the
    // changed one now refers to.
    for scope in stage.engine.iter().flat_map(scopes).filter(|scope| !scope.held_as_a_whole) {
        for (node, (detected, message)) in &scope.broken {
            // An object that is the only new one when an Envoy does not answer is reported without a proof.
            let is_refused =
                matches!(detected, Detected::Nack | Detected::Probe) && !message.contains("stopped answering");
            let is_known = matches!(stage.objects.get(&node.key), Some(Event::Applied(..)));
            let is_guilty = || guilty(stage).any(|key| *key == node.key || message.contains(&key.to_string()));
            // The removal of a policy waits for some seconds, and the verdict about the route with it. A policy that cannot
            // be read any more applies as it was read last.
            let is_readable = |name: &str| {
                let mut objects = stage.objects.iter();
                objects.any(|(key, event)| key.to_string() == name && matches!(event, Event::Applied(..)))
            };
            let is_removed = || named_beside(message).is_some_and(|name| !is_readable(name));
            ensure!(
                !is_refused || !is_known || is_guilty() || is_removed(),
                "{} contains nothing that Envoys refuse: {message}",
                node.key
            );
        }
    }
    Ok(())
}

/// Returns the name of the first object together with which another one is refused.
fn named_beside(message: &str) -> Option<&str> {
    let (_, names) = message.split_once("(together with ")?;
    names.split([',', ' ']).next()
}

/// Returns the objects with one of the texts that Envoys refuse.
fn guilty(stage: &StoryStage) -> impl Iterator<Item = &ObjectKey> {
    let is_guilty = |event: &Event| match event {
        Event::Applied(object, _) => {
            let text = format!("{:?}", object.body);
            MARKS.iter().any(|mark| text.contains(mark))
        }
        _ => false,
    };
    stage.objects.iter().filter(move |(_, event)| is_guilty(event)).map(|(key, _)| key)
}

fn settings(dice: &mut Dice) -> Set {
    Set {
        fallback_configuration: !dice.one_in(4),
        use_last_valid: !dice.one_in(3),
        backfill_dependants: !dice.one_in(3),
        invalid_route_replacement: !dice.one_in(3),
        backfill_unresolved_references: dice.one_in(4),
        max_backfill_age: dice.one_in(4).then_some(60),
        probe: dice.one_in(3).then(|| BUILDS[0].into()),
        standalone: dice.one_in(3),
        ..Set::default()
    }
}

/// The refusals of Envoys, equal in all stories.
fn oracles() -> Vec<Refuse> {
    let text = |text: &str| vec![text.to_owned()];
    vec![
        Refuse { name: "all".into(), route: text("BAD"), ..Refuse::default() },
        Refuse { name: "one build".into(), builds: text(BUILDS[1]), route: text("ODD"), ..Refuse::default() },
        Refuse { name: "policy".into(), anywhere: text("FALSE"), ..Refuse::default() },
        Refuse { name: "one node".into(), nodes: text("e1"), route: text("LONE"), ..Refuse::default() },
        Refuse { name: "filter".into(), listener: Some("NOFILTER".into()), ..Refuse::default() },
        Refuse { name: "pair".into(), together: vec!["LEFT".into(), "RIGHT".into()], ..Refuse::default() },
        Refuse { name: "crash".into(), route: text("CRASH"), how: How::Die, ..Refuse::default() },
    ]
}

/// The namespace of a route.
fn namespace(index: u64) -> &'static str {
    if index < ROUTES - 2 { "shop" } else { "team" }
}

/// Returns a random route; if `good`, no Envoy refuses it.
fn route(index: u64, dice: &mut Dice, good: bool) -> String {
    let mark = match dice.below(12) {
        _ if good => format!("good{}", dice.below(1000)),
        0 | 1 => format!("BAD{}", dice.below(4)),
        2 => "ODD".into(),
        3 => "LEFT".into(),
        4 => "RIGHT".into(),
        5 if dice.one_in(3) => "CRASH".into(),
        6 if dice.one_in(3) => "LONE".into(),
        _ => format!("good{}", dice.below(6)),
    };
    let to = ["a", "b", "other/c", "nowhere"][dice.index(if good { 3 } else { 4 })];
    // Only one of the namespaces has a grant.
    let to = if good && namespace(index) == "team" && to == "other/c" { "a" } else { to };
    let matching = if !good && dice.one_in(8) { "regex: '/bad['".into() } else { format!("path: /r{index}") };
    let host = match dice.below(12) {
        0 if !good => "'bad_!'",
        1 if !good => "shop.test, 'bad_!'",
        _ => ["shop.test", "new.test"][dice.index(2)],
    };
    let guard = if !good && dice.one_in(12) { ", guard: login" } else { "" };
    let protections = [
        "",
        "",
        "",
        "",
        ", remove: [x-admin]",
        ", set: {x-admin: none}",
        ", removeAtBackends: [x-admin]",
        ", rewriteHost: inner.test",
        ", withhold: [x-secret]",
    ];
    let removed = protections[dice.index(protections.len())];
    let first = match dice.below(16) {
        0 => format!("{{{matching}, redirect: https{guard}}}"),
        _ => format!("{{{matching}, to: {to}, add: {{x-mark: {mark}}}{removed}{guard}}}"),
    };
    let mark = match good {
        true => mark,
        false if dice.one_in(4) => format!("BAD{}", dice.below(4)),
        false => format!("good{}", dice.below(3)),
    };
    let second =
        if dice.one_in(3) { format!(", {{path: /s{index}, to: b, add: {{x-mark: {mark}}}}}") } else { String::new() };
    let created = format!("2026-01-0{}T00:00:00Z", 1 + index % 4);
    let never = if dice.one_in(10) { ", annotations: {holdfast.dev/fallback: never}" } else { "" };
    let namespace = namespace(index);
    let at = if dice.one_in(4) { ", at: defaults" } else { "" };
    format!(
        "{{route: {namespace}/r{index}{at}, host: [{host}], rules: [{first}{second}], created: '{created}'{never}}}"
    )
}

/// Returns a random policy; if `good`, no Envoy refuses it.
fn policy(dice: &mut Dice, good: bool) -> String {
    let (name, on) = GUARDED[dice.index(GUARDED.len())];
    let mark = match dice.below(6) {
        _ if good => format!("good{}", dice.below(1000)),
        0 | 1 => format!("FALSE{}", dice.below(3)),
        _ => format!("good{}", dice.below(3)),
    };
    let more = match dice.below(14) {
        _ if good => "",
        10..12 => "extAuth: {extensionRef: {name: x0}}",
        12 => "extAuth: {extensionRef: {name: x1}}",
        0 => "timeouts: {request: soon}",
        1 => "timeouts: {request: 3s}",
        2 => "basicAuth: {secretRef: {name: nobody}}",
        3 => "acl: {defaultAction: allow, rules: [{name: x, cidrs: [10.0.0.0/8], action: deny}]}",
        4 => "basicAuht: {}",
        _ => "",
    };
    let never = match dice.below(12) {
        0 => ", annotations: {holdfast.dev/fallback: never}",
        1 => ", annotations: {holdfast.dev/fallback: last-valid}",
        _ => "",
    };
    format!("{{policy: {name}, on: '{on}', mark: {mark}, says: {{{more}}}{never}}}")
}

/// Returns a random extension; if `good`, no Envoy refuses it.
fn extension(dice: &mut Dice, good: bool) -> String {
    let name = EXTENSIONS[dice.index(EXTENSIONS.len())];
    let mark = match dice.below(3) {
        0 if !good => format!("NOFILTER{}", dice.below(3)),
        _ => format!("good{}", dice.below(3)),
    };
    let grpc = "grpcService: {backendRef: {name: auth, port: 80}}";
    format!("{{extension: {name}, says: {{extAuth: {{{grpc}, statPrefix: {mark}}}}}}}")
}

/// Returns the Gateway with a random default scope, sometimes together with the edit of a route.
fn scoped(dice: &mut Dice) -> String {
    let scope = ["All", "All", "None", "Nothing"][dice.index(4)];
    let edit =
        if dice.one_in(2) { format!("\n---\n{}", route(dice.below(ROUTES), dice, false)) } else { String::new() };
    format!("{{gateway: infra/public, scope: {scope}}}{edit}")
}

/// Returns the next steps; steps that belong together are returned together.
fn any_steps(stage: &StoryStage, dice: &mut Dice, envoys: &[String]) -> Vec<StoryStep> {
    let envoy = envoys.get(dice.index(envoys.len())).cloned().unwrap_or_default();
    let index = dice.below(ROUTES);
    let name = format!("HTTPRoute/{}/r{index}", namespace(index));
    let there = exists(stage, &name);
    match dice.below(27) {
        0 if there => vec![StoryStep::Delete(vec![name])],
        1 if there => {
            let index = dice.below(ROUTES);
            let again = format!("HTTPRoute/{}/r{index}", namespace(index));
            let text = route(index, dice, false);
            vec![if exists(stage, &again) { StoryStep::Recreate(text) } else { StoryStep::Apply(text) }]
        }
        2 if there => vec![StoryStep::Unusable(vec![name])],
        3 if exists(stage, "Service/shop/a") => vec![StoryStep::Unusable(vec!["Service/shop/a".into()])],
        4 if dice.one_in(2) => {
            let service = ["shop/a", "shop/b", "team/a"][dice.index(3)];
            match exists(stage, &format!("Service/{service}")) {
                true if dice.one_in(3) => vec![StoryStep::Apply(format!("{{service: {service}, port: 81}}"))],
                true => vec![StoryStep::Delete(vec![format!("Service/{service}")])],
                false => vec![StoryStep::Apply(format!("{{service: {service}}}"))],
            }
        }
        4 => vec![StoryStep::Apply(format!("{{service: shop/a, addresses: [10.0.0.{}]}}", 1 + dice.below(200)))],
        5 => vec![StoryStep::Apply(format!("{{endpoints: shop/b, addresses: [10.0.1.{}]}}", 1 + dice.below(200)))],
        6 => vec![StoryStep::Clock(1 + dice.below(40))],
        7 => vec![StoryStep::Disconnect(vec![envoy.clone()]), StoryStep::Connect(vec![envoy])],
        8 => vec![
            StoryStep::Disconnect(vec![envoy.clone()]),
            StoryStep::Fresh(vec![envoy.clone()]),
            StoryStep::Connect(vec![envoy]),
        ],
        9 => vec![StoryStep::Restart],
        10 if dice.one_in(2) => {
            let standalone = stage.settings.listen_address.is_some();
            let set = Set { standalone, ..settings(dice) };
            vec![StoryStep::Set(Box::new(set)), StoryStep::Restart]
        }
        11 => {
            let exists = stage.objects.keys().any(|key| &*key.kind == "ReferenceGrant");
            match exists {
                true => vec![StoryStep::Delete(vec!["ReferenceGrant/other/shop".into()])],
                false => vec![StoryStep::Apply("{grant: other, from: shop}".into())],
            }
        }
        12 => {
            let silence = StoryStep::Silence(vec![envoy.clone()]);
            let index = dice.below(ROUTES);
            let edit = StoryStep::Apply(route(index, dice, false));
            let probe = dice.one_in(3).then(|| "probe".to_owned());
            let silent_too = probe.clone().map(|probe| StoryStep::Silence(vec![probe]));
            let steps = silent_too.into_iter().chain([silence, edit, StoryStep::Clock(dice.below(200))]);
            steps.chain([StoryStep::Speak(probe.into_iter().chain([envoy]).collect())]).collect()
        }
        13..16 => vec![StoryStep::Apply(policy(dice, false))],
        16 => {
            let (name, _) = GUARDED[dice.index(GUARDED.len())];
            let name = format!("TrafficPolicy/{name}");
            let there = exists(stage, &name);
            match dice.below(3) {
                _ if !there => vec![],
                0 => vec![StoryStep::Unusable(vec![name])],
                1 => vec![StoryStep::Delete(vec![name])],
                _ => vec![StoryStep::Delete(vec![name]), StoryStep::Clock(3)],
            }
        }
        17 => {
            // Both in one edit, so that the cause is ambiguous.
            let index = dice.below(2);
            vec![StoryStep::Apply(format!("{}\n---\n{}", route(index, dice, false), policy(dice, false)))]
        }
        18 => vec![StoryStep::Apply(extension(dice, false))],
        26 => vec![StoryStep::Apply(scoped(dice))],
        25 => {
            let port = [80, 8080][dice.index(2)];
            let ports = if stage.taken.is_empty() { [(port, "nginx".to_owned())].into() } else { BTreeMap::new() };
            vec![StoryStep::Taken(ports)]
        }
        19 => {
            // A policy with the extension that it refers to, often with a route.
            let mut texts = vec![extension(dice, false), policy(dice, false)];
            texts.extend(dice.one_in(2).then(|| route(dice.below(2), dice, false)));
            vec![StoryStep::Apply(texts.join("\n---\n"))]
        }
        _ => {
            let count = 1 + dice.below(3);
            let routes = (0..count).map(|_| {
                let index = dice.below(ROUTES);
                route(index, dice, false)
            });
            vec![StoryStep::Apply(routes.collect::<Vec<_>>().join("\n---\n"))]
        }
    }
}

fn exists(stage: &StoryStage, name: &str) -> bool {
    stage.objects.keys().any(|key| expect::name(key) == name)
}
