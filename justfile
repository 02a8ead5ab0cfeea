# One word for each daily act; `just` lists them. docs/contributing.md has the same commands without just, and the time
# of each.

[private]
default:
    @just --list --unsorted

# Format, lints and house rules: before each commit
check:
    cargo fmt --all --check
    cargo lint
    cargo house

# The tests of one crate, as in `just test fallback`; further arguments select tests
test CRATE *ARGS:
    cargo test -p holdfast-{{CRATE}} --locked {{ARGS}}

# Golden pairs
golden *ARGS:
    cargo golden {{ARGS}}

# Write the golden answers again; read the difference before you commit it
golden-write:
    HOLDFAST_GOLDEN=write cargo golden

# Stories of the fallback, without any process; a text selects stories
fallback *NAME:
    cargo fallback {{NAME}}

# Stories with a real Envoy; a text selects stories, as in `just story matching::hostnames`
story *NAME:
    cargo story {{NAME}}

# The program for users
build:
    cargo build --release --locked --bin holdfast

# Artefacts of a release (binaries, images, chart, lists of components) in target/dist; `.ci/dist` adds Envoy
dist *ARGS:
    cargo dist {{ARGS}}

# All tests
test-all:
    cargo test --workspace --locked

# Licences, sources and advisories of dependencies; needs cargo-deny
deny:
    .ci/deny

# What continuous integration runs
ci:
    .ci/run
