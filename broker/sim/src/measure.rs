//! Figures: shares by window, Jain's index, percentiles.

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all.
#[must_use]
pub fn jain(parts: &[f64]) -> f64 {
    let sum: f64 = parts.iter().sum();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (parts.len() as f64 * squares) }
}

/// The value below which this part of the values lies.
#[must_use]
pub fn percentile(values: &[u64], part: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_split_has_index_one() {
        assert!((jain(&[2.0; 8]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(percentile(&[5, 1, 3], 0.5), 3);
        assert_eq!(percentile(&[5, 1, 3], 0.99), 5);
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
