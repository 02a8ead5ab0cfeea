//! The allocator of the program.
//!
//! The static program of the images is linked with musl, of which the allocator takes a global lock for each allocation.
//! Transparent huge pages are off (the feature `no_thp`): with them a process without objects has 50 MB, and 7 MB without.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
