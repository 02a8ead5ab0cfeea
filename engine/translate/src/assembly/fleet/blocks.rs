//! Encoded hosts of a route table in blocks: a change of one host encodes its block again, and the route configuration is
//! put together from the blocks.
//!
//! The borders of the blocks change neither the bytes nor the version nor the origins of the route configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use holdfast_envoy::encode::route_configuration::EncodedHosts;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Origins, visits};

use super::host::HostState;

/// Number of hosts of a block; a block of more than twice as many is divided.
const BLOCK_HOSTS: usize = 64;
/// Number of blocks up to which a table may have blocks of few hosts, after many hosts were removed.
const SMALL_BLOCKS: usize = 16;

/// The encoded hosts of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct HostBlocks {
    /// In the order of the hosts.
    blocks: Vec<HostBlock>,
    /// Hosts that were changed, added or removed.
    dirty: BTreeSet<Host>,
}

#[derive(Clone, Debug)]
struct HostBlock {
    /// The last host: those after it belong to the next block.
    last: Host,
    encoded: EncodedHosts,
    origins: Origins,
}

impl HostBlocks {
    /// Records that a host was changed, added or removed.
    pub(super) fn mark(&mut self, host: &Host) {
        self.dirty.insert(host.clone());
    }

    /// Encodes the blocks of all marked hosts.
    pub(super) fn refresh(&mut self, hosts: &mut BTreeMap<Host, HostState>) {
        let dirty = std::mem::take(&mut self.dirty);
        let indexes = match self.blocks.len() > SMALL_BLOCKS + hosts.len() / (BLOCK_HOSTS / 4) {
            true => {
                self.blocks.clear();
                BTreeSet::from([0])
            }
            false => dirty.iter().map(|host| self.index_of(host)).collect(),
        };
        // From the last to the first, as the number of blocks may change.
        for index in indexes.into_iter().rev() {
            let hosts = hosts.range_mut::<Host, _>(self.borders(index)).filter(|(_, state)| state.version.is_some());
            let mut hosts: Vec<(&Host, &mut HostState)> = hosts.collect();
            visits::hosts(hosts.len());
            let count = if hosts.len() > 2 * BLOCK_HOSTS { hosts.len().div_ceil(BLOCK_HOSTS) } else { 1 };
            let size = hosts.len().div_ceil(count).max(1);
            let new: Vec<HostBlock> = hosts.chunks_mut(size).filter_map(HostBlock::of).collect();
            self.blocks.splice(index..self.blocks.len().min(index + 1), new);
        }
    }

    /// Returns the encoded hosts, in order.
    pub(super) fn encoded(&self) -> impl Iterator<Item = &EncodedHosts> + Clone {
        self.blocks.iter().map(|block| &block.encoded)
    }

    /// Returns the origins of the hosts.
    pub(super) fn origins(&self) -> impl Iterator<Item = &Origins> {
        self.blocks.iter().map(|block| &block.origins)
    }

    /// Returns the index of the block to which a host belongs; 0 if there is none yet.
    fn index_of(&self, host: &Host) -> usize {
        let index = self.blocks.partition_point(|block| block.last < *host);
        index.min(self.blocks.len().saturating_sub(1))
    }

    /// Returns the borders between a block and its neighbours.
    fn borders(&self, index: usize) -> (Bound<&Host>, Bound<&Host>) {
        let before = index.checked_sub(1).and_then(|before| self.blocks.get(before));
        let begin = before.map_or(Bound::Unbounded, |block| Bound::Excluded(&block.last));
        let has_next = index + 1 < self.blocks.len();
        let own = self.blocks.get(index).filter(|_| has_next);
        (begin, own.map_or(Bound::Unbounded, |block| Bound::Included(&block.last)))
    }
}

impl HostBlock {
    fn of(hosts: &mut [(&Host, &mut HostState)]) -> Option<Self> {
        let last = hosts.last().map(|(last, _)| (*last).clone())?;
        let origins = Origins::union(hosts.iter().map(|(_, state)| &state.origins));
        let encoded = hosts.iter_mut().filter_map(|(_, state)| Some((&mut state.bytes, state.version.as_ref()?)));
        Some(Self { last, encoded: EncodedHosts::new(encoded.collect()), origins })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;
    use holdfast_envoy::encode::route_configuration::route_configuration;
    use holdfast_envoy::features::filters::Filters;
    use holdfast_envoy::features::guards::Guards;
    use holdfast_graph::ObjectKey;
    use holdfast_xds::Version;

    use super::*;

    fn host(number: usize) -> Host {
        Host::new(Some(&format!("h{number:04}.example.com").into()))
    }

    fn state(number: usize, content: &str) -> HostState {
        let bytes = Bytes::from(format!("{number} {content}"));
        let version = Some(Version::of(&bytes));
        let mut state = HostState::default();
        state.origins = Origins::one(ObjectKey::new("g", "K", "ns", format!("r{number}")));
        (state.bytes, state.version) = (bytes, version);
        state
    }

    fn whole<'a>(blocks: impl Iterator<Item = &'a EncodedHosts> + Clone) -> (Bytes, Version) {
        let routes = route_configuration("t".into(), &Filters::new(), &Guards::default(), blocks);
        (routes.body, routes.version)
    }

    /// Compares the blocks with a table that is encoded as a whole.
    fn check(blocks: &HostBlocks, hosts: &BTreeMap<Host, HostState>) {
        let mut copy = hosts.clone();
        let all = copy.values_mut().filter_map(|state| Some((&mut state.bytes, state.version.as_ref()?)));
        assert_eq!(whole(blocks.encoded()), whole(std::iter::once(&EncodedHosts::new(all.collect()))));
        assert_eq!(Origins::union(blocks.origins()), Origins::union(hosts.values().map(|state| &state.origins)));
        let encoded: Vec<_> = hosts.iter().filter(|(_, state)| state.version.is_some()).collect();
        for [(first, before), (second, after)] in encoded.array_windows() {
            // Two bytes before a host have the field and the length.
            let end = before.bytes.as_ptr().addr() + before.bytes.len() + 2;
            let is_common = blocks.index_of(first) == blocks.index_of(second);
            assert!(!is_common || after.bytes.as_ptr().addr() == end, "{second:?} is kept twice");
        }
        assert!(blocks.blocks.len() <= SMALL_BLOCKS + hosts.len() / (BLOCK_HOSTS / 4) + 3, "{}", blocks.blocks.len());
    }

    #[test]
    fn edits_additions_and_removals_give_what_encoding_the_whole_table_gives() {
        let (mut blocks, mut hosts) = (HostBlocks::default(), BTreeMap::new());
        check(&blocks, &hosts);
        // 2,003 is prime: the steps reach every number in a scattered order.
        for step in 0..4_000 {
            let number = step * 7 % 2_003;
            match step % 5 {
                4 => drop(hosts.remove(&host(number / 2))),
                _ => drop(hosts.insert(host(number), state(number, &step.to_string()))),
            }
            blocks.mark(&host(if step % 5 == 4 { number / 2 } else { number }));
            if step % 3 == 0 {
                blocks.refresh(&mut hosts);
            }
            if step % 250 == 249 {
                blocks.refresh(&mut hosts);
                check(&blocks, &hosts);
            }
        }
        for number in (0..2_003).filter(|number| number % 50 > 0) {
            hosts.remove(&host(number));
            blocks.mark(&host(number));
            blocks.refresh(&mut hosts);
        }
        // A host that is not encoded yet is in no block.
        hosts.insert(host(5_000), HostState::default());
        blocks.mark(&host(5_000));
        blocks.refresh(&mut hosts);
        check(&blocks, &hosts);
        hosts.keys().for_each(|host| blocks.mark(host));
        hosts.clear();
        blocks.refresh(&mut hosts);
        check(&blocks, &hosts);
    }

    #[test]
    fn a_table_that_has_too_many_blocks_keeps_its_hosts_without_a_change_of_them() {
        let mut hosts: BTreeMap<_, _> = (0..1_600).map(|number| (host(number), state(number, "a"))).collect();
        let mut blocks = HostBlocks::default();
        hosts.keys().for_each(|host| blocks.mark(host));
        blocks.refresh(&mut hosts);
        // A last block that is as large as a block may be, after blocks of one host.
        (1_600..1_664).for_each(|number| drop(hosts.insert(host(number), state(number, "a"))));
        (0..1_536).filter(|number| number % 64 > 0).for_each(|number| drop(hosts.remove(&host(number))));
        (0..1_664).for_each(|number| blocks.mark(&host(number)));
        blocks.refresh(&mut hosts);
        hosts.insert(host(1_664), state(1_664, "a"));
        blocks.mark(&host(1_664));
        blocks.refresh(&mut hosts);
        assert!(blocks.blocks.len() > SMALL_BLOCKS + hosts.len() / (BLOCK_HOSTS / 4));
        blocks.refresh(&mut hosts);
        assert!(blocks.blocks.len() <= SMALL_BLOCKS);
        check(&blocks, &hosts);
    }

    #[test]
    fn an_edit_encodes_one_block_however_many_hosts_there_are() {
        for count in [1_000, 5_000] {
            let mut hosts: BTreeMap<_, _> = (0..count).map(|number| (host(number), state(number, "a"))).collect();
            let mut blocks = HostBlocks::default();
            hosts.keys().for_each(|host| blocks.mark(host));
            blocks.refresh(&mut hosts);
            hosts.insert(host(500), state(500, "b"));
            blocks.mark(&host(500));
            let ((), visits) = holdfast_graph::Visits::of(|| blocks.refresh(&mut hosts));
            assert!((1..=BLOCK_HOSTS as u64).contains(&visits.hosts), "{visits:?}");
            check(&blocks, &hosts);
        }
    }
}
