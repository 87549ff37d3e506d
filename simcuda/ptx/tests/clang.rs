//! Kernels compiled by clang, optimised and not: the two must give the same, right results.

mod common;

use common::{Arg, Device, Random, launch, launch_with, one_block, parse, place_globals};
use simcuda_ptx::{Fault, Memory, Module};

/// Runs `check` on both builds of `data/clang/kernels.cu`.
fn both(check: impl Fn(&Module)) {
    check(&parse(include_str!("data/clang/kernels-O2.ptx")));
    check(&parse(include_str!("data/clang/kernels-O0.ptx")));
}

#[test]
fn vector_add_leaves_what_is_beyond_the_end() {
    both(|module| {
        let device = Device::new();
        let mut random = Random(1);
        let (a, b) = (random.floats(1000), random.floats(1000));
        let c = device.upload(&[7.0_f32; 1024]);
        let arguments =
            [Arg::U64(device.upload(&a)), Arg::U64(device.upload(&b)), Arg::U64(c), Arg::U32(1000)];
        launch(&device, module, "vectorAdd", [[4, 1, 1], [256, 1, 1]], 0, &arguments).unwrap();
        let out = device.download::<f32>(c, 1024);
        for i in 0..1000 {
            assert_eq!(out[i], a[i] + b[i]);
        }
        assert!(out[1000..].iter().all(|&x| x == 7.0));
    });
}

#[test]
fn tiled_matrix_product_goes_through_shared_memory() {
    both(|module| {
        let n = 64;
        let device = Device::new();
        let a: Vec<f32> = (0..n * n).map(|i| (i % 11) as f32 - 5.0).collect();
        let b: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32 - 3.0).collect();
        let c = device.allocate(n * n * 4);
        let arguments =
            [Arg::U64(device.upload(&a)), Arg::U64(device.upload(&b)), Arg::U64(c), Arg::U32(64)];
        launch(&device, module, "mm", [[4, 4, 1], [16, 16, 1]], 0, &arguments).unwrap();
        let out = device.download::<f32>(c, n * n);
        for (i, &value) in out.iter().enumerate() {
            let (row, column) = (i / n, i % n);
            let expected: f32 = (0..n).map(|k| a[row * n + k] * b[k * n + column]).sum();
            assert_eq!(value, expected, "row {row} column {column}");
        }
    });
    let module = parse(include_str!("data/clang/kernels-O2.ptx"));
    assert_eq!(module.kernel("mm").unwrap().shared_bytes(), 2 * 16 * 16 * 4);
    assert_eq!(module.kernel("vectorAdd").unwrap().shared_bytes(), 0);
}

#[test]
fn reduction_by_shuffles_and_one_atomic_a_block() {
    both(|module| {
        let device = Device::new();
        let input: Vec<i32> = (0..10_000).map(|i| i * 37 % 1001 - 500).collect();
        let out = device.upload(&[5_i32]);
        let arguments = [Arg::U64(device.upload(&input)), Arg::U64(out), Arg::U32(10_000)];
        launch(&device, module, "reduce", [[6, 1, 1], [256, 1, 1]], 0, &arguments).unwrap();
        assert_eq!(device.download::<i32>(out, 1), [5 + input.iter().sum::<i32>()]);
    });
}

#[test]
fn a_histogram_counts_in_dynamic_shared_memory() {
    both(|module| {
        let device = Device::new();
        let mut random = Random(2);
        let input: Vec<u8> = (0..5000).map(|_| (random.next() >> 24) as u8).collect();
        let out = device.allocate(256 * 4);
        let arguments = [Arg::U64(device.upload(&input)), Arg::U64(out), Arg::U32(5000)];
        launch(&device, module, "hist", [[3, 1, 1], [128, 1, 1]], 1024, &arguments).unwrap();
        let mut expected = vec![0_u32; 256];
        input.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
        assert_eq!(device.download::<u32>(out, 256), expected);
    });
}

#[test]
fn recursion_of_different_depth_in_every_lane_comes_back_right() {
    both(|module| {
        let device = Device::new();
        let out = device.allocate(16 * 4);
        launch(&device, module, "rec", one_block(16), 0, &[Arg::U64(out)]).unwrap();
        let fib = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610];
        assert_eq!(device.download::<i32>(out, 16), fib);
    });
}

#[test]
fn pointers_to_functions_may_differ_between_lanes() {
    both(|module| {
        let device = Device::new();
        let out = device.allocate(32 * 4);
        launch(&device, module, "indirect", one_block(32), 0, &[Arg::U64(out)]).unwrap();
        let expected: Vec<i32> = (0..32).map(|t| if t & 1 == 1 { t + 1 } else { t * 2 }).collect();
        assert_eq!(device.download::<i32>(out, 32), expected);
    });
}

#[test]
fn local_arrays_belong_to_their_thread() {
    both(|module| {
        let device = Device::new();
        let out = device.allocate(40 * 4);
        let arguments = [Arg::U64(out), Arg::U32(20)];
        launch(&device, module, "local", one_block(40), 0, &arguments).unwrap();
        let sum: i32 = (0..20).map(|i| i * i).sum();
        assert_eq!(device.download::<i32>(out, 40), [sum; 40]);
    });
}

#[test]
fn structures_by_value_constants_and_module_variables() {
    both(|module| {
        let device = Device::new();
        let globals = place_globals(&device, module);
        let index = |name: &str| module.globals().iter().position(|g| g.name == name).unwrap();
        assert!(module.globals()[index("coef")].constant);
        assert!(!module.globals()[index("table")].constant);
        let kernel = module.kernel("st").unwrap();
        assert_eq!(kernel.param_bytes(), 44);
        let out = device.allocate(8 * 32);
        let mut params = vec![0_u8; 44];
        params[0..4].copy_from_slice(&4_i32.to_le_bytes());
        params[8..16].copy_from_slice(&10.0_f64.to_le_bytes());
        for (i, value) in [1.0_f32, 2.0, 3.0].iter().enumerate() {
            params[16 + 4 * i..20 + 4 * i].copy_from_slice(&value.to_le_bytes());
        }
        params[32..40].copy_from_slice(&out.to_le_bytes());
        params[40..44].copy_from_slice(&2_i32.to_le_bytes());
        let launch = simcuda_ptx::Launch {
            grid: [1, 1, 1],
            block: [8, 1, 1],
            dynamic_shared_bytes: 0,
            params: &params,
            globals: &globals,
        };
        simcuda_ptx::run(module, kernel, &launch, &device).unwrap();
        for thread in 0..8 {
            let at = out + 32 * thread;
            assert_eq!(device.download::<i32>(at, 1), [4]);
            assert_eq!(device.download::<f64>(at + 8, 1), [2.5]);
            // coef[2] + table[2]
            assert_eq!(device.download::<f32>(at + 16, 3), [1.0, 2.0, 3.0 + 9.0]);
        }
        assert_eq!(device.download::<i32>(globals[index("counter")], 1), [8]);
    });
}

#[test]
fn printf_formats_what_the_host_would() {
    both(|module| {
        let device = Device::new();
        launch(&device, module, "hello", one_block(2), 0, &[Arg::U32(3)]).unwrap();
        assert_eq!(*device.printed.borrow(), "hello 0 4.500000\nhello 1 4.500000\n");
    });
}

#[test]
fn every_branch_of_a_switch_meets_again() {
    both(|module| {
        let device = Device::new();
        let input: Vec<i32> = (0..33).map(|i| i % 8).collect();
        let out = device.upload(&input);
        let arguments = [Arg::U64(out), Arg::U32(12)];
        launch(&device, module, "sw", one_block(32), 0, &arguments).unwrap();
        // Lanes that read a neighbour may see it before or after its own store.
        let got = device.download::<i32>(out, 32);
        for (i, value) in got.iter().enumerate() {
            match input[i] {
                0 => assert_eq!(*value, 5),
                1 => assert_eq!(*value, 12),
                2 => assert_eq!(*value, 144),
                3 => assert_eq!(*value, 9),
                4 => assert_eq!(*value, -1),
                5 => assert_eq!(*value, 4),
                _ => {}
            }
        }
    });
}

#[test]
fn votes_and_matches_see_the_whole_warp() {
    both(|module| {
        let device = Device::new();
        let out = device.allocate(32 * 4);
        launch(&device, module, "vote", one_block(32), 0, &[Arg::U64(out)]).unwrap();
        let expected: Vec<u32> = (0..32_u32)
            .map(|t| {
                let matches = 15_u32 << (t / 4 * 4);
                0xaaaa_aaaa_u32
                    .wrapping_add(1)
                    .wrapping_add(1)
                    .wrapping_add(u32::MAX)
                    .wrapping_add(matches)
            })
            .collect();
        assert_eq!(device.download::<u32>(out, 32), expected);
    });
}

#[test]
fn halves_multiply_add_and_divide() {
    both(|module| {
        let device = Device::new();
        // a = 1.5, b = 2: a * b + a = 4.5; 4.5 / 2 = 2.25; 2.25 < 2 is false.
        let a = device.upload(&[0x3e00_u16; 4]);
        let b = device.upload(&[0x4000_u16; 4]);
        launch(&device, module, "h16", one_block(4), 0, &[Arg::U64(a), Arg::U64(b)]).unwrap();
        assert_eq!(device.download::<u16>(a, 4), [0x4080; 4]);
    });
}

#[test]
fn vectors_of_four_are_one_access() {
    both(|module| {
        let device = Device::new();
        let input: Vec<f32> = (0..128).map(|i| i as f32).collect();
        let out = device.allocate(128 * 4);
        let arguments = [Arg::U64(device.upload(&input)), Arg::U64(out)];
        launch(&device, module, "vec", one_block(32), 0, &arguments).unwrap();
        let expected: Vec<f32> = input.iter().map(|x| x * 2.0).collect();
        assert_eq!(device.download::<f32>(out, 128), expected);
    });
}

#[test]
fn atomics_of_every_kind_lose_nothing() {
    both(|module| {
        let device = Device::new();
        let words = device.upload(&[10_u32, 0, 1000]);
        let (single, double, wide) =
            (device.upload(&[1.0_f32]), device.upload(&[1.0_f64]), device.upload(&[1_u64]));
        let arguments = [Arg::U64(words), Arg::U64(single), Arg::U64(double), Arg::U64(wide)];
        launch(&device, module, "cas", [[4, 1, 1], [128, 1, 1]], 0, &arguments).unwrap();
        let [count, max, last] = device.download::<u32>(words, 3)[..] else { unreachable!() };
        assert_eq!((count, max), (10 + 512, 127));
        assert!(last < 128);
        assert_eq!(device.download::<f32>(single, 1), [1.0 + 1.5 * 512.0]);
        assert_eq!(device.download::<f64>(double, 1), [1.0 + 2.5 * 512.0]);
        assert_eq!(device.download::<u64>(wide, 1), [1 + 3 * 512]);
    });
}

#[test]
fn a_spin_kernel_takes_the_time_it_was_told_whatever_its_grid() {
    both(|module| {
        let device = Device::new();
        let arguments = [Arg::U64(5_000_000)];
        launch(&device, module, "spin", [[20, 1, 1], [64, 1, 1]], 0, &arguments).unwrap();
        let took = device.now_ns();
        assert!((5_000_000..5_200_000).contains(&took), "{took} ns");
    });
}

#[test]
fn mixed_arithmetic_agrees_with_the_host() {
    both(|module| {
        let device = Device::new();
        let mut random = Random(3);
        let ints: Vec<i32> = (0..32).map(|_| random.next() as i32 >> 8).collect();
        let wide: Vec<u64> =
            (0..32).map(|_| u64::from(random.next()) << 20 | u64::from(random.next())).collect();
        let singles: Vec<f32> = random.floats(33).iter().map(|x| x.abs()).collect();
        let doubles: Vec<f64> = ints.iter().map(|&i| f64::from(i) + 1e9).collect();
        let shorts: Vec<i16> = (0..32).map(|i| i * 1021 - 9_000).collect();
        let chars: Vec<i8> = (0..32).map(|i| i * 4 - 100).collect();
        let at = [
            device.upload(&ints),
            device.upload(&wide),
            device.upload(&singles),
            device.upload(&doubles),
            device.allocate(32 * 8),
            device.upload(&shorts),
            device.upload(&chars),
        ];
        launch(&device, module, "mix", one_block(1), 0, &at.map(Arg::U64)).unwrap();
        // Thread 0 only: its reads beyond its own element then see what was uploaded.
        let (a, b) = (ints[0], wide[0]);
        let mut o = (b / i64::from(a | 1) as u64).wrapping_add(b % 7);
        let d = doubles[0].mul_add(2.0, 1.0) - f64::from(a);
        let mut f = singles[0] / 3.0 + singles[0].sqrt();
        f += b as f32;
        o ^= d as u64;
        let bits = a.count_ones() + (a | 1).leading_zeros() + (b | 2).trailing_zeros();
        let bits = bits.wrapping_add((a as u32).swap_bytes());
        o = o.wrapping_add(u64::from(bits));
        let bits = (((i64::from(a) * 3) >> 32) as u32).wrapping_add((a as u32).reverse_bits());
        o = o.wrapping_add(u64::from(bits)).rotate_left(13);
        f = f.max(singles[1].abs()).floor();
        assert_eq!(device.download::<f64>(at[3], 1), [d]);
        assert_eq!(device.download::<f32>(at[2], 1), [f]);
        assert_eq!(device.download::<u64>(at[4], 1), [o]);
        let short = ((i32::from(shorts[0]) * 3) >> 1) as i16;
        assert_eq!(device.download::<i16>(at[5], 1), [short]);
        assert_eq!(device.download::<i8>(at[6], 1), [chars[0] << 2]);
    });
}

#[test]
fn running_off_an_allocation_is_a_fault_with_its_address() {
    both(|module| {
        let device = Device::new();
        let globals = place_globals(&device, module);
        let (a, b) = (device.upload(&[0.0_f32; 64]), device.upload(&[0.0_f32; 64]));
        let c = device.upload(&[0.0_f32; 40]);
        let arguments = [Arg::U64(a), Arg::U64(b), Arg::U64(c), Arg::U32(64)];
        let grid = one_block(64);
        let fault = launch_with(&device, module, "vectorAdd", grid, 0, &arguments, &globals);
        assert_eq!(fault, Err(Fault::Address { address: c + 160, bytes: 4, write: true }));
        let arguments = [Arg::U64(0), Arg::U64(b), Arg::U64(c), Arg::U32(64)];
        let fault = launch_with(&device, module, "vectorAdd", grid, 0, &arguments, &globals);
        assert_eq!(fault, Err(Fault::Address { address: 0, bytes: 4, write: false }));
        let arguments = [Arg::U64(a + 2), Arg::U64(b), Arg::U64(c), Arg::U32(64)];
        let fault = launch_with(&device, module, "vectorAdd", grid, 0, &arguments, &globals);
        assert_eq!(fault, Err(Fault::Misaligned { address: a + 2 }));
    });
}
