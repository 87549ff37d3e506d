//! Kernels that tinygrad rendered, against the same expressions computed here.

mod common;

use common::{Arg, Device, Plain, Random, launch, parse};

/// Runs the only kernel of a file of `data/tinygrad` on its inputs, and gives its output.
fn compute<T: Plain>(
    text: &str,
    grid: [u32; 3],
    block: [u32; 3],
    output: usize,
    inputs: &[&dyn Fn(&Device) -> u64],
) -> Vec<T> {
    let device = Device::new();
    let module = parse(text);
    let name = module.kernels().next().expect("the file has a kernel").name().to_owned();
    let result = device.allocate(output * size_of::<T>());
    let mut arguments = vec![Arg::U64(result)];
    arguments.extend(inputs.iter().map(|input| Arg::U64(input(&device))));
    let stats = launch(&device, &module, &name, [grid, block], 0, &arguments)
        .unwrap_or_else(|fault| panic!("{name}: {fault}"));
    assert!(stats.instructions > 0);
    device.download(result, output)
}

macro_rules! kernel {
    ($name:literal) => {
        include_str!(concat!("data/tinygrad/", $name, ".ptx"))
    };
}

/// Equal up to `ulps` units of the larger magnitude's last place.
fn assert_close(actual: &[f32], expected: &[f32], ulps: f32) {
    assert_eq!(actual.len(), expected.len());
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        let allowed = e.abs().max(f32::MIN_POSITIVE) * f32::EPSILON * ulps;
        let equal = a == e || a.is_nan() && e.is_nan() || (a - e).abs() <= allowed;
        assert!(equal, "element {i}: {a} instead of {e}");
    }
}

fn map2(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect()
}

#[test]
fn adding_two_vectors_is_exact() {
    let mut random = Random(1);
    let (a, b) = (random.floats(1024), random.floats(1024));
    let out = compute::<f32>(
        kernel!("add"),
        [8, 1, 1],
        [32, 1, 1],
        1024,
        &[&|d| d.upload(&a), &|d| d.upload(&b)],
    );
    assert_eq!(out, map2(&a, &b, |x, y| x + y));
}

#[test]
fn scaling_and_relu_keep_the_positive_part() {
    let a = Random(2).floats(100);
    let out = compute::<f32>(
        kernel!("mul_scalar_relu"),
        [25, 1, 1],
        [1, 1, 1],
        100,
        &[&|d| d.upload(&a)],
    );
    let expected: Vec<f32> = a.iter().map(|x| x.mul_add(2.5, -1.0).max(0.0)).collect();
    assert_close(&out, &expected, 4.0);
}

#[test]
fn exponential_and_sine_are_close_to_libm() {
    let a = Random(3).floats(257);
    let out = compute::<f32>(kernel!("exp"), [257, 1, 1], [1, 1, 1], 257, &[&|d| d.upload(&a)]);
    let expected: Vec<f32> = a.iter().map(|x| x.exp()).collect();
    assert_close(&out, &expected, 4.0);
    let out = compute::<f32>(kernel!("sin"), [1, 1, 1], [16, 1, 1], 64, &[&|d| d.upload(&a[..64])]);
    let expected: Vec<f32> = a[..64].iter().map(|x| x.sin()).collect();
    assert_close(&out, &expected, 1.0);
}

#[test]
fn sums_go_through_shared_memory_and_a_barrier() {
    // Small whole numbers, so that every order of adding gives the same.
    let a: Vec<f32> = (0..6144).map(|i| (i % 17) as f32).collect();
    let out = compute::<f32>(kernel!("sum_rows"), [64, 1, 1], [16, 1, 1], 64, &[&|d| d.upload(&a)]);
    let expected: Vec<f32> = a.chunks(96).map(|row| row.iter().sum()).collect();
    assert_eq!(out, expected);
    let out =
        compute::<f32>(kernel!("sum_all"), [1, 1, 1], [16, 1, 1], 1, &[&|d| d.upload(&a[..4096])]);
    assert_eq!(out, [a[..4096].iter().sum::<f32>()]);
}

#[test]
fn the_greatest_of_each_row_is_found_by_three_threads() {
    let a = Random(4).floats(1650);
    let out = compute::<f32>(kernel!("max_rows"), [11, 1, 1], [3, 1, 1], 33, &[&|d| d.upload(&a)]);
    let expected: Vec<f32> =
        a.chunks(50).map(|row| row.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect();
    assert_eq!(out, expected);
}

#[test]
fn the_sum_of_a_softmax_uses_the_greatest_of_the_row() {
    let a = Random(5).floats(3200);
    let greatest: Vec<f32> =
        a.chunks(100).map(|row| row.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect();
    let out = compute::<f32>(
        kernel!("softmax_sum"),
        [1, 1, 1],
        [32, 1, 1],
        32,
        &[&|d| d.upload(&a), &|d| d.upload(&greatest)],
    );
    let expected: Vec<f32> = a
        .chunks(100)
        .zip(&greatest)
        .map(|(row, m)| row.iter().map(|x| (x - m).exp()).sum())
        .collect();
    assert_close(&out, &expected, 32.0);
}

fn product(a: &[f32], b: &[f32], rows: usize, depth: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let terms = (0..depth)
                .map(|k| f64::from(a[row * depth + k]) * f64::from(b[k * columns + column]));
            out.push(terms.sum::<f64>() as f32);
        }
    }
    out
}

#[test]
fn a_product_of_matrices_of_whole_numbers_is_exact() {
    let a: Vec<f32> = (0..64 * 48).map(|i| (i % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..48 * 32).map(|i| (i % 7) as f32 - 3.0).collect();
    let out = compute::<f32>(
        kernel!("matmul"),
        [32, 64, 1],
        [16, 1, 1],
        64 * 32,
        &[&|d| d.upload(&a), &|d| d.upload(&b)],
    );
    assert_eq!(out, product(&a, &b, 64, 48, 32));
}

/// Bits of the f16 of a small whole number.
fn half(value: i32) -> u16 {
    let magnitude = value.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let exponent = magnitude.ilog2();
    let fraction = (magnitude << (10 - exponent)) & 0x3ff;
    let sign = if value < 0 { 0x8000 } else { 0 };
    sign | ((exponent + 15) << 10 | fraction) as u16
}

#[test]
fn tensor_cores_multiply_halves_into_singles() {
    let a: Vec<i32> = (0..256).map(|i| i * 7 % 23 - 11).collect();
    let b: Vec<i32> = (0..256).map(|i| i * 5 % 19 - 9).collect();
    let halves = |v: &[i32]| v.iter().map(|&x| half(x)).collect::<Vec<u16>>();
    let floats = |v: &[i32]| v.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let (half_a, half_b) = (halves(&a), halves(&b));
    let out = compute::<f32>(
        kernel!("matmul_half"),
        [1, 1, 1],
        [32, 1, 1],
        256,
        &[&|d| d.upload(&half_a), &|d| d.upload(&half_b)],
    );
    assert_eq!(out, product(&floats(&a), &floats(&b), 16, 16, 16));
}

#[test]
fn halves_are_computed_as_singles_and_rounded() {
    // exp2(x * y + 1) with whole x and y: exact powers of two.
    let x: Vec<u16> = (0..128).map(|i| half(i % 5 - 2)).collect();
    let y: Vec<u16> = (0..128).map(|i| half(i % 3 - 1)).collect();
    let out = compute::<u16>(
        kernel!("half_ops"),
        [1, 1, 1],
        [32, 1, 1],
        128,
        &[&|d| d.upload(&x), &|d| d.upload(&y)],
    );
    let expected: Vec<u16> =
        (0..128).map(|i| ((15 + (i % 5 - 2) * (i % 3 - 1) + 1) << 10) as u16).collect();
    assert_eq!(out, expected);
}

#[test]
fn integers_divide_and_leave_remainders_as_python_does() {
    let a: Vec<i32> = (0..100).map(|i| i * 31 - 1500).collect();
    let b: Vec<i32> = (0..100).map(|i| i * 17 - 800).collect();
    let out = compute::<i32>(
        kernel!("int_ops"),
        [25, 1, 1],
        [1, 1, 1],
        100,
        &[&|d| d.upload(&a), &|d| d.upload(&b)],
    );
    let expected: Vec<i32> =
        a.iter().zip(&b).map(|(x, y)| x.div_euclid(7) + y.rem_euclid(13) * 3).collect();
    assert_eq!(out, expected);
}

#[test]
fn division_by_a_tensor_rounds_down() {
    let a: Vec<i32> = (0..100).map(|i| i * 31 - 1500).collect();
    let b: Vec<i32> = (0..100).map(|i| if i % 2 == 0 { i + 1 } else { -i }).collect();
    let out = compute::<i32>(
        kernel!("idiv2"),
        [25, 1, 1],
        [1, 1, 1],
        100,
        &[&|d| d.upload(&a), &|d| d.upload(&b)],
    );
    let expected: Vec<i32> =
        a.iter().zip(&b).map(|(&x, &y)| (f64::from(x) / f64::from(y)).floor() as i32).collect();
    assert_eq!(out, expected);
}

#[test]
fn sixty_four_bit_integers_multiply_and_shift() {
    let mut random = Random(6);
    let mut wide = || i64::from(random.next() as i32) << 16 ^ i64::from(random.next());
    let [a, b, c]: [Vec<i64>; 3] = std::array::from_fn(|_| (0..100).map(|_| wide()).collect());
    let out = compute::<i64>(
        kernel!("i64"),
        [25, 1, 1],
        [1, 1, 1],
        100,
        &[&|d| d.upload(&a), &|d| d.upload(&b), &|d| d.upload(&c)],
    );
    let expected: Vec<i64> =
        (0..100).map(|i| a[i].wrapping_mul(b[i]).wrapping_add(c[i] >> 3)).collect();
    assert_eq!(out, expected);
}

#[test]
fn narrow_integers_wrap_and_extend() {
    let a: Vec<u16> = (0..64).map(|i| i * 1021).collect();
    let b: Vec<u16> = (0..64).map(|i| 65_535 - i * 997).collect();
    let out = compute::<i32>(
        kernel!("u16"),
        [1, 1, 1],
        [16, 1, 1],
        64,
        &[&|d| d.upload(&a), &|d| d.upload(&b)],
    );
    let expected: Vec<i32> = a
        .iter()
        .zip(&b)
        .map(|(x, &y)| i32::from(x.wrapping_mul(3)) + i32::from(y as i16))
        .collect();
    assert_eq!(out, expected);
}

#[test]
fn floats_become_bytes_towards_zero() {
    let a: Vec<f32> = (0..100).map(|i| i as f32 * 2.3 - 115.0).collect();
    let out = compute::<i8>(kernel!("cast_i8"), [25, 1, 1], [1, 1, 1], 100, &[&|d| d.upload(&a)]);
    let expected: Vec<i8> = a.iter().map(|&x| x as i8).collect();
    assert_eq!(out, expected);
}

#[test]
fn comparisons_give_bytes_of_zero_and_one() {
    let mut random = Random(7);
    let (a, b) = (random.floats(100), random.floats(100));
    let c: Vec<f32> = (0..100).map(|i| (i % 3) as f32).collect();
    let out = compute::<u8>(
        kernel!("bool_ops"),
        [25, 1, 1],
        [1, 1, 1],
        100,
        &[&|d| d.upload(&a), &|d| d.upload(&b), &|d| d.upload(&c)],
    );
    let expected: Vec<u8> = (0..100).map(|i| u8::from(a[i] < b[i] && c[i] != 0.0)).collect();
    assert_eq!(out, expected);
}

#[test]
fn selection_takes_either_side() {
    let mut random = Random(8);
    let (a, b) = (random.floats(100), random.floats(100));
    let out = compute::<f32>(
        kernel!("where"),
        [25, 1, 1],
        [1, 1, 1],
        100,
        &[&|d| d.upload(&a), &|d| d.upload(&b)],
    );
    assert_eq!(out, map2(&a, &b, |x, y| if x > 0.0 { y } else { -1.0 }));
}

#[test]
fn guarded_loads_never_touch_what_they_exclude() {
    let a: Vec<f32> = (0..35).map(|i| i as f32).collect();
    let out = compute::<f32>(kernel!("pad"), [7, 1, 1], [8, 2, 1], 112, &[&|d| d.upload(&a)]);
    let at = |row: usize, column: usize| {
        let inside = (3..10).contains(&column) && (1..6).contains(&row);
        if inside { a[(row - 1) * 7 + column - 3] } else { 0.0 }
    };
    // (1, 2) pads the rows, (3, 4) the columns.
    let expected: Vec<f32> = (0..112).map(|i| at(i / 14, i % 14) + 1.0).collect();
    assert_eq!(out, expected);
}

#[test]
fn rows_are_gathered_by_index() {
    let table = Random(9).floats(400);
    let indices: Vec<i32> = (0..20).map(|i| i * 7 % 50).collect();
    let out = compute::<f32>(
        kernel!("gather"),
        [5, 1, 1],
        [4, 2, 1],
        160,
        &[&|d| d.upload(&indices), &|d| d.upload(&table)],
    );
    let expected: Vec<f32> =
        indices.iter().flat_map(|&i| table[i as usize * 8..][..8].to_vec()).collect();
    assert_eq!(out, expected);
}

#[test]
fn doubles_keep_their_precision() {
    let a: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.37).collect();
    let out = compute::<f64>(kernel!("f64"), [25, 1, 1], [1, 1, 1], 100, &[&|d| d.upload(&a)]);
    let expected: Vec<f64> = a.iter().map(|x| (x * 2.0).sqrt() + 1.0).collect();
    assert_eq!(out, expected);
}

#[test]
fn rounding_clipping_floor_and_truncation_agree_with_the_host() {
    let values: Vec<f32> = (0..64).map(|i| i as f32 * 0.25 - 8.0).collect();
    let out = compute::<f32>(
        kernel!("clip_round"),
        [1, 1, 1],
        [16, 1, 1],
        64,
        &[&|d| d.upload(&values), &|d| d.upload(&values), &|d| d.upload(&values)],
    );
    let expected: Vec<f32> = values
        .iter()
        .map(|x| x.round_ties_even().clamp(-3.0, 5.0) + x.floor() + x.trunc())
        .collect();
    assert_eq!(out, expected);
}
