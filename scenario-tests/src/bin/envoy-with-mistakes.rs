//! An Envoy that refuses marked resources: see `holdfast_scenario_tests::mistakes`.

fn main() -> anyhow::Result<()> {
    holdfast_scenario_tests::mistakes::start::main()
}
