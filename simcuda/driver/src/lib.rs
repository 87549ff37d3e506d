//! The simulated `libcuda.so.1`: a CUDA driver whose devices live in host memory.
//!
//! What it is: the driver API as programs see it, codes and rules included. Every exported symbol
//! comes from the table of `shim-cuda-headers`; one file here per subject implements some of them.
//! What it is not: the owner of a card. How much of a card is used, by whom, is the machine's
//! business (`simcudad`), and PTX is run by `simcuda-ptx`.
//!
//! A call goes `exports` → `entry` → the function of its name in a subject file. Work that a
//! stream is given becomes a `command`, which the context's `engine` carries out when its turn has
//! come: kernels in the turns that the machine gives (`compute`), copies at the link's speed
//! (`transfer`). Memory that the GPU may touch is in the table of `space`; `pages` puts memory behind it.
//!
//! Unsafe code is in `exports`, `raw` (the caller's pointers), `pages` and `fault_page` (mapped
//! memory) and `hidden` (this library's symbol table) only.
#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "functions bear the vendor's names")]

mod arena;
mod array;
mod array_copy;
mod attributes;
mod blocks;
mod capture;
mod capture_calls;
mod clock;
mod command;
mod compute;
mod context;
mod context_calls;
mod copy;
mod copy_batch;
mod cost;
mod device;
mod device_facts;
mod engine;
mod entry;
mod event;
mod exports;
mod fault;
mod fault_page;
mod fill;
mod freeing;
mod function;
mod graph;
mod graph_edges;
mod graph_exec;
mod graph_memory;
mod graph_nodes;
mod graph_params;
mod graph_parts;
mod graph_ready;
mod graph_task;
mod hidden;
mod host;
mod image;
mod ipc;
mod jit_options;
mod kernel_clock;
mod kernel_memory;
mod launch;
mod layout;
mod library;
mod linear;
mod link;
mod lookup;
mod managed;
mod mipmap;
mod module;
mod newer;
mod old_forms;
mod pages;
mod physical;
mod pointer;
mod pool;
mod pool_calls;
mod pool_share;
mod process;
mod queue;
mod raw;
mod registry;
mod shared_blocks;
mod shared_event;
mod space;
mod stream;
mod stream_attributes;
mod stream_words;
mod surface;
mod texture;
mod transfer;
mod twins;
mod user_object;
mod vmm;
