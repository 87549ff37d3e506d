//! Tests of the daemon without NVML: real sockets, a made-up source of facts.
