//! All input and output of the product: files, sockets, processes and the clock live in this room and nowhere else in
//! the engine. What is decided is decided outside of it.

pub mod echo;
