//! The allocator of the program.
//!
//! The static program of the images is linked with musl, of which the allocator takes a global lock for each allocation.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
